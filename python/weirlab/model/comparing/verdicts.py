"""The result of a comparison: changed, unchanged, or cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from weirlab.model.comparing.matching import (
    QUANTITIES,
    Compared,
    ComparisonSetting,
    SettingDifference,
    SettingMeasurement,
    contrast,
    losses,
)
from weirlab.model.comparing.scatter import (
    CONTRADICTION,
    ENOUGH_FREEDOM,
    NONE,
    PUBLISHED,
    Estimate,
    Scatter,
    Source,
    averaged,
    between,
    estimate,
)

Verdict = Literal["worse", "better", "unchanged", "not worse", "cannot tell"]
"""``not worse``: unchanged or better, without saying which."""

GOOD: Final[tuple[Verdict, ...]] = ("unchanged", "better", "not worse")
Runs = Sequence[Mapping[ComparisonSetting, SettingMeasurement]]

MARGINS: Final[Mapping[Compared, float]] = {"rate": 0.08, "mean": 0.08, "p99": 0.2, "loss": 0.002}
"""Changes up to which a device counts as unchanged: what one run of each can just about prove, with the
published scatter. Relative; for loss absolute."""

CERTAINTY: Final = 0.98
"""Share of comparisons of a device with itself, at least, that find no change in any quantity."""

EQUIVALENCE: Final = 0.05
"""Risk of calling a difference of just the margin unchanged: two one-sided tests (Schuirmann, 1987)."""

WITHIN_LEVEL: Final = 1 - 2 * EQUIVALENCE
"""Level of the interval whose ends are the two one-sided tests."""

WIDE: Final = "the interval is too wide"

POWER: Final = 0.8
"""Probability of a proof with the recommended number of runs, and of finding a change that is there."""

_SINGLE: Final = "a single trial on one side has no scatter: repeat it (--repetitions 10)"
_ONE_LOAD: Final = (
    "too few loads below the threshold are in both runs: profile more of them (--loads, without --quick)"
)


@dataclass(frozen=True)
class ComparisonTerms:
    """Margins, certainty and scatter of a comparison."""

    margins: Mapping[Compared, float] = field(default_factory=lambda: dict(MARGINS))
    certainty: float = CERTAINTY
    given: Mapping[Compared, float] = field(default_factory=dict)
    """Scatter from run to run, relative, if the user knows it."""
    simulated: bool = False


@dataclass(frozen=True)
class ComparisonFinding:
    """The verdict on one quantity. Changes are relative (-0.1: a tenth less), for loss absolute."""

    quantity: Compared
    verdict: Verdict
    change: float
    low: float
    high: float
    """The interval that contains the true change with the certainty, for all quantities together."""
    margin: float
    places: int
    """Settings compared."""
    scatter: float
    """From run to run, relative; NaN for loss."""
    source: Source | Literal["repetitions"]
    """Where the scatter comes from."""
    why: str = ""
    """Why there is no verdict."""
    provable: float = math.nan
    """The smallest margin within which these runs would prove it unchanged."""
    runs_needed: int | None = None
    """Number of runs of each with which the margin can be proved, if nothing changed."""
    matches: tuple[SettingDifference, ...] = ()
    within: tuple[float, float] = (math.nan, math.nan)
    """The interval that has to lie inside the margin for ``unchanged``: by two one-sided tests."""

    @property
    def rests_on(self) -> tuple[float, float, float]:
        """The interval that decides the verdict, and its level: a change lies outside 0 with the certainty of
        the comparison (level NaN), no change inside the margin at :data:`WITHIN_LEVEL`.
        """
        if self.verdict in ("worse", "better"):
            return self.low, self.high, math.nan
        return *self.within, WITHIN_LEVEL

    @property
    def text(self) -> str:
        """The verdict in words: a change that is proved, but within the margin, has its direction."""
        low, high = self.within
        if self.verdict != "unchanged" or low <= 0 <= high or math.isnan(low):
            return self.verdict
        return f"{'better' if (low > 0) == (self.quantity == 'rate') else 'worse'}, within the margin"

    @property
    def title(self) -> str:
        return QUANTITIES[self.quantity]

    def document(self) -> dict[str, Any]:
        """For ``--json``; settings by their relative change."""
        plain = {name: value for name, value in vars(self).items() if name != "matches"}
        settings = [
            {"setting": match.place.text, "change": math.expm1(match.difference)} for match in self.matches
        ]
        return {**plain, "title": self.title, "settings": settings}


@dataclass(frozen=True)
class Level:
    """A change on its own scale with its standard error."""

    value: float
    stderr: float
    freedom: float
    places: int
    scatter: float
    source: Source | Literal["repetitions"]
    per_run: float
    """Variance of one run's level, which more runs would divide."""
    why: str = ""
    matches: tuple[SettingDifference, ...] = ()


@dataclass(frozen=True)
class _ChangeCertainty:
    """How certain a change is, and from which scatter that is known; see :class:`Level`."""

    stderr: float
    freedom: float
    scatter: float
    source: Source
    per_run: float


def compare(before: Runs, after: Runs, terms: ComparisonTerms, *, same_load: bool) -> list[ComparisonFinding]:
    """A finding for every quantity that both sides have; empty if they have nothing in common."""
    levels: dict[Compared, Level] = {}
    for quantity in QUANTITIES:
        level = (
            _loss(before, after)
            if quantity == "loss"
            else _logs(before, after, quantity, terms, same_load=same_load)
        )
        if level is not None:
            levels[quantity] = level
    return [finding(quantity, level, terms, len(levels)) for quantity, level in levels.items()]


def overall(findings: Sequence[ComparisonFinding]) -> Verdict:
    """The verdict over all findings: one change for the worse is enough; unchanged means all unchanged."""
    order: tuple[Verdict, ...] = ("worse", "cannot tell", "better", "not worse", "unchanged")
    return next((verdict for verdict in order for one in findings if one.verdict == verdict), "cannot tell")


def _logs(
    before: Runs, after: Runs, quantity: Compared, terms: ComparisonTerms, *, same_load: bool
) -> Level | None:
    pairs = [contrast(one, other, quantity, same_load=same_load) for one in before for other in after]
    matches = averaged(pairs)
    counts = (len(before), len(after))
    found = estimate(matches, counts)
    if found is None:
        return None
    scatter = _assumed(quantity, terms)
    share = 1 / counts[0] + 1 / counts[1]
    seen, freedom = between((before, after), quantity, same_load=same_load)
    alone = math.isnan(found.stderr)
    if freedom >= (1 if alone else ENOUGH_FREEDOM) and scatter.source != "given":
        stderr = math.sqrt(seen * share)
        by = _ChangeCertainty(stderr, freedom, math.sqrt(seen), "these runs", seen)
        return _level(found, matches, by)
    if alone:
        why = _SINGLE if same_load or quantity == "rate" else _ONE_LOAD
        by = _ChangeCertainty(math.nan, math.inf, scatter.run, scatter.source, math.nan)
        return _level(found, matches, by, why)
    # The scatter over places already includes what single settings add, if there are enough of them.
    known = scatter.run**2 + (0.0 if found.by_places else scatter.place**2 / found.places)
    per_run = known + found.stderr**2 / share
    source = scatter.source
    variance = per_run * share
    # Satterthwaite: the part that was estimated limits the freedom.
    limited = found.freedom * (variance / found.stderr**2) ** 2 if found.stderr > 0 else math.inf
    if freedom and seen > per_run and source == "published runs":
        if freedom * seen > per_run * chdtri(freedom, CONTRADICTION):
            limited = freedom
        per_run, source = seen, "these runs"
        variance = per_run * share
    told = math.sqrt(per_run if source == "these runs" else known)
    return _level(found, matches, _ChangeCertainty(math.sqrt(variance), limited, told, source, per_run))


def _level(
    found: Estimate, matches: Sequence[SettingDifference], by: _ChangeCertainty, why: str = ""
) -> Level:
    return Level(
        value=found.difference,
        stderr=by.stderr,
        freedom=by.freedom,
        places=found.places,
        scatter=by.scatter,
        source=by.source,
        per_run=by.per_run,
        why=why,
        matches=tuple(matches),
    )


def _assumed(quantity: Compared, terms: ComparisonTerms) -> Scatter:
    if quantity in terms.given:
        return Scatter(terms.given[quantity], 0.0, "given")
    return NONE if terms.simulated else PUBLISHED[quantity]


def _loss(before: Runs, after: Runs) -> Level | None:
    """Mean loss ratio over trials, by Welch's test: losses of different runs were not correlated."""
    first_places = {place for run in before for place in run}
    places = sorted(first_places & {place for run in after for place in run}, key=lambda place: place.text)
    first, second = losses(before, places), losses(after, places)
    if not len(first) or not len(second):
        return None
    value = float(second.mean() - first.mean())
    if min(len(first), len(second)) < 2:
        why = "" if value == 0 else _SINGLE
        return Level(
            value, math.nan if why else 0.0, math.inf, len(places), math.nan, "repetitions", math.nan, why
        )
    parts = [(float(np.var(side, ddof=1)) / len(side), len(side) - 1) for side in (first, second)]
    total = sum(variance for variance, _ in parts)
    spread = sum(variance**2 / freedom for variance, freedom in parts)
    freedom = total**2 / spread if spread else math.inf
    return Level(
        value,
        math.sqrt(total),
        freedom,
        len(places),
        math.nan,
        "repetitions",
        total / (1 / len(before) + 1 / len(after)),
    )


def detectable(quantity: Compared, stderr: float, terms: ComparisonTerms) -> tuple[float, float]:
    """The relative change that is found with the probability :data:`POWER`, and the one beyond which an
    unchanged device is excluded with it."""
    sure = float(ndtri(1 - (1 - terms.certainty) / 2 / len(QUANTITIES)) + ndtri(POWER))
    equal = float(ndtri(1 - EQUIVALENCE) + ndtri((1 + POWER) / 2))
    # A change that is proved to be within the margin counts as none.
    beyond = math.log1p(terms.margins[quantity]) - float(ndtri(1 - EQUIVALENCE) - ndtri(POWER)) * stderr
    return math.expm1(max(sure * stderr, beyond)), math.expm1(equal * stderr)


def finding(quantity: Compared, level: Level, terms: ComparisonTerms, compared: int) -> ComparisonFinding:
    """The verdict on one quantity of ``compared``."""
    linear = quantity == "loss"
    margin = terms.margins[quantity]
    # Bonferroni: every quantity has its share of the risk.
    sure = _quantile(1 - (1 - terms.certainty) / 2 / compared, level.freedom) * level.stderr
    equal = _quantile(1 - EQUIVALENCE, level.freedom) * level.stderr
    ends = (level.value - sure, level.value + sure)
    narrow = (level.value - equal, level.value + equal)
    room = (-margin, margin) if linear else (math.log1p(-margin), math.log1p(margin))
    shown = (lambda value: value) if linear else math.expm1
    good_up = quantity == "rate"
    why = level.why
    verdict: Verdict
    if room[0] <= narrow[0] and narrow[1] <= room[1]:
        verdict = "unchanged"
    elif ends[0] > 0 or ends[1] < 0:
        verdict = "better" if (level.value > 0) == good_up else "worse"
    elif room[0] <= narrow[0] if good_up else narrow[1] <= room[1]:
        verdict = "not worse"
    else:
        verdict = "cannot tell"
        why = why or WIDE
    provable = max(abs(shown(end)) for end in narrow)
    return ComparisonFinding(
        quantity,
        verdict,
        shown(level.value),
        shown(ends[0]),
        shown(ends[1]),
        margin,
        level.places,
        level.scatter,
        level.source,
        why,
        provable,
        _runs_needed(level, room[1]),
        level.matches,
        (shown(narrow[0]), shown(narrow[1])),
    )


def _runs_needed(level: Level, room: float) -> int | None:
    if not math.isfinite(level.per_run):
        return None
    # With no change at all both one-sided tests have to succeed.
    reach = float(ndtri(1 - EQUIVALENCE) + ndtri((1 + POWER) / 2))
    return max(1, math.ceil(2 * level.per_run * (reach / room) ** 2))


def _quantile(probability: float, freedom: float) -> float:
    return float(ndtri(probability) if math.isinf(freedom) else stdtrit(freedom, probability))
