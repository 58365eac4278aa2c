"""A tunnel behind rules, from a profile of each: one CPU for both, or one each.

The rules were profiled without a tunnel, the tunnel without rules; frame sizes are those in the clear.

With one CPU every packet costs what the tunnel takes, and what the rules add to a filter without any::

    s(n, L) = s_tunnel(0, L) + s_rules(n, L) - s_rules(0, L)

The laws of the tunnel's queue, path and host then hold with that service time: waiting grows with it. With
one CPU each, the two are queues in tandem: the slower one limits the load, and delays add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from weirlab.base.errors import ModelError
from weirlab.model.base import (
    DELAYS,
    F64,
    LEVELS,
    QUANTITIES,
    Band,
    Prediction,
    Predictor,
    ProfileRange,
    places,
    settings,
)
from weirlab.model.intervals.calibration import IntervalCalibration, ScoreLimits
from weirlab.model.queueing import QueueingModel
from weirlab.model.queueing.service import ServiceTime
from weirlab.model.spike import NO_SPIKE

NO_RULES: Final = 0.0


def tunnelled(rules: QueueingModel, tunnel: QueueingModel, cpus: int = 1) -> Predictor:
    """The model of ``rules`` with ``tunnel`` behind them, on ``cpus`` (1 or 2).

    Raises
    ------
    ModelError
        One of the profiles lacks position 0, or both have no frame size or kind of gaps in common.
    """
    for profiled, whose in ((rules.profiled, "rules"), (tunnel.profiled, "tunnel")):
        if profiled.position_min > NO_RULES:
            raise ModelError(
                f"the profile of the {whose} begins at position {profiled.position_min:g}, but position 0 "
                "(no rules) is needed: weir profile --rules 0,..."
            )
    both = _both(rules.profiled, tunnel.profiled)
    if cpus > 1:
        return Tandem(rules, tunnel, both)
    service = SharedService(
        fixed_ns=0.0, scatter=tunnel.service.scatter, tunnel=tunnel.service, rules=rules.service
    )
    return replace(
        tunnel,
        service=service,
        delays={
            name: replace(curve, cold_per_rule_ns=rules.delays[name].cold_per_rule_ns)
            for name, curve in tunnel.delays.items()
        },
        profiled=both,
        calibration=_wider(rules.calibration, tunnel.calibration),
        spike=NO_SPIKE,
    )


@dataclass(frozen=True, kw_only=True)
class SharedService(ServiceTime):
    """Service times that add up on one CPU."""

    tunnel: ServiceTime
    rules: ServiceTime

    def ns(self, position: F64, frame_bytes: F64) -> F64:
        without, behind = self._of_rules(position, frame_bytes)
        return np.asarray(self._of_tunnel(position, frame_bytes) + np.maximum(behind - without, 0.0))

    def uncertainty(self, position: F64, frame_bytes: F64) -> F64:
        """Relative standard error of :meth:`ns`; those of the parts are independent.

        The difference of two service times of the rules has the uncertainty of both, scatter included,
        since no single trial measured it.
        """
        nowhere = np.zeros_like(position)
        without, behind = self._of_rules(position, frame_bytes)
        parts = [self.tunnel.uncertainty(nowhere, frame_bytes) * self._of_tunnel(position, frame_bytes)]
        for place, part in ((nowhere, without), (position, behind)):
            error = np.hypot(self.rules.uncertainty(place, frame_bytes), self.rules.scatter)
            # At position 0 both are the same number, and so are their errors.
            parts.append(np.where(position > NO_RULES, error * part, 0.0))
        total = np.sqrt(sum(part**2 for part in parts))
        return np.asarray(total / self.ns(position, frame_bytes))

    def _of_tunnel(self, position: F64, frame_bytes: F64) -> F64:
        return self.tunnel.ns(np.zeros_like(position), frame_bytes)

    def _of_rules(self, position: F64, frame_bytes: F64) -> tuple[F64, F64]:
        """Service time of the rule stage without rules, and at ``position``."""
        return self.rules.ns(np.zeros_like(position), frame_bytes), self.rules.ns(position, frame_bytes)


@dataclass(frozen=True)
class Tandem:
    """Rules on one CPU, and a tunnel on another one behind it.

    Packets that the first loses do not reach the second. Quantiles of the delay are the sums of both, which
    is more than the quantile of the sum: packets that wait long in one queue rarely do so in the other one.
    The test bed's own delay is in both profiles, and so counts twice.
    """

    rules: QueueingModel
    tunnel: QueueingModel
    profiled: ProfileRange

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        rate, frame, place, gaps = settings(rate_pps, frame_bytes, position, gap_scv)
        first = self.rules.predict(rate, frame, place, gaps)
        passed = np.maximum(rate * (1.0 - first.loss_ratio), np.finfo(np.float64).tiny)
        second = self.tunnel.predict(passed, frame, NO_RULES, gaps)
        found: dict[str, Any] = {
            name: join(getattr(first, name), getattr(second, name)) for name, join in _JOINED.items()
        }
        outside, why = self.profiled.outside(rate, frame, place, found["threshold_pps"], gaps)
        slower = first.threshold_pps <= second.threshold_pps
        return Prediction(
            **found,
            extrapolated=outside,
            why=why,
            spread={
                "threshold_pps": np.where(
                    slower, first.spread["threshold_pps"], second.spread["threshold_pps"]
                )
            },
            intervals={
                name: {level: _band(name, found[name], first, second, level) for level in LEVELS}
                for name in QUANTITIES
                if name in first.intervals and name in second.intervals
            },
            unchecked=first.unchecked or second.unchecked,
        )

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        place, frame = places(position, frame_bytes)
        rules, tunnel = self.rules.threshold_pps(place, frame), self.tunnel.threshold_pps(NO_RULES, frame)
        return np.minimum(rules, tunnel)


def _lost(first: F64, second: F64) -> F64:
    return np.asarray(1.0 - (1.0 - first) * (1.0 - second))


_JOINED: Final[dict[str, Callable[[F64, F64], F64]]] = {
    "threshold_pps": np.minimum,
    "loss_ratio": _lost,
    **dict.fromkeys(DELAYS, np.add),
    # Of independent delays the variances add.
    "jitter_ns": np.hypot,
}


def _band(name: str, value: F64, first: Prediction, second: Prediction, level: int) -> Band:
    """The interval of both together; errors of times are independent."""
    one, other = first.intervals[name][level], second.intervals[name][level]
    if name in ("threshold_pps", "loss_ratio"):
        join = _JOINED[name]
        return Band(join(one.low, other.low), join(one.high, other.high))
    parts = [(getattr(found, name), found.intervals[name][level]) for found in (first, second)]
    below, above = (
        np.hypot(*(np.abs(getattr(band, end) - part) for part, band in parts)) for end in ("low", "high")
    )
    return Band(np.maximum(value - below, 0.0), value + above)


def _both(rules: ProfileRange, tunnel: ProfileRange) -> ProfileRange:
    """The range that both profiles cover.

    A load needs to be in only one of them: the faster one was profiled with more than the slower one carries.
    """
    common = ProfileRange(
        rate_min_pps=min(rules.rate_min_pps, tunnel.rate_min_pps),
        rate_max_pps=max(rules.rate_max_pps, tunnel.rate_max_pps),
        frame_min_bytes=max(rules.frame_min_bytes, tunnel.frame_min_bytes),
        frame_max_bytes=min(rules.frame_max_bytes, tunnel.frame_max_bytes),
        position_min=rules.position_min,
        position_max=rules.position_max,
        share_max=min(rules.share_max, tunnel.share_max),
        gap_scv_min=max(rules.gap_scv_min, tunnel.gap_scv_min),
        gap_scv_max=min(rules.gap_scv_max, tunnel.gap_scv_max),
    )
    if common.frame_min_bytes > common.frame_max_bytes + 0.5:
        raise ModelError(
            f"the rules were profiled with frames of {_span(rules)}, the tunnel with {_span(tunnel)}: "
            "profile both with the same (weir profile --frame)"
        )
    if common.gap_scv_min > common.gap_scv_max:
        raise ModelError(
            "the rules and the tunnel were profiled with different gaps between packets: profile both with "
            "the same (weir profile measures both kinds)"
        )
    return common


def _span(profiled: ProfileRange) -> str:
    least, most = profiled.frame_min_bytes, profiled.frame_max_bytes
    return f"{least:g} B" if least == most else f"{least:g} to {most:g} B"


def _wider(
    rules: IntervalCalibration | None, tunnel: IntervalCalibration | None
) -> IntervalCalibration | None:
    """Limits as wide as the wider of both, relative to the model's own estimate of its error."""
    if rules is None or tunnel is None:
        return None
    limits = {
        quantity: _widest(found, tunnel.limits[quantity])
        for quantity, found in rules.limits.items()
        if quantity in tunnel.limits and found.scaled and tunnel.limits[quantity].scaled
    }
    later = max(
        (each.later for each in (rules, tunnel) if each.later), key=lambda each: each.service, default=None
    )
    host_loss = {
        level: max(most, tunnel.host_loss[level])
        for level, most in rules.host_loss.items()
        if level in tunnel.host_loss
    }
    sizes = tuple(size for size in tunnel.sizes if size in rules.sizes) or tunnel.sizes
    return IntervalCalibration(limits, tunnel.seen, later, host_loss, rules.few_positions, sizes)


def _widest(one: ScoreLimits, other: ScoreLimits) -> ScoreLimits:
    return ScoreLimits(
        low={level: tuple(map(min, one.low[level], other.low[level])) for level in LEVELS},
        high={level: tuple(map(max, one.high[level], other.high[level])) for level in LEVELS},
        cells=tuple(map(min, one.cells, other.cells)),
        scaled=True,
    )
