"""A temporary delay after a rate step that the queue does not explain.

The published model (see :mod:`weirlab.model.lohmiller`) finds that a step in the rate causes a spike
of latency and a step in the matching position none, and adds a spike to its prediction over
time, without giving its form. Here it has the simplest form: proportional to the step's size,
fading exponentially; steps down have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError

F64 = npt.NDArray[np.float64]

_DECAYS: Final = 60
"""Decay times that are tried, evenly on a log scale."""
_FASTEST: Final = 0.25
"""Shortest decay time over the width of a bin: a faster spike shows only its area."""
_SLOWEST: Final = 0.2
"""Longest decay time over the time seen after the step: a slower one looks like a wrong level."""
_LEAST_SIGMA: Final = 3.0
"""Standard errors by which an amplitude has to differ from 0."""


@dataclass(frozen=True)
class Spike:
    """``ns_per_pps * step * exp(-t / decay)`` on top of the delay, t after a step up of the rate.

    ``stderr`` is that of ``ns_per_pps``; ``steps`` is the number of steps it was fitted to.
    """

    ns_per_pps: float = 0.0
    decay_ns: float = 1.0
    stderr: float = 0.0
    steps: int = 0

    def __bool__(self) -> bool:
        return self.ns_per_pps > 0

    def ns(self, since_ns: npt.ArrayLike, step_pps: npt.ArrayLike) -> F64:
        """Extra delay in ns ``since_ns`` after steps of ``step_pps``; 0 before, and for steps down."""
        since, step = np.asarray(since_ns, dtype=np.float64), np.asarray(step_pps, dtype=np.float64)
        fading = np.exp(-np.maximum(since, 0.0) / self.decay_ns)
        return np.asarray(np.where(since >= 0, self.ns_per_pps * np.maximum(step, 0.0) * fading, 0.0))


NO_SPIKE: Final = Spike()


def fit_spike(
    since_ns: npt.ArrayLike,
    bin_ns: npt.ArrayLike,
    excess_ns: npt.ArrayLike,
    step_pps: npt.ArrayLike,
    series: npt.ArrayLike,
) -> Spike:
    """Fit to what was measured above a model's prediction after steps up of the rate.

    Parameters
    ----------
    since_ns
        Start of each bin, counted from the step, 0 or more; shape (m,).
    bin_ns
        Width of the bins; shape (m,) or one number.
    excess_ns
        Measured minus predicted mean delay of each bin; shape (m,).
    step_pps
        Size of the step that each bin follows, above 0; shape (m,).
    series
        Which step of which trial a bin belongs to; shape (m,). Each has its own level, so that
        a model with the same error before and after shows no spike.

    Returns
    -------
    Spike
        :data:`NO_SPIKE` if three standard errors include 0, the Bayesian information
        criterion prefers none, or there are fewer than four bins.
    """
    since, width, excess, step = np.broadcast_arrays(
        *(np.asarray(a, dtype=np.float64) for a in (since_ns, bin_ns, excess_ns, step_pps))
    )
    labels = np.asarray(series)
    if since.ndim != 1 or labels.shape != since.shape:
        raise InputError(
            f"fit_spike needs flat arrays of one length, got {since.shape} bins and {labels.shape} series"
        )
    known = np.isfinite(excess) & (since >= 0) & (step > 0)
    since, width, excess, step, labels = (a[known] for a in (since, width, excess, step, labels))
    _, which = np.unique(labels, return_inverse=True)
    if len(excess) < 4 + int(which.max(initial=-1)):
        return NO_SPIKE
    level = _levelled(excess, which)
    best: tuple[float, float, float, float] | None = None
    for decay in np.geomspace(_FASTEST * width.min(), _SLOWEST * (since + width).max(), _DECAYS):
        shape = _levelled(step * _binned(since, width, float(decay)), which)
        power = float(shape @ shape)
        if power <= 0:
            continue
        amplitude = float(shape @ level) / power
        misfit = float(((level - amplitude * shape) ** 2).sum())
        if amplitude > 0 and (best is None or misfit < best[0]):
            best = misfit, amplitude, float(decay), power
    if best is None:
        return NO_SPIKE
    misfit, amplitude, decay, power = best
    m, steps = len(excess), int(which.max()) + 1
    error = float(np.sqrt(misfit / max(m - steps - 2, 1) / power))
    without = float(level @ level)
    gain = m * np.log(without / misfit) - 2 * np.log(m) if misfit > 0 else np.inf
    if amplitude < _LEAST_SIGMA * error or gain <= 0:
        return NO_SPIKE
    return Spike(amplitude, decay, error, steps)


def _binned(since: F64, width: F64, decay: float) -> F64:
    """Mean of ``exp(-t / decay)`` over each bin."""
    return np.asarray(decay / width * np.exp(-since / decay) * -np.expm1(-width / decay))


def _levelled(values: F64, which: npt.NDArray[np.intp]) -> F64:
    """``values`` less the mean of their series."""
    count = np.bincount(which)
    return np.asarray(values - (np.bincount(which, values) / count)[which])
