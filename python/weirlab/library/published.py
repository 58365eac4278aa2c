"""Devices of the literature: thresholds as read from publications, which Weir did not measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from weirlab.publications import Publication, publication


@dataclass(frozen=True)
class PublishedThreshold:
    """The load from which on a published device loses packets."""

    device: str
    rules: int
    low_pps: float
    high_pps: float
    """As ``low_pps``, unless the authors give a range."""
    publication: Publication
    where: str
    """Section, figure or table."""


@dataclass(frozen=True)
class _Source:
    device: str
    publication: str
    experiment: str
    series: str = ""
    """A series over the number of rules."""
    values: tuple[tuple[str, int], ...] = ()
    """Single values with their number of rules."""


_SOURCES: Final = (
    _Source(
        "eagle40", "lohmiller-2022", "threshold", "measured", (("measured-0", 0), ("measured-1000", 1000))
    ),
    _Source("openbsd-pf-2006", "woernhard-2006", "forwarding-capacity", values=(("capacity", 0),)),
)


def published_thresholds() -> list[PublishedThreshold]:
    """All of them, by device and number of rules."""
    found = [threshold for source in _SOURCES for threshold in _thresholds(source)]
    return sorted(found, key=lambda each: (each.device, each.rules))


def _thresholds(source: _Source) -> Iterator[PublishedThreshold]:
    by = publication(source.publication)
    experiment = by.experiments[source.experiment]
    points = experiment.series(source.series) if source.series else {}
    for rules, number in points.items():
        yield PublishedThreshold(source.device, int(rules), number, number, by, experiment.where)
    for key, rules in source.values:
        value = experiment.values[key]
        yield PublishedThreshold(source.device, rules, value.low, value.high, by, experiment.where)
