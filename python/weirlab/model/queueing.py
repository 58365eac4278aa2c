"""The queueing model: a server with a finite queue, told by a handful of physical numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from weirlab.model import explain, robust, waiting
from weirlab.model import regimes as regime
from weirlab.model.base import (
    DELAYS,
    F64,
    Parameter,
    Prediction,
    Profiled,
    Table,
    places,
    settings,
)
from weirlab.model.delay import DelayCurve, Load, fit_delay
from weirlab.model.jitter import JitterCurve, fit_jitter
from weirlab.model.service import ServiceTime, fit_service
from weirlab.records import Observation

QUANTILES: Final[dict[str, float | None]] = {
    "delay_mean_ns": None,
    "delay_p50_ns": 0.5,
    "delay_p90_ns": 0.9,
    "delay_p99_ns": 0.99,
    "delay_p999_ns": 0.999,
}

LEAST_LOADS_BELOW: Final = 3
LEAST_POSITIONS: Final = 2

# A queue whose load fluctuates so much that it lost packets at 90 % of the threshold would have
# shown that in the profile; what spreads delays further is the host, which loses nothing.
_MAX_LOSS_VARIABILITY: Final = 0.01


@dataclass(frozen=True)
class Queueing:
    """A server with service time ``s(n, L)`` behind a queue of K packets.

    Threshold ``1/s``; loss above it ``1 - 1/(lambda s)``; median delay there ``K s`` plus
    the path; below it path, service and waiting of a reflected Brownian motion.
    Predictions hold for arrivals as regular, or as random, as those of the profile.
    """

    name: ClassVar[str] = "queueing"

    service: ServiceTime
    queue_packets: float
    queue_stderr: float
    delays: dict[str, DelayCurve]
    """By the names in ``base.DELAYS``."""
    jitter: JitterCurve
    profiled: Profiled

    @classmethod
    def fit(cls, observations: Iterable[Observation]) -> Self:
        """Fit to valid trials, in steps that each use the trials which tell most.

        Service time from the forwarding rate in overload, K from delay times forwarding
        rate there, the path, wake-up and variability from trials below the threshold.
        """
        table = Table.of(observations)
        regimes = regime.sort(table)
        regime.require(table, regimes, cls.name, LEAST_LOADS_BELOW, LEAST_POSITIONS)
        over, below = table.where(regimes.overload), table.where(regimes.below)
        service = fit_service(over.position, over.frame_bytes, over.forwarding_pps)
        load_below = _load(service, below.rate_pps, below.frame_bytes, below.position)
        # K hardly matters below the threshold, so a rough one will do until the path is known.
        rough = float(np.median(over.delay_p50_ns * over.forwarding_pps / 1e9))
        delays = {
            name: fit_delay(
                QUANTILES[name], load_below.where(known), getattr(below, name)[known], rough, service.scatter
            )
            for name in DELAYS
            if (known := np.isfinite(getattr(below, name))).any()
        }
        delays.setdefault("delay_p999_ns", delays["delay_p99_ns"])
        full = _full_queues(over, delays)
        # A device that drops without queueing still has the packet in service.
        found, queue_stderr = robust.median_with_error(full["delay_p50_ns"])
        places_total = max(found, 1.0)
        delays = {
            name: replace(curve, plateau=max(float(np.median(full[name])), 1.0) / places_total)
            for name, curve in delays.items()
        }
        curve = delays["delay_mean_ns"]
        both = table.where(regimes.overload | regimes.below)
        load_both = _load(service, both.rate_pps, both.frame_bytes, both.position)
        return cls(
            service=service,
            queue_packets=places_total,
            queue_stderr=queue_stderr,
            delays=delays,
            jitter=fit_jitter(
                load_both, both.jitter_ns, curve.variability_at(load_both.service_ns), places_total
            ),
            profiled=Profiled.of(table, 1e9 / service.ns(table.position, table.frame_bytes)),
        )

    def predict(
        self,
        rate_pps: npt.ArrayLike,
        frame_bytes: npt.ArrayLike,
        position: npt.ArrayLike,
        gap_scv: npt.ArrayLike = 0.0,
    ) -> Prediction:
        """Predict at the given settings; see :meth:`weirlab.model.base.Model.predict`."""
        rate, frame, place = settings(rate_pps, frame_bytes, position)
        load = _load(self.service, rate, frame, place)
        mean = self.delays["delay_mean_ns"]
        found = {name: curve.ns(load, self.queue_packets) for name, curve in self.delays.items()}
        p50 = found["delay_p50_ns"]
        # Each quantile has a fit of its own; noise must not make them cross.
        p90 = np.maximum(found["delay_p90_ns"], p50)
        p99 = np.maximum(found["delay_p99_ns"], p90)
        threshold = np.asarray(1e9 / load.service_ns)
        busy = mean.variability_at(load.service_ns)
        variability = np.minimum(busy, _MAX_LOSS_VARIABILITY * self.queue_packets)
        outside, why = self.profiled.outside(rate, frame, place, threshold)
        return Prediction(
            threshold_pps=threshold,
            loss_ratio=waiting.loss_ratio(load.rho, variability, self.queue_packets),
            delay_mean_ns=found["delay_mean_ns"],
            delay_p50_ns=p50,
            delay_p90_ns=p90,
            delay_p99_ns=p99,
            delay_p999_ns=np.maximum(found["delay_p999_ns"], p99),
            jitter_ns=self.jitter.ns(load, busy, self.queue_packets),
            extrapolated=outside,
            why=why,
        )

    def threshold_pps(self, position: npt.ArrayLike, frame_bytes: npt.ArrayLike) -> F64:
        """Offered load above which packets are lost."""
        place, frame = places(position, frame_bytes)
        return np.asarray(1e9 / self.service.ns(place, frame))

    def parameters(self) -> list[Parameter]:
        """The fitted numbers; those that the data did not support are left out."""
        return explain.parameters(self.service, self.delays, self.queue_packets, self.queue_stderr)

    def in_words(self) -> list[str]:
        """What the numbers mean, one sentence each."""
        return explain.in_words(
            self.service, self.delays, self.queue_packets, self.queue_stderr, self.profiled
        )

    def to_json(self) -> dict[str, Any]:
        """Everything needed to predict again, as plain JSON values."""
        return {
            "service": self.service.to_json(),
            "queue_packets": self.queue_packets,
            "queue_stderr": self.queue_stderr,
            "delays": {name: curve.to_json() for name, curve in self.delays.items()},
            "jitter": self.jitter.to_json(),
            "profiled": self.profiled.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of :meth:`to_json`; ``KeyError`` or ``TypeError`` for anything else."""
        return cls(
            service=ServiceTime(**data["service"]),
            queue_packets=float(data["queue_packets"]),
            queue_stderr=float(data["queue_stderr"]),
            delays={name: DelayCurve(**data["delays"][name]) for name in DELAYS},
            jitter=JitterCurve(**data["jitter"]),
            profiled=Profiled(**data["profiled"]),
        )


def _load(service: ServiceTime, rate: F64, frame: F64, position: F64) -> Load:
    return Load(rate, frame, position, service.ns(position, frame))


def _full_queues(over: Table, delays: dict[str, DelayCurve]) -> dict[str, F64]:
    """Packets in the full queue, per delay and trial: delay less path, times the trial's own rate.

    Just above the threshold the queue is not always full, so each position's heavier
    overloads count.
    """
    highest = np.array([over.loss_ratio[over.position == n].max() for n in over.position])
    rows = over.where(over.loss_ratio >= np.maximum(np.minimum(regime.CLEAR_LOSS, highest), 0.5 * highest))
    return {
        name: (getattr(rows, name) - curve.path_ns(rows.frame_bytes)) * rows.forwarding_pps / 1e9
        for name, curve in delays.items()
    }
