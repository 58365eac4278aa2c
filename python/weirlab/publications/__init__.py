"""The seven publications that Weir rebuilds: their values and claims, one file each.

A published number stands in these files and nowhere else: pages, docs and tests read it here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, get_args

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

    @property
    def reasons(self) -> str:
        """Why none of it can be had here, or parts of it."""
        of_values = (value.absent for value in self.values.values())
        of_claims = (claim.absent for claim in self.claims.values())
        return self.absent or "; ".join(dict.fromkeys(filter(None, (*of_values, *of_claims))))

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


def key_of(name: str) -> str:
    """The only key that begins with ``name``; else ``name`` itself."""
    keys = [key for key in KEYS if key.startswith(name)]
    return keys[0] if len(keys) == 1 else name


@cache
def publication(key: str) -> Publication:
    """The publication called ``key``.

    Raises
    ------
    InputError
        There is none of that name, or its file was changed and has a mistake.
    """
    if key not in KEYS:
        raise InputError(f"there is no publication {key!r}; choose from {', '.join(KEYS)}")
    file = resources.files(__name__).joinpath(f"{key}.yaml")
    try:
        return parsed(key, yaml.load(file.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"{file}: {error}") from None


def parsed(key: str, content: Any) -> Publication:
    """The content of a file; raises ``ValueError`` for what no file may contain."""
    about = _checked(content, _PUBLICATION, "the file")
    experiments = _mapping(about["experiments"], "experiments")
    return Publication(
        key=key,
        title=about["title"],
        authors=tuple(about["authors"]),
        year=str(about["year"]),
        source=about["source"],
        experiments={name: _experiment(name, each) for name, each in experiments.items()},
        contradictions=tuple(about.get("contradictions", ())),
    )


@dataclass(frozen=True)
class _FileKeys:
    """The keys of a part of a file."""

    needed: frozenset[str]
    more: frozenset[str] = frozenset()


_PUBLICATION: Final = _FileKeys(
    frozenset({"title", "authors", "year", "source", "experiments"}), frozenset({"contradictions"})
)
_EXPERIMENT: Final = _FileKeys(
    frozenset({"where", "question"}), frozenset({"settings", "values", "claims", "absent"})
)
_CLAIM: Final = _FileKeys(frozenset({"says"}), frozenset({"absent"}))
_FORMS: Final = ("value", "about", "range", "series")
_VALUE: Final = _FileKeys(frozenset({"what", "unit", "kind"}), frozenset({*_FORMS, "by", "absent", "note"}))


def _written(number: float) -> str:
    """``number`` as the authors give it: without zeros after the last decimal."""
    text = significant(number, 7)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _mapping(content: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: keys with values were expected, not {content!r}")
    return content


def _checked(content: Any, keys: _FileKeys, where: str) -> Mapping[str, Any]:
    """``content`` with all the keys that it needs, and no others."""
    found = _mapping(content, where)
    if unknown := found.keys() - keys.needed - keys.more:
        raise ValueError(f"{where}: no such key: {', '.join(map(str, unknown))}")
    if missing := keys.needed - found.keys():
        raise ValueError(f"{where}: missing: {', '.join(sorted(missing))}")
    return found


def _number(content: Any, where: str) -> float:
    if isinstance(content, bool) or not isinstance(content, int | float) or not math.isfinite(content):
        raise ValueError(f"{where}: a number was expected, not {content!r}")
    return float(content)


def _experiment(key: str, part: Any) -> PublishedExperiment:
    content = _checked(part, _EXPERIMENT, key)
    claims = {}
    for name, each in _mapping(content.get("claims") or {}, f"{key}/claims").items():
        claim = {"says": each} if isinstance(each, str) else each
        claims[name] = PublishedClaim(name, **_checked(claim, _CLAIM, f"{key}/{name}"))
    published = _mapping(content.get("values") or {}, f"{key}/values")
    values = [value for name, each in published.items() for value in _values(key, name, each)]
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


def _values(experiment: str, name: str, part: Any) -> Iterator[PublishedValue]:
    where = f"{experiment}/{name}"
    content = _checked(part, _VALUE, where)
    if sum(form in content for form in _FORMS) != 1:
        raise ValueError(f"{where}: give one of {', '.join(_FORMS)}")
    if content["kind"] not in get_args(Kind):
        raise ValueError(f"{where}: kind is one of {', '.join(get_args(Kind))}, not {content['kind']!r}")
    texts = {key: content.get(key, "") for key in ("what", "unit", "kind", "absent", "note")}
    if wrong := [key for key, text in texts.items() if not isinstance(text, str)]:
        raise ValueError(f"{where}: text was expected of {', '.join(wrong)}")
    if "series" in content:
        if "by" not in content:
            raise ValueError(f"{where}: 'by' says what the points of the series are")
        for point, value in _mapping(content["series"], where).items():
            at, here = _number(point, where), _number(value, f"{where}@{point}")
            own = {**texts, "what": f"{content['what']}, {content['by']} {at:g}"}
            yield PublishedValue(f"{name}@{at:g}", low=here, high=here, at=at, **own)
        return
    if "range" in content:
        low, high = _ends(content["range"], where)
    else:
        low = high = _number(content["value"] if "value" in content else content["about"], where)
    yield PublishedValue(name, low=low, high=high, about="about" in content, **texts)


def _ends(content: Any, where: str) -> tuple[float, float]:
    if not isinstance(content, list) or len(content) != 2 or content == [None, None]:
        raise ValueError(f"{where}: a range has two ends, one of which may be null, not {content!r}")
    low, high = (
        open_end if end is None else _number(end, where)
        for end, open_end in zip(content, (-math.inf, math.inf), strict=True)
    )
    if low > high:
        raise ValueError(f"{where}: the range {content!r} ends before it begins")
    return low, high
