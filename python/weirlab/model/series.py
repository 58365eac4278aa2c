"""Devices in series: what packets meet that pass all of them, from a model of each.

A stage is one server: a device with a CPU of its own, or several that share one. On a shared CPU, service
times add up, and packets wait once for the sum::

    s = sum of s_i,  load of the CPU = sum of rate_i * s_i

Delays of stages are independent of each other here, so the distribution of their sum is the convolution of
theirs. Each profile includes the test bed's own part, which counts only once on the path: :class:`SeriesBed`
knows it from profiles of one and of two devices that only forward. Devices that do more than forward can have
less in common than these: what the path does is between that prediction and the one without a bed. How much
devices on one CPU displace each other from its caches, no profile of a single one tells; a profile of all of
them in a row does, and takes the place of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from weirlab.base.errors import ModelError
from weirlab.model.base import DELAYS, F64, Prediction, Predictor
from weirlab.model.distributions import sum_quantiles
from weirlab.model.queueing import QueueingModel
from weirlab.model.queueing.service import ServiceTime
from weirlab.model.spike import NO_SPIKE

BAND_LEVEL: Final = 90
"""Percent of trials inside the bounds of a path."""
_MEDIAN: Final = "delay_p50_ns"


@dataclass(frozen=True)
class SeriesDevice:
    """A device of a path, and the load on it."""

    name: str
    model: Predictor
    rate_pps: float
    frame_bytes: float
    """Mean of its packets."""
    position: float = 0.0
    cpu: str = ""
    """Devices with the same name here share a CPU; empty: it has its own."""

    @property
    def service_ns(self) -> float:
        """Time per packet."""
        return 1e9 / float(self.model.threshold_pps(self.position, self.frame_bytes))

    @property
    def utilisation(self) -> float:
        """Share of its time that it is busy, if it has the CPU to itself."""
        return self.rate_pps * self.service_ns / 1e9


@dataclass(frozen=True)
class SeriesBed:
    """Models of one forwarding device, and of two in a row on one CPU: what each further device adds."""

    one: Predictor
    two: Predictor

    def service_ns(self, frame_bytes: float) -> float:
        """What the service time of a device in a row has less than in its own profile, negative or 0."""
        one, two = (1e9 / float(model.threshold_pps(0.0, frame_bytes)) for model in (self.one, self.two))
        return min(two - 2 * one, 0.0)

    def delay_ns(self, quantity: str, frame_bytes: float) -> float:
        """The same of a quantile of its delay outside service and queue, negative or 0.

        What the host adds varies, and a packet meets it once: a further device adds the difference of the
        medians, whatever the quantile.
        """
        one, two = (idle_ns(model, 0.0, frame_bytes) for model in (self.one, self.two))
        further = max(two[_MEDIAN] - one[_MEDIAN], 0.0)
        return min(further - one[quantity], 0.0)


@dataclass(frozen=True)
class SeriesStage:
    """Devices that share a CPU, or one by itself."""

    devices: tuple[SeriesDevice, ...]
    utilisation: float
    """Share of time that its CPU is busy; from 1 on it loses packets."""
    prediction: Prediction
    """Of a packet that passes all of them."""


@dataclass(frozen=True)
class SeriesPrediction:
    """What packets meet on the whole path."""

    values: dict[str, float]
    """Delays in ns, and ``loss_ratio``."""
    low: dict[str, float]
    high: dict[str, float]
    """Bounds for :data:`BAND_LEVEL` percent of trials, where the models have intervals."""


def stages(
    devices: Sequence[SeriesDevice],
    gap_scv: float,
    bed: SeriesBed | None,
    in_row: Mapping[str, SeriesDevice] | None = None,
) -> list[SeriesStage]:
    """The stages of the ``devices``, in the order of their first ones.

    ``in_row`` has, by CPU, all devices of a stage as one, from a profile of them in a row.

    Raises
    ------
    ModelError
        A shared CPU has a device whose model is not the queueing model.
    """
    # The test bed's own part counts in the first stage only.
    return [
        _stage(tuple(group), gap_scv, bed, (in_row or {}).get(cpu), further=n > 0)
        for n, (cpu, group) in enumerate(by_cpu(devices).items())
    ]


def by_cpu(devices: Sequence[SeriesDevice]) -> dict[str, list[SeriesDevice]]:
    """The devices on each CPU; those with a CPU of their own are alone under a key of their own."""
    groups: dict[str, list[SeriesDevice]] = {}
    for n, device in enumerate(devices):
        groups.setdefault(device.cpu or f"\0{n}", []).append(device)
    return groups


def in_series(found: Sequence[SeriesStage]) -> SeriesPrediction:
    """What packets meet that pass all stages."""
    parts = [stage.prediction for stage in found]
    values = {
        "delay_mean_ns": sum(float(part.delay_mean_ns) for part in parts),
        **sum_quantiles([{name: float(getattr(part, name)) for name in DELAYS} for part in parts]),
        "loss_ratio": 1.0 - math.prod(1.0 - float(part.loss_ratio) for part in parts),
    }
    low, high = {}, {}
    for name, value in values.items():
        if all(BAND_LEVEL in part.intervals.get(name, {}) for part in parts):
            bands = [(float(getattr(part, name)), part.intervals[name][BAND_LEVEL]) for part in parts]
            low[name] = max(
                value - math.hypot(*(max(own - float(band.low), 0.0) for own, band in bands)), 0.0
            )
            high[name] = value + math.hypot(*(max(float(band.high) - own, 0.0) for own, band in bands))
    return SeriesPrediction(values, low, high)


def widened(found: SeriesPrediction, above: SeriesPrediction) -> SeriesPrediction:
    """``found`` with upper bounds that reach at least the values of ``above``."""
    return SeriesPrediction(
        found.values,
        {name: found.low.get(name, value) for name, value in found.values.items()},
        {name: max(found.high.get(name, value), above.values[name]) for name, value in found.values.items()},
    )


def binding(found: Sequence[SeriesStage]) -> SeriesDevice:
    """The device that limits the load: in the busiest stage, the one that takes most of the CPU."""
    busiest = max(found, key=lambda stage: stage.utilisation)
    return max(busiest.devices, key=lambda device: device.utilisation)


def idle_ns(model: Predictor, position: float, frame_bytes: float) -> dict[str, float]:
    """Delays without waiting and service, by quantity."""
    profiled = getattr(model, "profiled", None)
    threshold = float(model.threshold_pps(position, frame_bytes))
    rate = 0.1 * threshold if profiled is None else max(float(profiled.rate_min_pps), 0.05 * threshold)
    scv = 0.0 if profiled is None else float(profiled.gap_scv_min)
    calm = model.predict(rate, frame_bytes, position, scv)
    return {name: max(float(getattr(calm, name)) - 1e9 / threshold, 0.0) for name in DELAYS}


@dataclass(frozen=True, kw_only=True)
class SummedService(ServiceTime):
    """Service time of several devices on one CPU, in ns; positions and sizes are those of the devices."""

    total_ns: float
    relative: float
    """Relative standard error."""

    def ns(self, position: F64, frame_bytes: F64) -> F64:
        return np.full(np.broadcast_shapes(np.shape(position), np.shape(frame_bytes)), self.total_ns)

    def uncertainty(self, position: F64, frame_bytes: F64) -> F64:
        return np.full(np.broadcast_shapes(np.shape(position), np.shape(frame_bytes)), self.relative)


def _stage(
    devices: tuple[SeriesDevice, ...],
    gap_scv: float,
    bed: SeriesBed | None,
    in_row: SeriesDevice | None,
    *,
    further: bool,
) -> SeriesStage:
    slowest = max(devices, key=lambda device: device.service_ns)
    frame = slowest.frame_bytes
    less_ns = 0.0 if bed is None else bed.service_ns(frame)

    def shift(quantity: str) -> float:
        return 0.0 if bed is None else bed.delay_ns(quantity, frame)

    if (alone := slowest if len(devices) == 1 else in_row) is not None:
        found = alone.model.predict(alone.rate_pps, alone.frame_bytes, alone.position, gap_scv)
        if further:
            found = _moved(found, lambda name: shift(name) + less_ns)
        return SeriesStage(devices, alone.utilisation, found)
    rate = max(device.rate_pps for device in devices)
    # On average over the packets of the busiest device, whose rate is that of the queue.
    total_ns = sum(device.rate_pps / rate * device.service_ns for device in devices)
    total_ns = max(total_ns + (len(devices) - 1 + further) * less_ns, slowest.service_ns)
    model = slowest.model
    errors = []
    for device in devices:
        if not isinstance(device.model, QueueingModel):
            raise ModelError(f"{device.name} shares a CPU, which needs the model {QueueingModel.name}")
        unsure = device.model.service.uncertainty(np.array([device.position]), np.array([frame]))
        errors.append(float(unsure[0]) * device.service_ns)
    assert isinstance(model, QueueingModel)
    service = SummedService(
        fixed_ns=0.0,
        scatter=model.service.scatter,
        total_ns=total_ns,
        relative=math.hypot(*errors) / total_ns,
    )
    together = replace(model, service=service, spike=NO_SPIKE)
    others = [
        idle_ns(device.model, device.position, device.frame_bytes)
        for device in devices
        if device is not slowest
    ]
    found = _moved(
        together.predict(rate, frame, slowest.position, gap_scv),
        # Of devices on one CPU, only one makes packets wait for it.
        lambda name: (
            sum(idle[_MEDIAN] for idle in others) + len(others) * shift(_MEDIAN) + further * shift(name)
        ),
    )
    return SeriesStage(devices, rate * total_ns / 1e9, found)


def _moved(found: Prediction, by_ns: Callable[[str], float]) -> Prediction:
    """``found`` with delays that are longer by a constant each."""
    moved: dict[str, Any] = {}
    intervals = dict(found.intervals)
    for name in DELAYS:
        shift = max(by_ns(name), -float(getattr(found, name)))
        moved[name] = np.asarray(getattr(found, name) + shift)
        if name in intervals:
            intervals[name] = {
                level: replace(band, low=np.maximum(band.low + shift, 0.0), high=band.high + shift)
                for level, band in intervals[name].items()
            }
    return replace(found, **moved, intervals=intervals)
