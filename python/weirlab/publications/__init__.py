"""The seven publications that Weir rebuilds: their values and claims, one file each.

A published number stands in these files and nowhere else: pages, docs and tests read it here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

import yaml

from weirlab.base.errors import InputError
from weirlab.base.quantities import significant

Kind = Literal["measured", "computed", "claimed", "given"]
"""How the authors came by a value; ``given``: a setting, or taken from elsewhere."""

KEYS: Final = (
    "lohmiller-2022", "woernhard-2006", "ubik-psock-2007", "ubik-tbwtools-2007", "cesnet-routing-2007",
    "kazemi-ipsec-voip", "chertov-link-monitor",
)  # fmt: skip


@dataclass(frozen=True)
class PublishedValue:
    """A number, or a range, in ``unit``."""

    key: str
    """``name``, or ``name@x`` for a point of a series."""
    what: str
    unit: str
    kind: Kind
    low: float
    """-inf: no lower end."""
    high: float
    """inf: no upper end."""
    about: bool = False
    """The authors round it."""
    absent: str = ""
    """Why it cannot be had here."""
    note: str = ""
    at: float | None = None
    """The point of a series."""

    @property
    def number(self) -> float:
        """The value; raises ``ValueError`` for a range."""
        if self.low != self.high:
            raise ValueError(f"{self.key} is a range")
        return self.low

    @property
    def text(self) -> str:
        """The value without its unit, as tables show it."""
        if self.low == self.high:
            return ("about " if self.about else "") + _written(self.low)
        if math.isinf(self.low):
            return f"up to {_written(self.high)}"
        if math.isinf(self.high):
            return f"at least {_written(self.low)}"
        return f"{_written(self.low)} to {_written(self.high)}"


@dataclass(frozen=True)
class PublishedClaim:
    """A sentence that measurements can support or refute."""

    key: str
    says: str
    absent: str = ""
    """Why it cannot be decided here."""


@dataclass(frozen=True)
class PublishedExperiment:
    """What the authors did to answer one question."""

    key: str
    where: str
    """Section, figure or table."""
    question: str
    values: Mapping[str, PublishedValue]
    claims: Mapping[str, PublishedClaim]
    settings: Mapping[str, Any] = field(default_factory=dict)
    absent: str = ""
    """Why none of it can be had here."""

    def series(self, name: str) -> Mapping[float, float]:
        """The points of a series, in their order."""
        points = [value for value in self.values.values() if value.key.startswith(f"{name}@")]
        return {value.at: value.number for value in points if value.at is not None}


@dataclass(frozen=True)
class Publication:
    """One publication."""

    key: str
    title: str
    authors: tuple[str, ...]
    year: str
    source: str
    experiments: Mapping[str, PublishedExperiment]
    contradictions: tuple[str, ...] = ()

    @property
    def citation(self) -> str:
        """Authors, title, source."""
        *others, last = self.authors
        names = f"{', '.join(others)} and {last}" if others else last
        return f"{names}: {self.title}. {self.source}."

    def value(self, experiment: str, key: str) -> PublishedValue:
        """One value; raises ``KeyError`` if there is none."""
        return self.experiments[experiment].values[key]

    def number(self, experiment: str, key: str) -> float:
        """One number, in the unit of the file."""
        return self.value(experiment, key).number


@cache
def publication(key: str) -> Publication:
    """The publication called ``key``.

    Raises
    ------
    InputError
        There is none of that name.
    """
    if key not in KEYS:
        raise InputError(f"there is no publication {key!r}; choose from {', '.join(KEYS)}")
    text = resources.files(__name__).joinpath(f"{key}.yaml").read_text("utf-8")
    return parsed(key, yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def parsed(key: str, content: Mapping[str, Any]) -> Publication:
    """The content of a file; raises ``ValueError`` for what no file may contain."""
    return Publication(
        key=key,
        title=content["title"],
        authors=tuple(content["authors"]),
        year=str(content["year"]),
        source=content["source"],
        experiments={name: _experiment(name, each) for name, each in content["experiments"].items()},
        contradictions=tuple(content.get("contradictions", ())),
    )


_EXPERIMENT: Final = {"where", "question", "settings", "values", "claims", "absent"}
_CLAIM: Final = {"says", "absent"}
_VALUE: Final = {"what", "unit", "kind", "value", "about", "range", "series", "by", "absent", "note"}


def _written(number: float) -> str:
    """``number`` as the authors give it: without zeros after the last decimal."""
    text = significant(number, 7)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _known(content: Mapping[str, Any], keys: set[str], where: str) -> None:
    if unknown := content.keys() - keys:
        raise ValueError(f"{where}: no such key: {', '.join(sorted(unknown))}")


def _experiment(key: str, content: Mapping[str, Any]) -> PublishedExperiment:
    _known(content, _EXPERIMENT, key)
    claims = {}
    for name, each in (content.get("claims") or {}).items():
        claim = {"says": each} if isinstance(each, str) else each
        _known(claim, _CLAIM, f"{key}/{name}")
        claims[name] = PublishedClaim(name, **claim)
    values = [
        value for name, each in (content.get("values") or {}).items() for value in _values(key, name, each)
    ]
    if twice := claims.keys() & {value.key for value in values}:
        raise ValueError(f"{key}: both a value and a claim are called {', '.join(sorted(twice))}")
    return PublishedExperiment(
        key=key,
        where=content["where"],
        question=content["question"],
        values={value.key: value for value in values},
        claims=claims,
        settings=content.get("settings") or {},
        absent=content.get("absent", ""),
    )


def _values(experiment: str, name: str, content: Mapping[str, Any]) -> Iterator[PublishedValue]:
    where = f"{experiment}/{name}"
    _known(content, _VALUE, where)
    if sum(form in content for form in ("value", "about", "range", "series")) != 1:
        raise ValueError(f"{where}: give one of value, about, range and series")
    shared = {
        "what": content["what"],
        "unit": content.get("unit", ""),
        "kind": content["kind"],
        "absent": content.get("absent", ""),
        "note": content.get("note", ""),
    }
    if "series" in content:
        for point, value in content["series"].items():
            words = f"{content['what']}, {content['by']} {point:g}"
            own = {**shared, "what": words}
            yield PublishedValue(
                f"{name}@{point:g}", low=float(value), high=float(value), at=float(point), **own
            )
        return
    if "range" in content:
        low, high = content["range"]
        ends = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    else:
        ends = (float(content["value"] if "value" in content else content["about"]),) * 2
    yield PublishedValue(name, low=ends[0], high=ends[1], about="about" in content, **shared)
