"""The spike that time series show above a model's prediction."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.model.base import F64, Model
from weirlab.model.lohmiller import LohmillerModel
from weirlab.model.piecewise import PiecewiseModel
from weirlab.model.queueing import QueueingModel
from weirlab.model.spike import NO_SPIKE, Spike, fit_spike
from weirlab.model.transient.compare import DelayBins, binned
from weirlab.model.transient.phases import LoadPhase, starts_ns

_LOSSLESS: Final = 1e-3
"""Loss ratio up to which a phase shows spikes: in overload the queue hides them."""


@dataclass(frozen=True)
class StepObservation:
    """What a trial with steps recorded in the bins between ``edges_ns`` (bins + 1,)."""

    phases: Sequence[LoadPhase]
    edges_ns: F64
    measured: DelayBins


def with_spike(model: Model, trials: Iterable[StepObservation]) -> tuple[Model, Spike]:
    """``model`` with the spike that its predictions lack after steps up of the rate, and that spike.

    Steps that also change position or frame size are left out (the thesis finds no spike
    after a step of the position), and so are those from or into overload.
    """
    if not isinstance(model, QueueingModel | PiecewiseModel | LohmillerModel):
        return model, NO_SPIKE
    plain = model.with_spike(NO_SPIKE)
    columns: list[F64] = []
    for trial in trials:
        expected = binned(plain, trial.phases, trial.edges_ns)
        excess = trial.measured.delay_mean_ns - expected.delay_mean_ns
        for step, rows in _steps_up(plain, trial):
            since = trial.edges_ns[rows] - starts_ns(trial.phases)[step]
            width = trial.edges_ns[rows + 1] - trial.edges_ns[rows]
            size = trial.phases[step].rate_pps - trial.phases[step - 1].rate_pps
            label = np.full(len(rows), float(len(columns)))
            columns.append(np.stack([since, width, excess[rows], np.full(len(rows), size), label]))
    spike = fit_spike(*np.concatenate(columns, axis=1)) if columns else NO_SPIKE
    return plain.with_spike(spike), spike


def _steps_up(
    model: Model, trial: StepObservation
) -> Iterable[tuple[int, np.ndarray[tuple[int], np.dtype[np.intp]]]]:
    """Number of the phase after each usable step, and the bins that lie in it entirely."""
    starts = starts_ns(trial.phases)
    for i, (before, after) in enumerate(itertools.pairwise(trial.phases), start=1):
        same = (before.position, before.frame_bytes) == (after.position, after.frame_bytes)
        if not same or after.rate_pps <= before.rate_pps:
            continue
        both = model.predict(
            np.array([before.rate_pps, after.rate_pps]), after.frame_bytes, after.position, after.gap_scv
        )
        if float(both.loss_ratio.max()) > _LOSSLESS:
            continue
        inside = (trial.edges_ns[:-1] >= starts[i] - 1.0) & (trial.edges_ns[1:] <= starts[i + 1] + 1.0)
        rows = np.flatnonzero(inside & (trial.edges_ns[1:] > trial.edges_ns[:-1]))
        if len(rows):
            yield i, rows
