"""Models while the load changes: how long a queue takes to fill and to drain, and what a step adds.

:func:`over_time` predicts, :func:`binned` averages the prediction as a trial's time series does, and
:func:`step_errors` compares the two. ``docs/transients.md`` derives it and says where it fails.
"""

from __future__ import annotations

from weirlab.model.transient.compare import DelayBins, StepError, binned, binned_along, step_errors
from weirlab.model.transient.course import Trajectory, over_time, trajectory
from weirlab.model.transient.phases import LoadPhase, TransientPrediction, phases_of
from weirlab.model.transient.spiking import StepObservation, with_spike

__all__ = [
    "DelayBins", "LoadPhase", "StepError", "StepObservation", "Trajectory", "TransientPrediction", "binned",
    "binned_along", "over_time", "phases_of", "step_errors", "trajectory", "with_spike",
]  # fmt: skip
