"""Profiles and published devices as tables, and the chapters about them of a ranking's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, plural, rate
from weirlab.library import LibraryEntry, ProfileBundle
from weirlab.library.published import PublishedThreshold, published_thresholds
from weirlab.report.story import Chapter

UNEQUAL: Final = "Profiles of different machines compare those machines, too: mind where each was measured."


def entries(found: Sequence[LibraryEntry]) -> list[Table]:
    """One row for each bundle."""
    rows = [
        (
            entry.name,
            entry.bundle.id[:12],
            count(entry.bundle.trials.height),
            entry.bundle.manifest.measured[:10],
            kind(entry.bundle),
            entry.place,
            entry.bundle.manifest.host,
        )
        for entry in found
    ]
    columns = ("Name", "Identity", "Trials", "Date", "Kind", "Library", "Host")
    return [Table("Profiles", columns, rows, spare=("Host", "Library"))] if rows else []


def kind(bundle: ProfileBundle) -> str:
    """Whether it was measured or simulated, and whether it counts."""
    if bundle.manifest.simulated:
        return "simulated"
    return "measured, does not count" if bundle.device.unusable else "measured"


def published(found: Sequence[PublishedThreshold]) -> list[Table]:
    """One row for each published threshold."""
    rows = [
        (
            each.device,
            count(each.rules),
            rate(each.low_pps)
            if each.low_pps == each.high_pps
            else f"{rate(each.low_pps)} to {rate(each.high_pps)}",
            each.publication.key,
            each.where,
        )
        for each in found
    ]
    columns = ("Device", "Rules", "Threshold", "Publication", "Where")
    return [Table("Read from publications, not measured here", columns, rows, spare=("Where",))]


def bundle(found: ProfileBundle, place: str) -> list[Table]:
    """What a bundle says of itself."""
    known = found.manifest
    rows = [
        ("identity", f"{found.id[:32]}..."),
        ("library", place),
        ("kind", kind(found)),
        ("measured", known.measured),
        ("on", known.host),
        ("trials", count(found.trials.height)),
        ("positions", _listed(found, "position")),
        ("frames", f"{_listed(found, 'frame_bytes')} B"),
        ("licence", known.licence),
        ("remark", known.remark or NOTHING),
        *((key, str(value)) for key, value in known.conditions.items()),
    ]
    return [Table(known.name, ("Fact", "Value"), rows)]


def _listed(found: ProfileBundle, column: str) -> str:
    values = sorted({round(value) for value in found.trials[column].to_list()})
    return ", ".join(map(str, values))


def thresholds(found: ProfileBundle) -> list[Table]:
    """Median forwarding rate in overload by rules and frame size, as the trials have it."""
    frame = found.trials.filter(~found.trials["stateful"] & ~found.trials["cross_traffic"])
    overload = frame.filter(frame["loss_ratio"] > _OVERLOAD_LOSS)
    rows = [
        (count(position), f"{size:g} B", rate(float(np.median(group["forwarding_pps"]))), count(group.height))
        for (position, size), group in sorted(overload.group_by("position", "frame_bytes"))
    ]
    columns = ("Rules", "Frames", "Threshold", "Trials")
    return [Table("Forwarding rate in overload", columns, rows)] if rows else []


_OVERLOAD_LOSS: Final = 0.02
"""Loss from which on a trial counts as one in overload."""


def chapters(found: Sequence[LibraryEntry], rules: int, need_pps: float | None) -> list[Chapter]:
    """Where the profiles were measured, and what the literature has beside them."""
    beside = [each for each in published_thresholds() if each.rules <= rules]
    last = {each.device: each for each in beside}
    need = "" if need_pps is None else f" The calls in question make {rate(need_pps)}."
    return [
        Chapter(
            "origin",
            "Where each profile was measured",
            "Origin",
            tables=tuple(entries(found)),
            said=(UNEQUAL,),
        ),
        Chapter(
            "literature",
            "Devices of the literature",
            "Literature",
            tables=tuple(published(list(last.values()))),
            said=(
                f"Thresholds as published, at the most rules up to {plural(rules, 'rule')}.{need} A "
                "publication has no trials, so Weir predicts nothing from it.",
            ),
        ),
    ]
