"""Whether a device meets limits at given settings.

An interval at level L covers L percent of trials, so ``(100 + L)/2`` percent of them stay below
its upper end: the levels 50, 90 and 99 give 75, 95 and 99.5 %. Between those the
logarithm of the bound is interpolated over the quantile of the normal distribution, in
which it is a straight line if errors are log-normal. The prediction itself counts as 50 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy.special import ndtri

from weirlab.base.errors import InputError, ModelError
from weirlab.model.base import DELAYS, F64, LEVELS, Bool, Prediction, Predictor, ProfileRange, settings
from weirlab.model.intervals.calibration import NEAR
from weirlab.model.planning.requirements import QuantityLimit
from weirlab.model.servers import SeveralServers

HIGHEST: Final = (100 + max(LEVELS)) / 200
"""The highest certainty that intervals can give; beyond it nothing was calibrated."""

LEAST: Final = 0.5
"""The prediction itself."""

DEFAULT: Final = 0.95


def check(certainty: float) -> None:
    """Raise ``InputError`` for a certainty that no prediction can have."""
    if not LEAST <= certainty <= HIGHEST:
        raise InputError(
            f"certainty {certainty * 100:g} % is out of range: 50 % (the prediction itself) to "
            f"{HIGHEST * 100:g} % (the widest calibrated interval)"
        )


def known(prediction: Prediction, quantity: str) -> bool:
    """Whether the model has an interval for ``quantity``."""
    return bool(prediction.intervals.get(quantity))


def at_most(prediction: Prediction, quantity: str, certainty: float) -> F64:
    """The bound below which ``quantity`` stays in a trial with ``certainty`` (0.5 to :data:`HIGHEST`).

    Without intervals this is the prediction. Loss is bounded by the uncertainty of the
    threshold, too: ``1 - threshold / load`` at the threshold's lower end.
    """
    value = getattr(prediction, quantity)
    bands = prediction.intervals.get(quantity, {})
    return _between(value, {level: band.high for level, band in bands.items()}, certainty, rising=True)


def at_least(prediction: Prediction, quantity: str, certainty: float) -> F64:
    """The bound above which ``quantity`` stays with ``certainty``; without intervals the prediction."""
    value = getattr(prediction, quantity)
    bands = prediction.intervals.get(quantity, {})
    return _between(value, {level: band.low for level, band in bands.items()}, certainty, rising=False)


def excess(prediction: Prediction, limit: QuantityLimit) -> F64:
    """The predicted quantity relative to its limit: above 1 it is missed; infinite if it is not known."""
    return np.asarray(np.nan_to_num(getattr(prediction, limit.quantity) / limit.at_most, nan=np.inf))


def loss_at_most(prediction: Prediction, rate_pps: F64, certainty: float) -> F64:
    """Loss ratio below which a trial stays with ``certainty``.

    The larger of two bounds: the interval of the loss itself, and the excess of the load over
    the lower end of the threshold, since loss sets in there.
    """
    own = at_most(prediction, "loss_ratio", certainty)
    if not known(prediction, "threshold_pps"):
        return own
    threshold = at_least(prediction, "threshold_pps", certainty)
    return np.asarray(np.clip(np.maximum(own, 1.0 - threshold / rate_pps), 0.0, 1.0))


def loss_at_least(prediction: Prediction, rate_pps: F64, certainty: float) -> F64:
    """Loss ratio above which a trial stays with ``certainty``: the smaller of the same two bounds."""
    own = at_least(prediction, "loss_ratio", certainty)
    if not known(prediction, "threshold_pps"):
        return own
    threshold = at_most(prediction, "threshold_pps", certainty)
    return np.asarray(np.clip(np.minimum(own, 1.0 - threshold / rate_pps), 0.0, 1.0))


def _between(value: F64, ends: dict[int, F64], certainty: float, *, rising: bool) -> F64:
    check(certainty)
    value = np.asarray(value, dtype=np.float64)
    if not ends or certainty == LEAST:
        return value
    levels = sorted(ends)
    knots = [float(ndtri((100 + level) / 200)) for level in levels]
    # The ends of wider intervals never lie further in, whatever calibration did.
    extreme = np.maximum if rising else np.minimum
    curve = extreme.accumulate(np.stack([value, *(np.asarray(ends[level]) for level in levels)]), axis=0)
    z = float(ndtri(certainty))
    if z > knots[-1] + 1e-9:
        raise ModelError(
            f"the intervals of this model give at most {(100 + levels[-1]) / 2:g} % certainty, "
            f"not {certainty * 100:g} %; fit it again with weir fit"
        )
    right = min(int(np.searchsorted(knots, z - 1e-12)), len(knots) - 1)
    z_left, z_right = (0.0, *knots)[right], knots[right]
    low, high = curve[right], curve[right + 1]
    weight = min((z - z_left) / (z_right - z_left), 1.0)
    if weight == 1.0:
        return np.asarray(high)
    positive = (low > 0) & (high > 0) & np.isfinite(high)
    safe_low, safe_high = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
    geometric = safe_low ** (1 - weight) * safe_high**weight
    finite = np.where(np.isfinite(high), high, 0.0)
    straight = np.where(np.isfinite(high), low * (1 - weight) + finite * weight, high)
    return np.asarray(np.where(positive, geometric, straight))


BOUNDED = (*DELAYS, "jitter_ns", "loss_ratio")
"""Quantities that can be limited."""

Decision = Literal["meets", "undecided", "misses"]
"""For one setting: the limits hold with the requested certainty; the interval is too wide to tell; the device
does not meet them."""

_DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)


def worst(decisions: Iterable[Decision]) -> Decision:
    """What the decisions on all limits come to."""
    return max(decisions, key=_DECISIONS.index)


ROOM: Final = NEAR[1]
"""Anything no further than this from a limit, in load or in the limited quantity, has reached it: a device
this close to its threshold is near it, and a plan must not rely on that."""


def decision(
    limit: QuantityLimit, values: Sequence[float], floor: float, bound: float, *, disturbed: bool = False
) -> Decision:
    """The decision on one limit.

    ``values`` are predicted at a load lower by :data:`ROOM`, at the load, and at one as much higher, between
    ``floor`` and ``bound`` at the load. ``undecided`` is due to the profile: bounds lie on both sides of the
    limit although the prediction is clear of it. It is on the same side at a load a tenth higher, or lower if
    it misses the limit, and the bound on the other side is more than a tenth away. A bound of the loss is
    always far from a predicted loss of zero. ``disturbed``: see :attr:`Judge.disturbed`.
    """
    arrays = [np.asarray(each) for each in values]
    numbers = _decision_numbers(limit, arrays, floor, bound, disturbed=disturbed)
    return _DECISIONS[int(numbers)]


def _decision_numbers(
    limit: QuantityLimit,
    values: Sequence[F64],
    floor: ArrayLike,
    bound: ArrayLike,
    *,
    disturbed: bool = False,
) -> npt.NDArray[np.int_]:
    """The same of arrays, as numbers in :data:`Decision`; see :attr:`Judge.disturbed`."""
    lighter, usual, heavier = (value <= limit.at_most for value in values)
    floor, bound = np.asarray(floor), np.asarray(bound)
    straddles = floor <= limit.at_most
    wide_above, wide_below = bound > ROOM * values[1], straddles & (floor * ROOM < values[1])
    if limit.quantity == "loss_ratio":
        wide_above, wide_below = np.full_like(straddles, True), straddles
    unclear = (usual & heavier & wide_above) | (~(lighter | usual) & wide_below)
    if disturbed:
        unclear = unclear | (limit.quantity != "loss_ratio") | straddles
    return np.where(bound <= limit.at_most, 0, np.where(unclear, 1, 2))


@dataclass(frozen=True)
class LoadFloor:
    """A model that answers for a load below the lowest profiled one as for that: a bound, as a lighter load
    leaves a device more room."""

    model: Predictor
    least_pps: float

    @classmethod
    def of(cls, model: Predictor) -> LoadFloor:
        """``model`` from its lowest profiled load on; from none on if it does not tell."""
        profiled = getattr(model.one if isinstance(model, SeveralServers) else model, "profiled", None)
        return cls(model, profiled.rate_min_pps if isinstance(profiled, ProfileRange) else 0.0)

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        rate, *others = settings(rate_pps, frame_bytes, position, gap_scv)
        return self.model.predict(np.maximum(rate, self.least_pps), *others)

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        return self.model.threshold_pps(position, frame_bytes)

    def replaces(self, rate_pps: float) -> bool:
        """Whether the answer for this load is that for another."""
        return rate_pps < self.least_pps * (1 - ProfileRange.RATE_SLACK)


@dataclass(frozen=True)
class OperatingPoints:
    """Settings at which a device is judged; arrays of one shape, or numbers."""

    rate_pps: ArrayLike
    frame_bytes: ArrayLike
    position: ArrayLike


@dataclass(frozen=True)
class DeviceVerdict:
    """What a device does at :class:`Settings`; arrays of their shape."""

    prediction: Prediction
    bounds: dict[str, F64]
    """By quantity of the limits: the bound below which it stays with the requested certainty."""
    met: Bool
    """Every limit holds."""
    binding: npt.NDArray[np.intp]
    """Index of the limit that is exceeded most: by the prediction if it exceeds one, else by the bounds; or
    that is closest."""
    outside: Bool
    """Outside the profiled range."""


@dataclass(frozen=True)
class Judge:
    """A model and its requirements.

    ``certainty`` (0.5 to 0.995) chooses the bound of the predictions; a model without
    intervals has only its predictions, see ``uncertain``.
    """

    model: Predictor
    limits: tuple[QuantityLimit, ...]
    certainty: float = DEFAULT
    gap_scv: float = 0.0
    extrapolate: bool = False
    disturbed: bool = False
    """The host disturbed the profile: it may be what misses a limit, except where packets are surely
    lost."""

    def at(self, settings: OperatingPoints) -> DeviceVerdict:
        """Judge every setting; raises ``InputError`` for settings without meaning."""
        rate, frame, place = np.broadcast_arrays(
            np.asarray(settings.rate_pps, dtype=np.float64),
            np.asarray(settings.frame_bytes, dtype=np.float64),
            np.asarray(settings.position, dtype=np.float64),
        )
        found = self.model.predict(rate, frame, place, self.gap_scv)
        bounds = {limit.quantity: self.bound(found, limit.quantity, rate) for limit in self.limits}
        # An unknown quantity (jitter that was not measured) does not meet its limit.
        used = np.stack(
            [np.nan_to_num(bounds[limit.quantity] / limit.at_most, nan=np.inf) for limit in self.limits]
        )
        foreseen = np.stack([excess(found, limit) for limit in self.limits])
        # A prediction that misses says more than a bound: a bound of a loss is far above a predicted zero.
        closest = np.where((foreseen > 1.0).any(axis=0), foreseen.argmax(axis=0), used.argmax(axis=0))
        return DeviceVerdict(
            prediction=found,
            bounds=bounds,
            met=np.asarray((used <= 1.0).all(axis=0)),
            binding=closest,
            outside=np.broadcast_to(found.extrapolated, rate.shape),
        )

    def bound(self, found: Prediction, quantity: str, rate_pps: F64) -> F64:
        """The bound below which ``quantity`` stays with the requested certainty."""
        if quantity == "loss_ratio":
            return loss_at_most(found, rate_pps, self.certainty)
        return at_most(found, quantity, self.certainty)

    def floor(self, found: Prediction, quantity: str, rate_pps: F64) -> F64:
        """The bound above which ``quantity`` stays with the requested certainty."""
        if quantity == "loss_ratio":
            return loss_at_least(found, rate_pps, self.certainty)
        return at_least(found, quantity, self.certainty)

    def decide(self, settings: OperatingPoints) -> Decision:
        """The decision on a single setting: the worst of those on the limits."""
        return worst(self.decisions(settings))

    def decisions(self, settings: OperatingPoints) -> tuple[Decision, ...]:
        """The :func:`decision` on each limit at a single setting with the requested certainty."""
        return tuple(_DECISIONS[int(each)] for each in self.decisions_on(settings))

    def decisions_on(self, settings: OperatingPoints) -> list[npt.NDArray[np.int_]]:
        """For each limit, the numbers of the :func:`decisions <decision>` at each of the settings."""
        foreseen = replace(self, certainty=LEAST)
        rate = np.asarray(settings.rate_pps, dtype=np.float64)
        near = [
            (pps, self.model.predict(pps, settings.frame_bytes, settings.position, self.gap_scv))
            for pps in (rate / ROOM, rate, rate * ROOM)
        ]
        found = []
        for limit in self.limits:
            bound, floor = (each(near[1][1], limit.quantity, rate) for each in (self.bound, self.floor))
            values = [foreseen.bound(prediction, limit.quantity, pps) for pps, prediction in near]
            found.append(_decision_numbers(limit, values, floor, bound, disturbed=self.disturbed))
        return found

    def uncertain(self, settings: OperatingPoints) -> tuple[str, ...]:
        """Limited quantities for which the model has no interval although one is requested."""
        if self.certainty == LEAST:
            return ()
        found = self.model.predict(settings.rate_pps, settings.frame_bytes, settings.position, self.gap_scv)
        return tuple(limit.quantity for limit in self.limits if not known(found, limit.quantity))

    def reasons(self, settings: OperatingPoints) -> list[str]:
        """Why a single setting lies outside the profiled range; empty inside."""
        return self.model.predict(
            settings.rate_pps, settings.frame_bytes, settings.position, self.gap_scv
        ).why
