"""Predictions over time beside a trial's time series, and the spike that the series show above them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.model.base import F64, Model
from weirlab.model.lohmiller import LohmillerModel
from weirlab.model.piecewise import PiecewiseModel
from weirlab.model.queueing import QueueingModel
from weirlab.model.spike import NO_SPIKE, Spike, fit_spike
from weirlab.model.transient.course import Trajectory, trajectory
from weirlab.model.transient.phases import LoadPhase, index_of, starts_ns

_SETTLED_WITHIN: Final = 0.1
"""Relative distance from the final level that counts as settled ..."""
_SETTLED_SIGMA: Final = 4.0
"""... if the bins' own scatter is not larger."""
_LEVEL_SHARE: Final = 1.0 / 3.0
"""The last part of a phase, which shows its final level."""
_LEAST_BINS: Final = 3
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class DelayBins:
    """Mean delay of received packets and loss ratio per bin of departure time; shapes (bins,)."""

    delay_mean_ns: F64
    loss_ratio: F64


@dataclass(frozen=True)
class StepError:
    """The errors of a prediction after one step.

    ``mape`` is the mean over bins of |predicted/measured - 1| of the mean delay, ``unsettled_mape``
    that over the bins until both have settled, at least three; ``loss_error`` is the mean of
    |predicted - measured| loss ratio. ``peak_ns`` is the highest bin, ``settle_ns``
    the time from the step until the delay stays within 10 % (or the scatter of the bins) of
    its final level; NaN if it never does.
    """

    at_ns: float
    bins: int
    mape: float
    unsettled_mape: float
    loss_error: float
    peak_ns: float
    predicted_peak_ns: float
    settle_ns: float
    predicted_settle_ns: float

    @property
    def peak_error(self) -> float:
        """Relative error of the predicted peak."""
        return self.predicted_peak_ns / self.peak_ns - 1.0


def binned(model: Model, phases: Sequence[LoadPhase], edges_ns: npt.ArrayLike) -> DelayBins:
    """The prediction of ``model`` in the bins between ``edges_ns``, counted as in a trial's time series.

    ``edges_ns`` (bins + 1,) ascend and lie within the phases. Delay is averaged over the packets that
    arrive, loss over those that depart.
    """
    return binned_along(trajectory(model, phases), edges_ns)


def binned_along(course: Trajectory, edges_ns: npt.ArrayLike) -> DelayBins:
    """As :func:`binned`, for a given trajectory."""
    edges = np.asarray(edges_ns, dtype=np.float64)
    # Both ends of every jump, and the bins' own edges.
    at = np.unique(np.concatenate([course.instants_ns, edges]))
    found = course.at(at)
    rates = np.array([phase.rate_pps for phase in course.phases])
    sent = rates[index_of(course.phases, at)]
    received = sent * (1.0 - found.loss_ratio)

    def total(density: F64) -> F64:
        area = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(at)))
        return np.diff(np.interp(edges, at, area))

    departed, arrived = total(sent), total(received)
    delay = np.full(len(arrived), np.nan)
    np.divide(total(received * found.delay_mean_ns), arrived, out=delay, where=arrived > 0)
    loss = np.clip(1.0 - arrived / departed, 0.0, 1.0)
    return DelayBins(delay, np.where(loss < _ROUNDING, 0.0, loss))


def step_errors(
    phases: Sequence[LoadPhase], start_ns: F64, bin_ns: float, measured: DelayBins, predicted: DelayBins
) -> list[StepError]:
    """One entry per step between ``phases`` that is followed by three bins or more.

    ``start_ns`` (bins,) are the bins' starts. Bins in which nothing was received count for the
    loss alone.
    """
    errors = []
    for begin, end in itertools.pairwise(starts_ns(phases)[1:]):
        rows = np.flatnonzero((start_ns + bin_ns > begin + 1e-6) & (start_ns < end - 1e-6))
        known = rows[np.isfinite(measured.delay_mean_ns[rows]) & (measured.delay_mean_ns[rows] > 0)]
        if len(known) < _LEAST_BINS:
            continue
        seen, said = measured.delay_mean_ns[known], predicted.delay_mean_ns[known]
        ends = start_ns[known] + bin_ns - begin
        error = np.abs(said / seen - 1.0)
        settle, predicted_settle = _settled(ends, seen), _settled(ends, said)
        # A delay that never settles is unsettled to the end.
        until = max(
            np.nan_to_num(time, nan=np.inf) for time in (settle, predicted_settle, ends[_LEAST_BINS - 1])
        )
        errors.append(
            StepError(
                at_ns=float(begin),
                bins=len(known),
                mape=float(error.mean()),
                unsettled_mape=float(error[ends <= until].mean()),
                loss_error=float(np.nanmean(np.abs(predicted.loss_ratio - measured.loss_ratio)[rows])),
                peak_ns=float(seen.max()),
                predicted_peak_ns=float(said.max()),
                settle_ns=settle,
                predicted_settle_ns=predicted_settle,
            )
        )
    return errors


def _settled(ends_ns: F64, delay_ns: F64) -> float:
    """End of the first bin from which all are near the final level; NaN if only the last ones are."""
    tail = delay_ns[-max(int(len(delay_ns) * _LEVEL_SHARE), 1) :]
    level = float(np.median(tail))
    scatter = 1.4826 * float(np.median(np.abs(tail - level)))
    away = np.flatnonzero(np.abs(delay_ns - level) > max(_SETTLED_WITHIN * level, _SETTLED_SIGMA * scatter))
    if not len(away):
        return float(ends_ns[0])
    after = int(away[-1]) + 1
    return float(ends_ns[after]) if after < len(delay_ns) - len(tail) // 2 else float("nan")


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
