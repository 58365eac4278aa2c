"""Where the model knows least, and which trials to make next.

Pure: the same arguments give the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from weirlab.base.errors import ModelError
from weirlab.measure.adaptive.design import F64, Candidates
from weirlab.model.queueing import QueueingModel
from weirlab.records import Observation

MEMBERS: Final = 8
"""Models in a committee."""

STEP_DOUBT: Final = 0.1
"""Uncertainty of the law between two measured positions: one standard deviation is this share of the
logarithmic step of the service time between them. The law may bend there, where no trial was made."""

LARGEST: Final = 1.0
"""A larger uncertainty says nothing more, e.g. right below the threshold."""

_CLEAR_LOSS: Final = 0.05

# Distances at which two trials count as different: a factor of two in position and size, a step of
# one in the logit of the load share. The logit, because waiting depends on the share that is left free.
_POSITION_STEP: Final = 0.7
_SIZE_STEP: Final = 0.7
_LOAD_STEP: Final = 1.0
_OVERLOAD_STEP: Final = 0.15
_OVERLOAD_FROM: Final = 6.0

Uncertainty = Callable[[QueueingModel, Sequence[Observation], Candidates], F64]
"""Takes a model, the trials that it was fitted to and settings. Returns, for each setting, the standard
deviation of ln(measured / predicted) that another trial there could remove."""


def committee(
    model: QueueingModel,
    observations: Sequence[Observation],
    settings: Candidates,
    *,
    members: int = MEMBERS,
    seed: int = 1,
) -> F64:
    """Uncertainty as the disagreement of models that were fitted to resampled trials (bootstrap).

    In overload they disagree on threshold and delay, below it on the mean delay. Beyond the
    threshold :func:`step_doubt` is added, since resampling does not bend a law. Infinite
    if too few of the resamples can be fitted. Query by committee: Seung, Opper,
    Sompolinsky, COLT 1992; the bootstrap as its committee: Abe, Mamitsuka, ICML 1998.
    """
    rate_pps = settings.load_share * model.threshold_pps(settings.position, settings.frame_bytes)
    thresholds: list[F64] = []
    delays: list[F64] = []
    for resample in _resamples(observations, 2 * members, seed):
        if len(delays) == members:
            break
        try:
            member = QueueingModel.fit(resample, like=model)
        except ModelError:
            continue
        found = member.predict(rate_pps, settings.frame_bytes, settings.position)
        thresholds.append(np.log(found.threshold_pps))
        delays.append(np.log(found.delay_mean_ns))
    if len(delays) < 3:
        return np.full(len(settings), np.inf)
    over = settings.load_share >= 1
    shown = np.where(over, np.maximum(_deviation(thresholds), _deviation(delays)), _deviation(delays))
    doubt = np.where(over, step_doubt(model, observations, settings), 0.0)
    return np.asarray(np.minimum(np.hypot(shown, doubt), LARGEST))


def spread(model: QueueingModel, observations: Sequence[Observation], settings: Candidates) -> F64:
    """Uncertainty as the model itself states it: its spread in excess of the noise of a trial.

    The spread of threshold (in overload) and mean delay. Noise depends mainly on the load, so
    the smallest spread over all settings with the same share of the threshold is taken as
    noise, which no further trial removes.
    """
    rate_pps = settings.load_share * model.threshold_pps(settings.position, settings.frame_bytes)
    found = model.predict(rate_pps, settings.frame_bytes, settings.position).spread
    over = settings.load_share >= 1
    _, load = np.unique(settings.load_share, return_inverse=True)
    excess = {}
    for name in ("threshold_pps", "delay_mean_ns"):
        values = found.get(name, np.zeros(len(settings)))
        noise = np.full(load.max() + 1, np.inf)
        np.minimum.at(noise, load, values)
        excess[name] = np.sqrt(np.maximum(values**2 - noise[load] ** 2, 0.0))
    shown = np.where(over, np.maximum(*excess.values()), excess["delay_mean_ns"])
    return np.asarray(np.minimum(shown, LARGEST))


def committee_and_spread(
    model: QueueingModel, observations: Sequence[Observation], settings: Candidates
) -> F64:
    """The larger of :func:`committee`, which knows what the trials do not settle, and
    :func:`spread`, which knows what lies far from any trial."""
    return np.maximum(committee(model, observations, settings), spread(model, observations, settings))


def step_doubt(model: QueueingModel, observations: Sequence[Observation], settings: Candidates) -> F64:
    """Doubt about the threshold between positions that were measured in overload.

    It is zero at such positions. Between two of them it peaks at ``STEP_DOUBT`` of the logarithmic
    step of the service time, in the middle of the positions or of the step.
    """
    known = np.unique([o.position for o in observations if o.loss_ratio > _CLEAR_LOSS])
    if len(known) < 2:
        return np.full(len(settings), LARGEST)
    at = np.clip(settings.position, known[0], known[-1])
    right = np.clip(np.searchsorted(known, at), 1, len(known) - 1)
    low, high = known[right - 1], known[right]

    def service(position: F64) -> F64:
        return np.asarray(-np.log(model.threshold_pps(position, settings.frame_bytes)))

    step = service(high) - service(low)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_step = np.nan_to_num((service(at) - service(low)) / step, nan=0.0, posinf=0.0, neginf=0.0)
    of_positions = (np.log1p(at) - np.log1p(low)) / (np.log1p(high) - np.log1p(low))
    middle = np.maximum(_bump(of_step), _bump(of_positions))
    return np.asarray(STEP_DOUBT * np.abs(step) * middle)


def choose(
    uncertainty: F64, settings: Candidates, measured: Candidates, count: int, apart: float = 1.0
) -> list[int]:
    """Indices of the ``count`` settings to measure next, the best first.

    The gain of one more trial at an uncertainty ``u`` falls with the number of trials nearby,
    as ``u / sqrt(1 + near)``. Trials of one batch keep their distance: a setting scores less
    the nearer it is to one already chosen, and no setting is chosen twice. ``apart`` scales
    that distance.
    """
    places, known = _scaled(settings), _scaled(measured)
    # Settings without a prediction are equally uncertain: those far from all trials win.
    gain = np.where(np.isfinite(uncertainty), uncertainty, LARGEST)
    near = _nearness(places, known, apart).sum(axis=1)
    free = np.ones(len(settings))
    chosen: list[int] = []
    for _ in range(min(count, len(settings))):
        score = gain / np.sqrt(1 + near) * free
        score[chosen] = -1.0
        best = int(np.argmax(score))
        chosen.append(best)
        nearness = _nearness(places, places[best : best + 1], apart)[:, 0]
        near += nearness
        free = np.minimum(free, 1 - nearness)
    return chosen


def measured_settings(model: QueueingModel, observations: Sequence[Observation]) -> Candidates:
    """The settings of past trials, with loads relative to the model's threshold."""
    columns = np.array([[o.position, o.frame_bytes, o.rate_pps] for o in observations]).reshape(-1, 3)
    position, frame_bytes, rate_pps = columns.T
    return Candidates(position, frame_bytes, rate_pps / model.threshold_pps(position, frame_bytes))


def _resamples(observations: Sequence[Observation], count: int, seed: int) -> list[list[Observation]]:
    """Trials drawn with replacement, separately in overload and below, so that both are represented."""
    draw = np.random.default_rng(seed)
    parts = [[o for o in observations if (o.loss_ratio > _CLEAR_LOSS) == over] for over in (True, False)]
    return [
        [part[i] for part in parts if part for i in draw.integers(0, len(part), len(part))]
        for _ in range(count)
    ]


def _deviation(logs: Sequence[F64]) -> F64:
    """Half the distance between the 16th and the 84th percentile, which one stray member cannot dominate."""
    low, high = np.quantile(np.stack(logs), (0.16, 0.84), axis=0)
    return np.asarray((high - low) / 2)


def _bump(part: F64) -> F64:
    """One in the middle, zero at both ends."""
    inside = np.clip(part, 0, 1)
    return np.asarray(4 * inside * (1 - inside))


def _scaled(settings: Candidates) -> F64:
    """Settings as points; a distance of one is far enough for two trials."""
    share = np.clip(settings.load_share, 1e-3, 2.0)
    below = np.minimum(share, 0.995)
    load = np.where(
        share < 1,
        np.log(below / (1 - below)) / _LOAD_STEP,
        _OVERLOAD_FROM + np.log(np.maximum(share, 1)) / _OVERLOAD_STEP,
    )
    position = np.log1p(settings.position) / _POSITION_STEP
    size = np.log(settings.frame_bytes) / _SIZE_STEP
    return np.stack([position, size, load], axis=1)


def _nearness(places: F64, others: F64, apart: float) -> F64:
    """One for the same setting, falling to zero with the distance; shape (places, others)."""
    square = ((places[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-square / (2 * apart**2)))
