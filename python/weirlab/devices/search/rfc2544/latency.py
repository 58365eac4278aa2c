"""Latency at the throughput (RFC 2544 section 26.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weirlab.base.documents import Measured
from weirlab.base.errors import InputError
from weirlab.measure.search.throughput import SearchShape, Setting, whole
from weirlab.measure.search.trials import SearchTrialRunner

LABEL: Final = "latency"
REPETITIONS: Final = 20
"""The RFC's least number of repetitions."""


@dataclass(frozen=True)
class LatencyResult:
    """One-way delay at one load, over several trials; every frame of a trial is time-stamped.

    The RFC tags one frame per trial and averages the trials. Here a trial's value is the
    mean delay of all its frames, and ``mean_ns`` the average of those.
    """

    setting: Setting
    rate_pps: float
    at_least: bool
    """The device carries more than ``rate_pps``, but the sender does not."""
    repetitions: int
    mean_ns: Measured
    min_ns: Measured
    """Smallest of the trials' means."""
    max_ns: Measured
    std_ns: Measured
    """Standard deviation of the trials' means; NaN for a single trial."""
    p99_ns: Measured
    """Average of the trials' 99th percentiles."""
    loss_ratio: float
    """Frames lost in all trials together."""

    def to_json(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if name != "setting"}
        return {**self.setting.to_json(), **values}


def latency(
    trials: SearchTrialRunner,
    setting: Setting,
    shape: SearchShape,
    rate_pps: float,
    *,
    repetitions: int = REPETITIONS,
    trial_s: float = 0.2,
    at_least: bool = False,
) -> LatencyResult:
    """Measure the delay at ``rate_pps`` in ``repetitions`` trials of ``trial_s`` recorded seconds.

    Raises ``FailedTrial`` when a trial stays invalid.
    """
    if repetitions < 1:
        raise InputError(f"{repetitions} repetitions of the latency test: at least one is needed")
    spec = shape.spec(setting, whole(rate_pps), trial_s, LABEL)
    results = [trials.run(spec).result for _ in range(repetitions)]
    means = np.array([result.delay_mean_ns for result in results])
    return LatencyResult(
        setting=setting,
        rate_pps=spec.traffic.rate.value,
        at_least=at_least,
        repetitions=repetitions,
        mean_ns=float(means.mean()),
        min_ns=float(means.min()),
        max_ns=float(means.max()),
        std_ns=float(means.std(ddof=1)) if repetitions > 1 else float("nan"),
        p99_ns=float(np.mean([result.histogram.quantile_ns(0.99) for result in results])),
        loss_ratio=sum(max(result.lost, 0) for result in results) / sum(result.sent for result in results),
    )
