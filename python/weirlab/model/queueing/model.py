"""The queueing model: a server with a finite queue, described by a handful of physical numbers."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv

from weirlab.base.documents import SPARSE
from weirlab.model import regimes as regime
from weirlab.model import robust, trials
from weirlab.model.base import (
    DELAYS,
    F64,
    ObservationTable,
    Parameter,
    Prediction,
    ProfileRange,
    places,
    require_all,
    settings,
)
from weirlab.model.intervals.calibration import IntervalCalibration
from weirlab.model.intervals.lighter import RISING, covering
from weirlab.model.queueing import explain, waiting
from weirlab.model.queueing.delay import MIN_SCV, DelayCurve, DelayInput, fit_delay
from weirlab.model.queueing.disturbance import DisturbanceLaw, fit_disturbance, joined
from weirlab.model.queueing.jitter import RESOLUTION_NS, JitterCurve, fit_jitter
from weirlab.model.queueing.kriging import Kriging
from weirlab.model.queueing.leftover import QUANTITIES, ResidualModel
from weirlab.model.queueing.service import ServiceTime, fit_service
from weirlab.model.queueing.stalls import StallLoss
from weirlab.model.spike import NO_SPIKE, Spike
from weirlab.records import Observation

QUANTILES: Final[dict[str, float | None]] = {
    "delay_mean_ns": None,
    "delay_p50_ns": 0.5,
    "delay_p90_ns": 0.9,
    "delay_p99_ns": 0.99,
    "delay_p999_ns": 0.999,
}
TAILS: Final = {"delay_p99_ns": 0.99, "delay_p999_ns": 0.999}
"""Quantiles that depend more on the host than on the queue."""

LEAST_LOADS_BELOW: Final = 3
LEAST_POSITIONS: Final = 2

# A queue whose load fluctuates so much that it loses packets at 90 % of the threshold would have
# shown that in the profile; any further spread of delays is due to the host, which loses nothing.
_MAX_LOSS_VARIABILITY: Final = 0.003


@dataclass(frozen=True)
class QueueingModel:
    """A server with service time ``s(n, L)`` behind a queue of K packets.

    Threshold ``1/s``; loss above it ``1 - 1/(lambda s)``; median delay there ``K s`` plus
    the path; below it path, service and waiting of a reflected Brownian motion, and in the
    tail the disturbance by the host. The residuals of these laws are added as a smooth
    function of the settings, if the trials show any.
    """

    name: ClassVar[str] = "queueing"

    service: ServiceTime
    queue_packets: float
    queue_stderr: float
    delays: dict[str, DelayCurve]
    """By the names in ``base.DELAYS``."""
    host: DisturbanceLaw
    jitter: JitterCurve
    leftover: ResidualModel
    profiled: ProfileRange
    calibration: IntervalCalibration | None = field(default=None, metadata=SPARSE)
    spike: Spike = field(default=NO_SPIKE, metadata=SPARSE)
    """What a rate step adds for a while, see :mod:`weirlab.model.transient`."""
    endless: bool = field(default=False, metadata=SPARSE)
    """Whether most overloaded trials did not fill the queue: it holds more than ``queue_packets``."""
    stalls: StallLoss = field(default=StallLoss(), metadata=SPARSE)
    """What is lost at least, below the threshold."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a delay has no curve."""
        require_all("delays", self.delays, DELAYS)

    @classmethod
    def fit(cls, observations: Iterable[Observation], like: Self | None = None) -> Self:
        """Fit to valid trials, in steps that each use the most informative trials.

        The service time comes from the forwarding rate in overload, K from delay times forwarding
        rate there, and the path, wake-up and variability from trials below the threshold.
        ``like`` is a fit to similar trials: its choice of form is taken over, which is
        several times faster.
        """
        table = ObservationTable.of(observations)
        regimes = regime.sort(table)
        regime.require(table, regimes, cls.name, LEAST_LOADS_BELOW, LEAST_POSITIONS)
        over, below = table.where(regimes.overload), table.where(regimes.below)
        service = fit_service(
            over.position, over.frame_bytes, over.forwarding_pps, like.service if like else None
        )
        typical = trials.medians(below, trials.group(below))
        load = _load(service, typical)
        # K hardly matters below the threshold, so a rough one will do until the path is known.
        rough = float(np.median(over.delay_p50_ns * over.forwarding_pps / 1e9))
        delays: dict[str, DelayCurve] = {}
        for name in ("delay_mean_ns", "delay_p50_ns", "delay_p90_ns"):
            known = like.delays[name] if like else None
            delays[name] = fit_delay(
                QUANTILES[name], load, getattr(typical, name), rough, service.scatter, known
            )
        for name, q in TAILS.items():
            delays[name] = replace(delays["delay_p50_ns"], q=q, stderr={})
        full = _full_queues(over, delays)
        # A device that drops without queueing still has the packet in service.
        found, queue_stderr = robust.median_with_error(full["delay_p50_ns"])
        total = max(found, 1.0)
        delays = {
            name: replace(curve, plateau=max(float(np.median(full[name])), 1.0) / total)
            for name, curve in delays.items()
        }
        threshold = 1e9 / service.ns(table.position, table.frame_bytes)
        even = table.gap_scv == table.gap_scv.min()
        both = table.where(regimes.overload | regimes.below)
        load_both = _load(service, both)
        model = cls(
            service=service,
            queue_packets=total,
            queue_stderr=queue_stderr,
            delays=delays,
            host=_fit_host(delays, load, typical, total, like.host if like else None),
            jitter=fit_jitter(
                load_both, both.jitter_ns, delays["delay_mean_ns"].waiting_at(load_both)[0], total
            ),
            leftover=ResidualModel(1.0, Kriging.none(4, QUANTITIES), Kriging.none(4, QUANTITIES)),
            profiled=ProfileRange.of(table, threshold),
            # In a flood, packets are lost before they reach a queue that is never full.
            endless=bool(np.median(over.loss_ratio) <= regime.OVERLOAD_LOSS),
            stalls=StallLoss.fit((table.rate_pps / threshold)[even], table.loss_ratio[even]),
        )
        leftover = ResidualModel.fit(
            like.leftover.cycle_ns if like else _cycle_ns(delays["delay_mean_ns"], typical, load),
            below,
            over,
            lambda rows: (_load(service, rows), model._law(_load(service, rows))),
            like.leftover if like else None,
        )
        return replace(model, leftover=leftover)

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        asked = settings(rate_pps, frame_bytes, position, gap_scv)
        return covering(self._predict, partial(self._predict, only=RISING), self.profiled, *asked)

    def _predict(
        self, rate: F64, frame: F64, place: F64, gaps: F64, only: Collection[str] = QUANTITIES
    ) -> Prediction:
        """The prediction for each setting by itself, of delays and jitter with the spread of ``only`` these.

        Arrays of one shape.
        """
        shape = rate.shape
        pps, size, n, scv = (np.atleast_1d(value).ravel() for value in (rate, frame, place, gaps))
        load = DelayInput(pps, size, n, scv, self.service.ns(n, size))
        law = self._law(load)
        unsure = self.service.uncertainty(n, size)
        slower = self._law(load.slower(unsure))
        left = self.leftover.at(load, only)
        found: dict[str, F64] = {}
        spread: dict[str, F64] = {}
        for name in QUANTITIES:
            resolution = RESOLUTION_NS if name == "jitter_ns" else 0.0
            found[name] = (law[name] + resolution) * np.exp(left[name].mean) - resolution
            if name in only:
                shifted = np.log(np.maximum(slower[name], 1.0) / np.maximum(law[name], 1.0))
                spread[name] = np.sqrt(shifted**2 + left[name].std ** 2 + left[name].scatter ** 2)
        # Each quantile has its own correction; noise must not make them cross.
        for lower, upper in itertools.pairwise(DELAYS[1:]):
            found[upper] = np.maximum(found[upper], found[lower])
        threshold = np.asarray(1e9 / load.service_ns)
        found |= {"threshold_pps": threshold, "loss_ratio": law["loss_ratio"]}
        spread["threshold_pps"] = np.hypot(unsure, self.service.scatter)
        spread["loss_ratio"] = self._loss_spread(load, unsure)
        outside, why = self.profiled.outside(pps, size, n, threshold, scv)
        arrays: dict[str, Any] = {name: value.reshape(shape) for name, value in found.items()}
        prediction = Prediction(
            **arrays,
            extrapolated=outside.reshape(shape),
            why=why,
            spread={name: value.reshape(shape) for name, value in spread.items()},
        )
        if self.calibration is None:
            return prediction

        def laws(factor: float) -> dict[str, F64]:
            return {name: value.reshape(shape) for name, value in self._law(load.slower(factor - 1)).items()}

        return self.calibration.applied(prediction, rate, frame, place, laws)

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        place, frame = places(position, frame_bytes)
        return np.asarray(1e9 / self.service.ns(place, frame))

    def with_calibration(self, calibration: IntervalCalibration) -> Self:
        """The same model with intervals."""
        return replace(self, calibration=calibration)

    def with_spike(self, spike: Spike) -> Self:
        """The same model with ``spike`` after steps up of the rate."""
        return replace(self, spike=spike)

    def parameters(self) -> list[Parameter]:
        """The fitted numbers; those that the data did not support are left out."""
        return explain.parameters(
            self.service, self.delays, self.queue_packets, self.queue_stderr, self.host, self.profiled
        )

    def in_words(self, new_flow_rules: float = 0.0) -> list[str]:
        """What the numbers mean, one sentence each.

        With ``new_flow_rules``, positions are shares of packets that open a flow times these rules.
        """
        return explain.in_words(
            self.service, self.delays, self.queue_packets, self.queue_stderr, self.host, self.profiled,
            new_flow_rules,
        )  # fmt: skip

    def _law(self, load: DelayInput) -> dict[str, F64]:
        """Delays, jitter and loss by the laws alone; arrays as in ``load``."""
        busy, _ = self.delays["delay_mean_ns"].waiting_at(load)
        calm = self._loss_variability(load, busy)
        law = {
            name: self.delays[name].ns(load, self.queue_packets)
            for name in ("delay_mean_ns", "delay_p50_ns", "delay_p90_ns")
        }
        for name, q in TAILS.items():
            curve = self.delays[name]
            undisturbed, own = _undisturbed(self.delays, name, load, self.queue_packets)
            full = curve.path_ns(load.frame_bytes) + self.queue_packets * curve.plateau * load.service_ns
            law[name] = np.minimum(undisturbed + joined(own, self.host.quantile_ns(q, load.rho)), full)
            # In overload the queue is full whatever the host does.
            law[name] = np.where(load.rho > 1.0, np.maximum(law[name], undisturbed + own), law[name])
        return law | {
            "jitter_ns": self.jitter.ns(load, busy, self.queue_packets),
            "loss_ratio": np.maximum(
                waiting.loss_ratio(load.rho, calm, self.queue_packets), self.stalls.at(load.rho)
            ),
        }

    def _loss_spread(self, load: DelayInput, unsure: F64) -> F64:
        """Standard deviation of the loss ratio, from that of the threshold, including a single trial's."""
        change = np.hypot(unsure, self.service.scatter)
        calm = self._loss_variability(load, self.delays["delay_mean_ns"].waiting_at(load)[0])
        fewer, more = (
            waiting.loss_ratio(load.slower(sign * change).rho, calm, self.queue_packets)
            for sign in (-1.0, 1.0)
        )
        # Few trials meet a stall, so their losses differ by more than the mean.
        return np.maximum(0.5 * (more - fewer), self.stalls.at(load.rho))

    def _loss_variability(self, load: DelayInput, busy: F64) -> F64:
        """Variability that fills the queue: all of the arrivals', and of the rest what the profile allows."""
        arrivals = waiting.variability(load.gap_scv, 0.0)
        fitted = np.minimum(busy - arrivals, _MAX_LOSS_VARIABILITY * self.queue_packets)
        return np.asarray(arrivals + np.maximum(fitted, 0.0))


def _load(service: ServiceTime, rows: ObservationTable) -> DelayInput:
    service_ns = service.ns(rows.position, rows.frame_bytes)
    return DelayInput(rows.rate_pps, rows.frame_bytes, rows.position, rows.gap_scv, service_ns)


def _cycle_ns(mean: DelayCurve, rows: ObservationTable, load: DelayInput) -> float:
    """Time around one service of a device that was idle: its delay without waiting, less the service.

    The lower tenth over all settings, since frames of all sizes share one coordinate; a
    device without any path still needs a part of its service time.
    """
    idle = mean.path_ns(rows.frame_bytes) + mean.wake_ns
    return float(max(np.quantile(idle, 0.1), 0.05 * np.median(load.service_ns)))


def _undisturbed(
    delays: Mapping[str, DelayCurve], name: str, load: DelayInput, queue_packets: float
) -> tuple[F64, F64]:
    """Delay of a packet that nothing holds up, and the extra delay that ``1 - q`` of all exceed.

    They wait longer, or their service takes longer than usual (gamma-distributed).
    """
    curve, q = delays[name], TAILS[name]
    path = curve.path_ns(load.frame_bytes) + load.service_ns
    # The host may make the mean delay vary; the median is more likely to show the device alone.
    scv = min(max(min(delays[d].service_scv for d in ("delay_mean_ns", "delay_p50_ns")), MIN_SCV), 1.0)
    longer = max(float(gammaincinv(1.0 / scv, q)) * scv - 1.0, 0.0) * load.service_ns
    own = waiting.variability(load.gap_scv, scv)
    rare = waiting.rarity(load.rho, load.gap_scv, scv)
    full = waiting.quantile_fraction(q, load.rho, own, queue_packets * curve.plateau, rare)
    wait = full * np.maximum(queue_packets * curve.plateau - full, 0.0) * load.service_ns
    return path, joined(wait, (1.0 - full) * longer)


def _fit_host(
    delays: Mapping[str, DelayCurve],
    load: DelayInput,
    typical: ObservationTable,
    queue_packets: float,
    like: DisturbanceLaw | None,
) -> DisturbanceLaw:
    """The heavy tail, from p99 and p99.9 of the trials that are clearly below the threshold."""
    clear = load.rho < regime.NEAR
    calm = load.where(clear)
    rows = typical.where(clear)
    parts = {name: _undisturbed(delays, name, calm, queue_packets) for name in TAILS}
    path = next(iter(parts.values()))[0]
    return fit_disturbance(
        list(TAILS.values()),
        calm.rho,
        path,
        [own for _, own in parts.values()],
        [getattr(rows, name) for name in TAILS],
        like,
    )


def _full_queues(over: ObservationTable, delays: dict[str, DelayCurve]) -> dict[str, F64]:
    """Packets in the full queue, per delay and trial: delay less path, times the trial's own rate.

    Just above the threshold the queue is not always full, so only clear overloads count, or each
    position's heavier ones if there are no clear ones. If p99.9 was not measured, p99 takes its place.
    """
    highest = np.array([over.loss_ratio[over.position == n].max() for n in over.position])
    rows = over.where(over.loss_ratio >= np.minimum(regime.CLEAR_LOSS, 0.5 * highest))
    measured = {name: getattr(rows, name) for name in DELAYS}
    last = DELAYS[-1]
    measured[last] = np.where(np.isfinite(measured[last]), measured[last], measured[DELAYS[-2]])
    return {
        name: (measured[name] - curve.path_ns(rows.frame_bytes)) * rows.forwarding_pps / 1e9
        for name, curve in delays.items()
    }
