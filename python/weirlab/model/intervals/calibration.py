"""The outcome of a calibration, and the intervals that follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from scipy.special import ndtri, stdtrit

from weirlab.base.documents import typed
from weirlab.base.units import NS_PER_S
from weirlab.model.base import F64, LEVELS, QUANTILE_DELAYS, QUANTITIES, TOLD_LEVEL, Band, Prediction
from weirlab.model.comparing.scatter import LATER, LATER_FREEDOM
from weirlab.model.intervals.losses import LossBelow, most_lost
from weirlab.model.trials import Labels

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

REGIMES: Final = ("below", "near", "overload")
LEAST_POSITIONS: Final = 4
"""With fewer, a model without one of the positions between the ends is no longer the same model."""

NEAR: Final = (0.9, 1.1)
"""Loads relative to the predicted threshold between which a trial is near it."""

FAR_BELOW: Final = 0.5
"""Loads relative to the predicted threshold that are surely below it if the threshold has no interval."""

_MOST_PACKETS: Final = ("delay_mean_ns", "delay_p50_ns")
"""Delays that follow the scatter of mean delays from run to run; the others follow that of p99."""

_RESOLUTION: Final = {"threshold_pps": 0.0, "loss_ratio": 0.0}
_RESOLUTION_NS: Final = 10.0
"""Added to both sides of a ratio of times: time stamps cannot resolve less."""

_SEEN: Final = "seen"
"""Key of what the profile has seen, besides the quantities."""
_LATER: Final = "later"
"""Key of how the host's state differs at another hour."""
_HOST_LOSS: Final = "host_loss"
"""Key of what the host loses below every threshold."""
_FEW_POSITIONS: Final = "few_positions"
"""Key of the positions of a profile with too few to check predictions between them."""

_SIZES: Final = "sizes"
"""Key of the frame sizes of a profile."""

_LOST: Final = "lost"
"""Key of what trials lost below the threshold."""

_LEAST_SPREAD: Final = 1e-5
"""Of the logarithm of a ratio: finer than any time stamp."""
_LEAST_LOSS_SPREAD: Final = 5e-4
"""Of the loss ratio: a few packets that a host loses now and then say nothing."""


_BEYOND_MEASURED: Final = 2.0
"""Factor by which a trial may be slower than the slowest, or faster than the fastest, of its profile: the
repetitions of a profile are few, but its overloads have filled the queue."""


@dataclass(frozen=True)
class DelayRange:
    """What a profile has seen of one delay, or of jitter: a new trial will not lie far from that."""

    least_ns: float
    most_ns: float
    held_packets: float
    """Most packets that the device held, by Little's law: delay times forwarding rate; 0 for jitter."""

    def bounds_ns(self, predicted: F64, threshold_pps: F64) -> tuple[F64, F64]:
        """Bounds of any trial of a setting: at worst its queue is full, or the host stalls."""
        full = self.held_packets / threshold_pps * NS_PER_S
        most = np.maximum(np.maximum(self.most_ns, full), predicted)
        return np.minimum(self.least_ns, predicted) / _BEYOND_MEASURED, most * _BEYOND_MEASURED


Laws = Callable[[float], Mapping[str, F64]]
"""From a factor of service times to what a model's laws predict then, by quantity."""


@dataclass(frozen=True)
class HostDrift:
    """How much the state of the host at the hour of a new trial may differ from that of the profile.

    Standard deviations of logarithms, each of the difference of two runs at one setting.
    """

    service: float
    """Of the time per packet."""
    delay: float
    """Of the delay of most packets."""
    tail: float
    """Of the delay of the slowest packets, and of jitter."""
    freedom: int = LATER_FREEDOM
    """Degrees of freedom of the standard deviations."""

    @classmethod
    def published(cls, rate: float = 0.0, delay: float = 0.0) -> Self:
        """What recorded runs show, or what the profile itself shows if that is more.

        ``rate`` and ``delay``: standard deviations of the logarithms of forwarding rate and mean delay within
        the profile, by the host's state. They do not count twice, as the mean of the profile's states moves
        little, and not for each other: delays may change severalfold where the rate stays as it is.
        """
        service, most, tail = (
            math.hypot(max(math.sqrt(2) * later.run, within), later.place)
            for later, within in ((LATER["rate"], rate), (LATER["mean"], delay), (LATER["p99"], delay))
        )
        return cls(service, most, tail)

    def end(self, level: int) -> float:
        """Where the interval of ``level`` percent ends, in standard deviations."""
        return float(stdtrit(self.freedom, 0.5 + level / 200))

    def shifts(self, laws: Laws) -> dict[str, tuple[F64, F64]]:
        """By quantity one standard deviation down and up: of a logarithm, for loss of the ratio itself."""
        # The laws bend: they are evaluated where the level that is shown ends.
        end = self.end(TOLD_LEVEL)
        usual, fast, slow = (laws(math.exp(each * end * self.service)) for each in (0, -1, 1))
        found: dict[str, tuple[F64, F64]] = {}
        for quantity in usual:
            if quantity == "loss_ratio":
                found[quantity] = (
                    (usual[quantity] - fast[quantity]) / end,
                    (slow[quantity] - usual[quantity]) / end,
                )
                continue
            own = self.delay if quantity in _MOST_PACKETS else self.tail
            logs = [np.log(each[quantity] + _RESOLUTION_NS) for each in (usual, fast, slow)]
            down, up = np.maximum(logs[0] - logs[1], 0.0), np.maximum(logs[2] - logs[0], 0.0)
            found[quantity] = np.hypot(down / end, own), np.hypot(up / end, own)
        shape = np.broadcast(*usual.values()).shape
        return found | {"threshold_pps": (np.full(shape, self.service), np.full(shape, self.service))}


@dataclass(frozen=True)
class ScoreLimits:
    """The scores between which one new trial lies, per regime (in the order of ``REGIMES``).

    A regime about which the profile says too little has the limits of all regimes together. Limits
    enclose 0, the prediction itself.
    """

    low: dict[int, tuple[float, ...]]
    """By level in percent."""
    high: dict[int, tuple[float, ...]]
    cells: tuple[int, ...]
    """Settings and loads that the limits come from."""
    scaled: bool
    """Whether scores are relative to the model's own ``Prediction.spread``."""


@dataclass(frozen=True)
class IntervalCalibration:
    """How far single trials are from a model's predictions at settings that the model has not seen.

    Made by :func:`weirlab.model.intervals.cross_validation.calibrate`.
    """

    limits: dict[str, ScoreLimits]
    """By quantity; those never measured are missing."""
    seen: dict[str, DelayRange] = field(default_factory=dict)
    """By delay, and for jitter; empty in the models of older versions."""
    later: HostDrift | None = None
    """How the host's state differs at another hour; None if it never does, or in models of older versions."""
    host_loss: dict[int, float] = field(default_factory=dict)
    """By level: how much more than predicted a trial loses at most whose load is surely below the threshold.

    There a device loses nothing, and what is lost was lost by the host."""
    few_positions: tuple[float, ...] = ()
    """All positions of a profile that has too few to leave one out: no limit comes from a position that the
    model had not seen. Empty if limits do, and in models of older versions."""

    sizes: tuple[float, ...] = ()
    """Mean frame sizes of the profile, in bytes: no limit comes from a size that the model had not seen.
    Empty in the models of older versions."""

    lost: tuple[LossBelow, ...] = ()
    """By profiled setting; empty if no trial lost anything below the threshold, and in models of older
    versions."""

    def unchecked(self, position: F64, frame_bytes: F64) -> str:
        """What the intervals of these positions and frame sizes leave out; empty if nothing."""
        between, remedies = [], []
        known = self.few_positions
        if len(known) >= 2 and not np.isin(position, known).all():
            between.append(f"the {len(known)} profiled rule counts")
            remedies.append(f"at least {LEAST_POSITIONS}")
        if len(self.sizes) >= 2 and not np.isin(np.round(frame_bytes), np.round(self.sizes)).all():
            between.append("the profiled frame sizes")
            remedies.append("the frame size itself")
        if not between:
            return ""
        return (
            f"how far predictions between {' and '.join(between)} are off is not known, and not in their"
            f" intervals: profile {' and '.join(remedies)}, or compare with trials (weir verify)"
        )

    def applied(
        self, prediction: Prediction, rate_pps: F64, frame_bytes: F64, position: F64, laws: Laws
    ) -> Prediction:
        """``prediction`` with its intervals; the three arrays have the shape of the prediction.

        ``laws`` says what the model's laws predict, by quantity and in the shape of the prediction, if each
        service takes that many times as long; it is asked only if the host's state differs.
        """
        regime = regime_of(rate_pps, prediction.threshold_pps)
        shifts = {} if self.later is None else self.later.shifts(laws)

        def shift(quantity: str, level: int) -> tuple[F64, F64] | None:
            """How far the host's state moves the value down and up."""
            if self.later is None or quantity not in shifts:
                return None
            end = self.later.end(level)
            return end * shifts[quantity][0], end * shifts[quantity][1]

        intervals = {
            quantity: {
                level: self._bounded(
                    quantity,
                    prediction,
                    band_of(quantity, prediction, found, level, regime, shift(quantity, level)),
                )
                for level in LEVELS
            }
            for quantity, found in self.limits.items()
            if not found.scaled or quantity in prediction.spread
        }
        for level, band in intervals.get("loss_ratio", {}).items():
            sure = rate_pps <= surely_below(
                prediction.threshold_pps, intervals.get("threshold_pps", {}).get(level)
            )
            if level in self.host_loss:
                most = np.clip(prediction.loss_ratio + self.host_loss[level], 0.0, 1.0)
                high = np.where(sure, np.minimum(band.high, most), band.high)
                band = Band(np.minimum(band.low, high), high)
            if self.lost and level >= TOLD_LEVEL:
                # How far a load is from the threshold is only known as well as the threshold.
                slack = _slack(prediction, intervals, level, shift("threshold_pps", level))
                share = rate_pps * slack / prediction.threshold_pps
                seen = most_lost(self.lost, share, frame_bytes, position)
                band = replace(band, high=np.maximum(band.high, seen))
            intervals["loss_ratio"][level] = band
        _order(intervals, prediction)
        return replace(prediction, intervals=intervals, unchecked=self.unchecked(position, frame_bytes))

    def _bounded(self, quantity: str, prediction: Prediction, band: Band) -> Band:
        """``band`` cut to what a trial can show; in logarithms a few spoiled trials reach far."""
        if quantity not in self.seen:
            return band
        predicted = getattr(prediction, quantity)
        least, most = self.seen[quantity].bounds_ns(predicted, prediction.threshold_pps)
        return Band(np.maximum(band.low, least), np.minimum(band.high, most))

    def to_json(self) -> dict[str, Any]:
        """Limits by quantity, what the profile has seen, and how the host's state differs."""
        return {**self.limits, _SEEN: self.seen, **self._others()}

    def _others(self) -> dict[str, Any]:
        others: dict[str, Any] = {
            _LATER: self.later,
            _HOST_LOSS: self.host_loss,
            _FEW_POSITIONS: self.few_positions,
            _SIZES: self.sizes,
            _LOST: self.lost,
        }
        return {name: value for name, value in others.items() if value}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import no_info_plain_validator_function

        return no_info_plain_validator_function(cls._read)

    @classmethod
    def _read(cls, document: dict[str, Any]) -> IntervalCalibration:
        limits = {quantity: found for quantity, found in document.items() if quantity in QUANTITIES}
        later = typed(HostDrift, document[_LATER]) if _LATER in document else None
        seen = typed(dict[str, DelayRange], document.get(_SEEN, {}))
        host_loss = typed(dict[int, float], document.get(_HOST_LOSS, {}))
        few = typed(tuple[float, ...], document.get(_FEW_POSITIONS, ()))
        sizes = typed(tuple[float, ...], document.get(_SIZES, ()))
        lost = typed(tuple[LossBelow, ...], document.get(_LOST, ()))
        return cls(typed(dict[str, ScoreLimits], limits), seen, later, host_loss, few, sizes, lost)


def _slack(
    prediction: Prediction,
    intervals: Mapping[str, Mapping[int, Band]],
    level: int,
    shift: tuple[F64, F64] | None,
) -> F64:
    """By what factor a load may be nearer to the threshold than predicted."""
    if (band := intervals.get("threshold_pps", {}).get(level)) is not None:
        return np.asarray(prediction.threshold_pps / np.maximum(band.low, 1.0))
    spread = prediction.spread.get("threshold_pps", np.zeros_like(prediction.threshold_pps))
    own = ndtri((100 + level) / 200) * spread
    return np.asarray(np.exp(own if shift is None else np.hypot(own, shift[0])))


def _order(intervals: dict[str, dict[int, Band]], prediction: Prediction) -> None:
    """Order the ends as the quantiles are: what 99 % of packets keep to, 50 % keep to as well."""
    known = [quantity for quantity in QUANTILE_DELAYS if quantity in intervals]
    for level in LEVELS:
        bands = [intervals[quantity][level] for quantity in known]
        if not bands:
            continue
        lows = np.maximum.accumulate([band.low for band in bands])
        highs = np.minimum.accumulate([band.high for band in reversed(bands)])[::-1]
        for quantity, low, high in zip(known, lows, highs, strict=True):
            predicted = getattr(prediction, quantity)
            intervals[quantity][level] = Band(np.minimum(low, predicted), np.maximum(high, predicted))


def regime_of(rate_pps: F64, threshold_pps: F64) -> Labels:
    """Index into ``REGIMES`` by load and predicted threshold."""
    share = rate_pps / threshold_pps
    return np.asarray((share >= NEAR[0]).astype(np.intp) + (share > NEAR[1]))


def surely_below(threshold_pps: F64, band: Band | None) -> F64:
    """The load up to which no trial reaches the threshold, by its interval ``band``; None: it has none."""
    if band is None:
        return FAR_BELOW * threshold_pps
    return np.minimum(NEAR[0] * threshold_pps, band.low)


def score(quantity: str, measured: F64, predicted: F64, spread: F64 | None) -> F64:
    """Signed conformity score: how much the measured value exceeds the predicted one.

    The logarithm of their ratio, for loss (which may be 0) the difference; in units of the
    model's own ``spread`` if it has one.
    """
    if quantity == "loss_ratio":
        off = measured - predicted
    else:
        floor = _RESOLUTION.get(quantity, _RESOLUTION_NS)
        off = np.log((measured + floor) / (predicted + floor))
    return np.asarray(off if spread is None else off / _floored(quantity, spread))


def band_of(
    quantity: str,
    prediction: Prediction,
    limits: ScoreLimits,
    level: int,
    regime: Labels | int = 0,
    shift: tuple[F64, F64] | None = None,
) -> Band:
    """The inverse of :func:`score` at both limits, which ``shift`` of the host's state widens."""
    predicted = getattr(prediction, quantity)
    low, high = np.asarray(limits.low[level])[regime], np.asarray(limits.high[level])[regime]
    if limits.scaled:
        spread = _floored(quantity, prediction.spread[quantity])
        low, high = low * spread, high * spread
    if shift is not None:
        # The state of the host and the scatter of a trial have nothing to do with each other.
        low, high = -np.hypot(low, shift[0]), np.hypot(high, shift[1])
    if quantity == "loss_ratio":
        return Band(np.clip(predicted + low, 0.0, 1.0), np.clip(predicted + high, 0.0, 1.0))
    floor = _RESOLUTION.get(quantity, _RESOLUTION_NS)
    # Overflow is bounded later by what the profile has seen.
    with np.errstate(over="ignore"):
        # Rounding must not push a limit past the prediction that it encloses.
        return Band(
            np.clip((predicted + floor) * np.exp(low) - floor, 0.0, predicted),
            np.maximum((predicted + floor) * np.exp(high) - floor, predicted),
        )


def _floored(quantity: str, spread: F64) -> F64:
    return np.maximum(spread, _LEAST_LOSS_SPREAD if quantity == "loss_ratio" else _LEAST_SPREAD)
