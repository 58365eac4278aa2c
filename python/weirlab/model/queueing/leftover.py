"""Residuals of the queueing model's laws for delays and jitter, below the threshold and beyond it.

Below it, the delay of a packet depends on whether the device has gone to sleep before it
comes. The resulting shape (packets taken in batches, sleep and wake-up in step with the
arrivals) depends on the slack between a packet's service and the next arrival, relative to
the time that the device needs around its service. Coordinates are therefore
``-ln(1 + cycle / slack)``, ``ln s``, ``ln L`` and the gaps' variability; in overload, where
the device never sleeps, ``ln s``, ``ln L``, ``ln rho`` and the gaps' variability.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from weirlab.base.errors import ModelError
from weirlab.model import trials
from weirlab.model.base import DELAYS, F64, ObservationTable
from weirlab.model.queueing.delay import DelayInput
from weirlab.model.queueing.jitter import RESOLUTION_NS
from weirlab.model.queueing.kriging import AMPLITUDES, Kriging, Residual, ResidualField

QUANTITIES: Final = (*DELAYS, "jitter_ns")

_LENGTHS_BELOW: Final = tuple(
    (slack, service, 1.5, 1.0) for slack, service in itertools.product((0.12, 0.2, 0.4), (0.5, 1.0))
)
_LENGTHS_OVER: Final = ((1.0, 2.0, 1.0, 1.0), (2.0, 3.0, 2.0, 2.0))

_LEAST_SLACK: Final = 0.03
"""Of the service time: how near the threshold is known."""
_MOST_OVER: Final = 0.1
"""In overload the law leaves small residuals: the queue is full, and the device only serves."""
_SATURATED: Final = 0.97
"""From here to its inverse the queue goes from empty to full, and from one set of residuals to the other."""
_LEAST_NOISE: Final = 0.01
"""Of ln(delay / law): smaller residuals are no reason to depart from the law."""
_NEIGHBOURS: Final = 0.15
"""Share of the spread of all settings over which repetitions are pooled."""
_MOST_SCATTER: Final = 1.0
"""Of ln(delay) between repetitions."""
_UNREPEATED: Final = 0.1
"""The same if nothing was repeated."""

Law = Callable[[ObservationTable], tuple[DelayInput, Mapping[str, F64]]]


@dataclass(frozen=True)
class ResidualModel:
    """``cycle_ns`` is the time that the device needs around one service: wake up, hand over, look again."""

    cycle_ns: float
    below: Kriging
    over: Kriging

    @classmethod
    def fit(
        cls,
        cycle_ns: float,
        below: ObservationTable,
        over: ObservationTable,
        law: Law,
        like: Self | None = None,
    ) -> Self:
        """Fit to trials below the threshold and beyond it, whose delays and jitter ``law`` predicts."""
        empty = cls(cycle_ns, Kriging.none(4, QUANTITIES), Kriging.none(4, QUANTITIES))
        return cls(
            cycle_ns,
            _fit(below, law, empty._below, _LENGTHS_BELOW, like.below if like else None),
            _fit(over, law, _over, _LENGTHS_OVER, like.over if like else None, over=True),
        )

    def at(self, load: DelayInput, spread_of: Collection[str] = QUANTITIES) -> dict[str, Residual]:
        """By quantity; arrays as in ``load``, which are of shape (m,). Only ``spread_of`` have a ``std``."""
        rho = load.rho
        full = np.clip((rho - _SATURATED) / (1 / _SATURATED - _SATURATED), 0.0, 1.0)
        calm, busy = full < 1.0, full > 0.0
        parts = (
            (1.0 - full, calm, self.below.at(self._below(load.where(calm)), spread_of)),
            (full, busy, self.over.at(_over(load.where(busy)), spread_of)),
        )
        answer = {}
        for name in QUANTITIES:
            mean, variance, scatter = np.zeros_like(rho), np.zeros_like(rho), np.zeros_like(rho)
            for share, mask, found in parts:
                if name not in found:
                    raise ModelError(f"the model has no residuals of {name}: fit it again with weir fit")
                mean[mask] += share[mask] * found[name].mean
                variance[mask] += share[mask] * found[name].std ** 2
                scatter[mask] += share[mask] * found[name].scatter ** 2
            # Without measurements nothing is certain.
            answer[name] = Residual(
                mean, np.sqrt(variance), np.where(scatter > 0, np.sqrt(scatter), _UNREPEATED)
            )
        return answer

    def _below(self, load: DelayInput) -> F64:
        slack_ns = np.maximum(load.slack_ns, _LEAST_SLACK * load.service_ns)
        columns = (-np.log1p(self.cycle_ns / slack_ns), *_place(load), load.gap_scv)
        return np.stack(columns, axis=1)


def _over(load: DelayInput) -> F64:
    return np.stack((*_place(load), np.log(load.rho), load.gap_scv), axis=1)


def _place(load: DelayInput) -> tuple[F64, F64]:
    return np.log(load.service_ns), np.log(load.frame_bytes)


def _fit(
    rows: ObservationTable,
    law: Law,
    coordinates: Callable[[DelayInput], F64],
    lengths: tuple[tuple[float, ...], ...],
    like: Kriging | None,
    over: bool = False,
) -> Kriging:
    groups = trials.group(rows)
    if not groups:
        return Kriging.none(4, QUANTITIES)
    typical = trials.medians(rows, groups)
    load, expected = law(typical)
    keep = load.rho > 1.0 if over else load.rho < _SATURATED
    if not keep.any():
        return Kriging.none(4, QUANTITIES)
    counts = np.array([len(group) for group in groups])[keep]
    places = coordinates(load.where(keep))
    fields = {}
    for name in QUANTITIES:
        resolution = RESOLUTION_NS if name == "jitter_ns" else 0.0
        measured = getattr(typical, name)[keep] + resolution
        known = np.isfinite(measured) & (measured > 0)
        value = np.full(len(measured), np.nan)
        law_ns = np.maximum(expected[name][keep][known] + resolution, 1.0)
        value[known] = np.log(measured[known] / law_ns)
        scatter = trials.log_scatter(getattr(rows, name) + resolution, groups)[keep]
        single = _smooth(places, scatter, np.maximum(typical.packets[keep], 1.0))
        repeated = int((counts[known] - 1).sum())
        noise = np.sqrt(trials.trial_variance(single**2, repeated, value)) * trials.median_error(counts)
        fields[name] = ResidualField(value, np.maximum(noise, _LEAST_NOISE), single)
    return Kriging.fit(places, fields, lengths, like, _MOST_OVER if over else AMPLITUDES[-1])


def _smooth(places: F64, scatter: F64, packets: F64) -> F64:
    """Scatter of repetitions, pooled over neighbours: three trials say little about their own scatter.

    All have shape (n,), ``places`` (n, d). The fewer packets a trial averages over, the more it scatters.
    """
    known = np.isfinite(scatter)
    if not known.any():
        return np.full(len(scatter), _UNREPEATED)
    width = np.maximum(np.std(places, axis=0), 1e-9) * _NEIGHBOURS
    distance = (places[:, None, :] - places[None, known, :]) / width
    weight = np.exp(-0.5 * (distance**2).sum(axis=2)) + 1e-6
    per_packet = np.minimum(scatter[known], _MOST_SCATTER) ** 2 * packets[known]
    return np.asarray(np.sqrt(weight @ per_packet / weight.sum(axis=1) / packets))
