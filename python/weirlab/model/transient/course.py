"""Delay and loss over time, for each kind of model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.model.base import F64, Model
from weirlab.model.queueing import QueueingModel
from weirlab.model.queueing.delay import DelayInput
from weirlab.model.spike import NO_SPIKE, Spike
from weirlab.model.transient.phases import (
    DELAYS,
    LoadPhase,
    TransientPrediction,
    index_of,
    spikes,
    starts_ns,
    times,
)
from weirlab.model.transient.queue import QueuePhase, QueueTransient, courses

QUANTITIES: Final = (*DELAYS, "loss_ratio")

_NO_LOSS: Final = 1e-7
"""Loss ratios below this are the tail of a normal distribution, not packets."""
_SPIKE_POINTS: Final = 60
_SPIKE_DECAYS: Final = 7.0
"""Number of decay times for which a spike is drawn."""


@dataclass(frozen=True)
class Trajectory:
    """One model while ``phases`` follow each other; made by :func:`trajectory`."""

    phases: tuple[LoadPhase, ...]
    spike: Spike
    _parts: tuple[dict[str, Callable[[F64], F64]], ...]
    """Per phase and quantity, the value at times after the phase's start."""
    _inner_ns: F64

    def at(self, at_ns: npt.ArrayLike) -> TransientPrediction:
        """Delay and loss of packets that depart at ``at_ns``, see :func:`over_time`."""
        at = times(self.phases, at_ns)
        index, starts = index_of(self.phases, at), starts_ns(self.phases)
        found = {name: np.empty_like(at) for name in QUANTITIES}
        for i, part in enumerate(self._parts):
            here = index == i
            for name, value in part.items():
                found[name][here] = value(at[here] - starts[i])
        extra = spikes(self.spike, self.phases, at)
        loss = np.where(found["loss_ratio"] < _NO_LOSS, 0.0, np.minimum(found["loss_ratio"], 1.0))
        delays = {name: found[name] + extra for name in DELAYS}
        return TransientPrediction(at_ns=at, **delays, loss_ratio=loss)

    @property
    def instants_ns(self) -> F64:
        """Times between which everything is nearly linear, for drawing and for integrals."""
        starts = starts_ns(self.phases)
        # The instant just before each step shows the jump as one.
        every = [starts, np.nextafter(starts[1:], 0.0), self._inner_ns]
        if self.spike:
            fading = self.spike.decay_ns * np.linspace(0.0, _SPIKE_DECAYS, _SPIKE_POINTS)
            every += [start + fading for start in starts[1:-1]]
        instants = np.unique(np.concatenate(every))
        return np.asarray(instants[instants <= starts[-1]])


def over_time(model: Model, phases: Sequence[LoadPhase], at_ns: npt.ArrayLike) -> TransientPrediction:
    """Delay and loss of packets that depart at ``at_ns``, while ``phases`` follow each other.

    A queueing model lets its queue fill and drain; any other one jumps with the phase from
    one stationary value to the next. Both add the model's spike, if it has one. The end of
    a phase that is long enough is exactly what ``model.predict`` returns for it.

    Parameters
    ----------
    at_ns
        Times after the start of the first phase, up to the end of the last; shape (t,), in
        any order.

    Raises
    ------
    InputError
        A phase has no length or a setting without meaning, or a time lies outside.
    """
    return trajectory(model, phases).at(at_ns)


def trajectory(model: Model, phases: Sequence[LoadPhase]) -> Trajectory:
    """The source of :func:`over_time`'s values, for several evaluations of the same phases."""
    times(phases, 0.0)
    rate, frame_bytes, position, gap_scv = _columns(phases)
    predicted = model.predict(rate, frame_bytes, position, gap_scv)
    stationary = {name: np.asarray(getattr(predicted, name), dtype=np.float64) for name in QUANTITIES}
    spike = getattr(model, "spike", NO_SPIKE)
    if not isinstance(model, QueueingModel):
        parts = tuple(
            {name: _constant(float(values[i])) for name, values in stationary.items()}
            for i in range(len(phases))
        )
        return Trajectory(tuple(phases), spike, parts, np.empty(0))
    stretches = _stretches(model, phases)
    found = courses(stretches, model.queue_packets)
    inner = [start + course.times_ns for start, course in zip(starts_ns(phases), found, strict=False)]
    joined = tuple(_joined(stretches, found, stationary))
    return Trajectory(tuple(phases), spike, joined, np.concatenate(inner))


def _joined(
    stretches: Sequence[QueuePhase], parts: Sequence[QueueTransient], stationary: dict[str, F64]
) -> list[dict[str, Callable[[F64], F64]]]:
    """Queue and rest together, so that every phase tends to its stationary value.

    Besides what the queue explains there is a rest (path, own service, wake-up, caches; for
    loss what the stationary law caps). It moves with the queue from its value in one state to
    that in the other; only a packet's own service time changes at once.
    """
    joined: list[dict[str, Callable[[F64], F64]]] = [{} for _ in parts]
    for name in QUANTITIES:
        rest = float(stationary[name][0]) - parts[0].settled[name]
        own_ns = stretches[0].service_ns
        for i, (stretch, part) in enumerate(zip(stretches, parts, strict=True)):
            if name != "loss_ratio":
                rest += stretch.service_ns - own_ns
                own_ns = stretch.service_ns
            total = _blend(part, name, rest, float(stationary[name][i]) - part.settled[name])
            joined[i][name] = total
            last = np.array([stretch.duration_ns])
            rest = float((total(last) - part.at(name, last))[0])
    return joined


def _blend(part: QueueTransient, name: str, before: float, after: float) -> Callable[[F64], F64]:
    """The course plus a rest that goes from ``before`` to ``after`` as the queue goes to its new state."""
    begin, end = float(part.values[name][0]), part.settled[name]
    distance = end - begin
    # If the queue is the same before and after, there is nothing to interpolate.
    still = abs(distance) < 1e-6 * max(abs(begin), abs(end), 1e-12)

    def total(since_ns: F64) -> F64:
        value = part.at(name, since_ns)
        to_go = np.zeros_like(value) if still else np.clip((end - value) / distance, 0.0, 1.0)
        return np.asarray(value + after + (before - after) * to_go)

    return total


def _constant(value: float) -> Callable[[F64], F64]:
    return lambda since_ns: np.full_like(since_ns, value)


def _columns(phases: Sequence[LoadPhase]) -> tuple[F64, F64, F64, F64]:
    rate, frame_bytes, position, gap_scv = np.array(
        [(phase.rate_pps, phase.frame_bytes, phase.position, phase.gap_scv) for phase in phases],
        dtype=np.float64,
    ).T
    return rate, frame_bytes, position, gap_scv


def _stretches(model: QueueingModel, phases: Sequence[LoadPhase]) -> list[QueuePhase]:
    """The phases as the queue of ``model`` sees them."""
    rate, frame_bytes, position, gap_scv = _columns(phases)
    service_ns = model.service.ns(position, frame_bytes)
    load = DelayInput(rate, frame_bytes, position, gap_scv, service_ns)
    variability, rarity = model.delays["delay_mean_ns"].waiting_at(load)
    return [
        QueuePhase(phase.duration_ns, phase.rate_pps, float(service), float(v), float(rare))
        for phase, service, v, rare in zip(phases, service_ns, variability, rarity, strict=True)
    ]
