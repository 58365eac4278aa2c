"""The cost of connection tracking, cross traffic and mixed positions, trial against trial.

No model is involved: trials at the same load that differ in only one thing are compared.
The effect is the mean over the loads of ln(with / without); its uncertainty follows from
the scatter of the repetitions (pooled over all loads) by Student's t.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from scipy.special import stdtrit

from weirlab.records import Observation

Kind = Literal["connection tracking", "cross traffic", "mixed positions"]
Regime = Literal["below the threshold", "overload"]

LEVEL: Final = 0.95
NO_LOSS: Final = 0.001
"""Loss ratio up to which a trial counts as below the threshold."""
OVERLOAD_LOSS: Final = 0.05
"""Loss ratio from which it counts as overload; between the two the regimes mix."""

QUANTITIES: Final[Mapping[Regime, tuple[str, ...]]] = {
    "below the threshold": ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns"),
    "overload": ("forwarding_pps", "delay_p50_ns"),
}


@dataclass(frozen=True)
class Effect:
    """How one quantity changes if one thing is different."""

    kind: Kind
    position: float
    """Mean matching position."""
    frame_bytes: float
    places: str
    """Where traffic matched, for mixed positions: the counterpart all matched at ``position``."""
    regime: Regime
    quantity: str
    """Name of the :class:`Observation`'s field."""
    ratio: float
    """With over without, geometric mean over the loads; 1 is no effect."""
    low: float
    """Bounds of the interval that contains the true ratio in 95 % of the cases; NaN without repetitions."""
    high: float
    loads: int
    """Loads compared."""
    trials: int
    """Trials on both sides together."""


@dataclass(frozen=True)
class _EffectSetting:
    """What repetitions have in common."""

    position: float
    frame_bytes: float
    gap_scv: float
    load: str
    stateful: bool
    cross_traffic: bool
    places: str

    @classmethod
    def of(cls, seen: Observation) -> _EffectSetting:
        load = str(seen.extra.get("rate_text", f"{seen.rate_pps:.3g}"))
        places = str(seen.extra.get("places", ""))
        # Shares such as a third do not add up exactly.
        position = round(seen.position, 3)
        return cls(position, seen.frame_bytes, seen.gap_scv, load, seen.stateful, seen.cross_traffic, places)

    def without(self) -> Iterable[tuple[Kind, _EffectSetting]]:
        """The settings that lack one of the things that this one has."""
        if self.stateful:
            yield "connection tracking", replace(self, stateful=False)
        if self.cross_traffic:
            yield "cross traffic", replace(self, cross_traffic=False)
        if self.places:
            yield "mixed positions", replace(self, places="")


_Pair = tuple[list[Observation], list[Observation]]


def effects(observations: Iterable[Observation]) -> tuple[Effect, ...]:
    """Every effect that the ``observations`` show; empty if none of them differ in one thing only.

    They differ in ``stateful``, ``cross_traffic`` or, for traffic at several positions, in
    ``extra["places"]``; loads are the same if ``extra["rate_text"]`` is.
    """
    trials: dict[_EffectSetting, list[Observation]] = defaultdict(list)
    for seen in observations:
        trials[_EffectSetting.of(seen)].append(seen)
    pairs: dict[tuple[Kind, float, float, str, Regime], list[_Pair]] = defaultdict(list)
    for setting, changed in trials.items():
        for kind, other in setting.without():
            base = trials.get(other, [])
            if base and (regime := _regime(base)):
                where = (kind, setting.position, setting.frame_bytes, setting.places, regime)
                pairs[where].append((changed, base))
    return tuple(
        found
        for where in sorted(pairs)
        for quantity in QUANTITIES[where[4]]
        if (found := _effect(where, quantity, pairs[where])) is not None
    )


def _regime(base: Sequence[Observation]) -> Regime | None:
    """The regime of the trials that others are compared with; None if they are of several."""
    losses = [seen.loss_ratio for seen in base]
    if max(losses) <= NO_LOSS:
        return "below the threshold"
    return "overload" if min(losses) >= OVERLOAD_LOSS else None


def _effect(
    where: tuple[Kind, float, float, str, Regime], quantity: str, pairs: Sequence[_Pair]
) -> Effect | None:
    differences: list[float] = []
    squares, freedom, variance_factor = 0.0, 0, 0.0
    for pair in pairs:
        sides = [np.log([getattr(seen, quantity) for seen in side]) for side in pair]
        if not all(np.isfinite(side).all() for side in sides):
            continue
        differences.append(float(sides[0].mean() - sides[1].mean()))
        for side in sides:
            squares += float(((side - side.mean()) ** 2).sum())
            freedom += len(side) - 1
            variance_factor += 1 / len(side)
    if not differences:
        return None
    mean, margin = float(np.mean(differences)), math.nan
    if freedom > 0:
        stderr = math.sqrt(squares / freedom * variance_factor) / len(differences)
        margin = float(stdtrit(freedom, (1 + LEVEL) / 2)) * stderr
    kind, position, frame_bytes, places, regime = where
    return Effect(
        kind=kind,
        position=position,
        frame_bytes=frame_bytes,
        places=places,
        regime=regime,
        quantity=quantity,
        ratio=math.exp(mean),
        low=math.exp(mean - margin),
        high=math.exp(mean + margin),
        loads=len(differences),
        trials=sum(len(side) for pair in pairs for side in pair),
    )
