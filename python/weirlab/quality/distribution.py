"""How quality is spread over the callers of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.records import CallTable

F64 = npt.NDArray[np.float64]

SATISFIED: Final = 4.0
"""MOS at R = 80 (G.109): users are satisfied."""

DISSATISFIED: Final = 3.6
"""MOS at R = 70 (G.109): below it, many users are dissatisfied."""

_SHARES: Final = (0.01, 0.05, 0.5, 0.95, 0.99)


@dataclass(frozen=True)
class CallerPercentiles:
    """Percentiles over callers; NaN if nothing was measured."""

    p1: float
    p5: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: F64) -> CallerPercentiles:
        known = values[~np.isnan(values)]
        if not known.size:
            return cls(*(float("nan") for _ in _SHARES))
        return cls(*(float(value) for value in np.quantile(known, _SHARES)))


@dataclass(frozen=True)
class WorstCaller:
    """The caller with the lowest MOS, and of those the one with most loss."""

    call: int
    back: bool
    mos: float
    loss_ratio: float


@dataclass(frozen=True)
class CallerGroup:
    """A group of callers; each side of a call is one.

    Shares are of those with a MOS, 0-1; ``not_measured`` are the others.
    """

    callers: int
    not_measured: int
    mos: CallerPercentiles
    delay_ns: CallerPercentiles
    """Of each caller's mean delay in the network."""
    loss_ratio: CallerPercentiles
    worst: WorstCaller | None
    below_satisfied: float
    """Share below MOS 4.0."""
    below_dissatisfied: float
    """Share below MOS 3.6."""


@dataclass(frozen=True)
class QualitySummary:
    """All callers, and those of each direction and class that has any."""

    everyone: CallerGroup
    forward: CallerGroup | None
    back: CallerGroup | None
    classes: dict[str, CallerGroup]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, NaN included."""
        return asdict(self)

    def sentence(self) -> str:
        """The result in one sentence."""
        return describe(self.everyone)


def summarise(table: CallTable, titles: Sequence[str] = ()) -> QualitySummary:
    """Spread of quality over the callers; ``titles`` names the classes, in their order."""

    def group(chosen: npt.NDArray[np.bool_]) -> CallerGroup | None:
        return _group(table, chosen) if chosen.any() else None

    classes = {}
    for index in np.unique(table.call_class):
        title = titles[index] if index < len(titles) else f"class {index}"
        if title in classes:
            title = f"{title} ({index + 1})"
        classes[title] = _group(table, table.call_class == index)
    return QualitySummary(
        everyone=_group(table, np.ones(len(table), dtype=np.bool_)),
        forward=group(~table.back),
        back=group(table.back),
        classes=classes,
    )


def describe(group: CallerGroup) -> str:
    """``98 of 100 callers hear MOS 4.0 or better; the worst, call 7 back, hears 2.31.``"""
    measured = group.callers - group.not_measured
    if group.worst is None:
        return f"MOS was not measured for any of {group.callers:,} callers."
    worst = group.worst
    side = "back" if worst.back else "forward"
    satisfied = round((1 - group.below_satisfied) * measured)
    text = (
        f"{satisfied:,} of {measured:,} callers hear MOS {SATISFIED:.1f} or better; "
        f"the worst, call {worst.call} {side}, hears {worst.mos:.2f}"
    )
    if group.below_dissatisfied > 0:
        low = round(group.below_dissatisfied * measured)
        text += f", and {low:,} {'is' if low == 1 else 'are'} below {DISSATISFIED:.1f}"
    if group.not_measured:
        text += f"; MOS was not measured for {group.not_measured:,}"
    return text + "."


def _group(table: CallTable, chosen: npt.NDArray[np.bool_]) -> CallerGroup:
    mos = table.mos[chosen]
    known = ~np.isnan(mos)
    loss = _ratio(table.lost[chosen], table.sent[chosen])
    worst = None
    if known.any():
        index = int(np.lexsort((-loss, np.where(known, mos, np.inf)))[0])
        row = int(np.flatnonzero(chosen)[index])
        worst = WorstCaller(
            int(table.call[row]), bool(table.back[row]), float(mos[index]), float(loss[index])
        )
    return CallerGroup(
        callers=len(mos),
        not_measured=int(np.count_nonzero(~known)),
        mos=CallerPercentiles.of(mos),
        delay_ns=CallerPercentiles.of(table.delay_mean_ns[chosen]),
        loss_ratio=CallerPercentiles.of(loss),
        worst=worst,
        below_satisfied=_share(mos[known] < SATISFIED),
        below_dissatisfied=_share(mos[known] < DISSATISFIED),
    )


def _ratio(part: npt.NDArray[np.uint64], whole: npt.NDArray[np.uint64]) -> F64:
    result = np.full(len(whole), np.nan)
    np.divide(part.astype(np.float64), whole.astype(np.float64), out=result, where=whole > 0)
    return result


def _share(which: npt.NDArray[np.bool_]) -> float:
    return float(np.mean(which)) if which.size else float("nan")


_LEAST_NS: Final = 100.0
_PER_DECADE: Final = 20
_DECADES: Final = 8
EDGES_NS: Final[F64] = np.concatenate(
    ([0.0], _LEAST_NS * 10 ** (np.arange(_PER_DECADE * _DECADES + 1) / _PER_DECADE))
)
"""Up to 100 ns, then 20 in every decade up to 10 s."""


def counted(values_ns: npt.ArrayLike) -> Iterator[tuple[float, float, int]]:
    """Bins with something in them: from (inclusive) and to, in ns, and how many of ``values_ns``.

    What is longer than all bins belongs into the last one.
    """
    found, _ = np.histogram(np.minimum(np.asarray(values_ns, np.float64), EDGES_NS[-1]), EDGES_NS)
    for place in np.flatnonzero(found):
        yield float(EDGES_NS[place]), float(EDGES_NS[place + 1]), int(found[place])
