"""Settings that two runs have in common, and how the second run differs from the first there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.model.base import F64
from weirlab.model.regimes import CLEAR_LOSS, NEAR
from weirlab.model.trials import SAME_LOAD
from weirlab.records import Observation

Compared = Literal["rate", "mean", "p99", "loss"]

QUANTITIES: Final[Mapping[Compared, str]] = {
    "rate": "forwarding rate",
    "mean": "mean delay",
    "p99": "p99 delay",
    "loss": "loss",
}
"""What is compared, in words. Jitter and the other percentiles follow these and scatter more."""

_DELAYS: Final[Mapping[Compared, str]] = {"mean": "delay_mean_ns", "p99": "delay_p99_ns"}

SETTING: Final = "setting"
"""Key of ``Observation.extra`` that may have the rest of a trial's specification, as text."""
LOAD: Final = "asked load"
"""Key of the load, for trials that are only compared at the same load."""


OWN_RULES: Final = -1.0
"""Position of the places of a device with rules of its own: how many of them packets meet may differ."""


@dataclass(frozen=True, order=True)
class ComparisonSetting:
    """A setting of the device and the traffic, including the load if that was specified."""

    position: float
    frame_bytes: float
    gap_scv: float = 0.0
    stateful: bool = False
    cross_traffic: bool = False
    load: str = ""
    """As it was specified, if a place has one load."""
    rest: Hashable = ""

    @classmethod
    def of(cls, seen: Observation) -> ComparisonSetting:
        return cls(
            seen.position, round(seen.frame_bytes, 1), round(seen.gap_scv, 2), seen.stateful,
            seen.cross_traffic, str(seen.extra.get(LOAD, "")), str(seen.extra.get(SETTING, "")),
        )  # fmt: skip

    @property
    def text(self) -> str:
        """``400 rules, 64 B, random arrivals``."""
        rules = "1 rule" if self.position == 1 else f"{self.position:,.6g} rules"
        parts = [
            "" if self.position == OWN_RULES else rules,
            f"{self.frame_bytes:.4g} B",
            self.load,
            "random arrivals" if self.gap_scv else "",
            "connection tracking" if self.stateful else "",
            "cross traffic" if self.cross_traffic else "",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class SettingMeasurement:
    """What one run measured at one place; arrays have an element per trial."""

    log_rate: F64
    """In overload, or of every trial if all have the same load."""
    log_delay: Mapping[Compared, F64]
    """Of trials below the threshold, in order of their load."""
    loss: F64
    """Loss ratios of the same trials."""
    curves: Mapping[Compared, tuple[F64, F64]]
    """Medians of repetitions at the logarithms of their loads; empty without trials below the threshold."""


@dataclass(frozen=True)
class SettingDifference:
    """How one quantity differs at one place: the logarithm of second over first.

    ``variances`` are those of both sides' means, from their repetitions; NaN without repetitions.
    ``singles`` are the differences at single loads, both ways round, if loads had to be matched.
    """

    place: ComparisonSetting
    difference: float
    variances: tuple[float, float] = (np.nan, np.nan)
    freedom: tuple[int, int] = (0, 0)
    singles: tuple[float, ...] = ()


def digest(
    observations: Sequence[Observation], *, same_load: bool
) -> dict[ComparisonSetting, SettingMeasurement]:
    """The trials of one run by place.

    Parameters
    ----------
    same_load:
        All trials of a place have the same specified load, as in a run of single trials. Otherwise, as in a
        profile, those in overload give the forwarding rate, and those below 90 % of it the rest.
    """
    groups: dict[ComparisonSetting, list[Observation]] = defaultdict(list)
    for seen in observations:
        groups[ComparisonSetting.of(seen)].append(seen)
    return {place: _measured(trials, same_load) for place, trials in groups.items()}


def _measured(trials: Sequence[Observation], same_load: bool) -> SettingMeasurement:
    loss = np.array([seen.loss_ratio for seen in trials])
    log_rate = np.log([max(seen.forwarding_pps, 1e-9) for seen in trials])
    load = np.log([seen.rate_pps for seen in trials])
    if same_load:
        rest = np.arange(len(trials))
    else:
        over = loss > CLEAR_LOSS
        threshold = float(np.median(log_rate[over])) if over.any() else float(load.max())
        rest = np.flatnonzero(~over & (load <= threshold + np.log(NEAR)))
        log_rate = log_rate[over]
    rest = rest[np.argsort(load[rest], kind="stable")]
    delays = {name: np.array([getattr(seen, field) for seen in trials]) for name, field in _DELAYS.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = {name: np.log(values[rest]) for name, values in delays.items()}
    curves = {} if same_load else {name: _curve(load[rest], values) for name, values in logs.items()}
    return SettingMeasurement(log_rate, logs, loss[rest], curves)


def contrast(
    before: Mapping[ComparisonSetting, SettingMeasurement],
    after: Mapping[ComparisonSetting, SettingMeasurement],
    quantity: Compared,
    *,
    same_load: bool,
) -> list[SettingDifference]:
    """How ``quantity`` differs at every place that both have; not for loss, which has no logarithm."""
    found = []
    for place in sorted(before.keys() & after.keys(), key=lambda place: (place.position, place.text)):
        first, second = before[place], after[place]
        if quantity == "rate" and same_load and not (first.loss.any() or second.loss.any()):
            # Everything was forwarded, so the rate is the load and says nothing about the device.
            continue
        if quantity == "rate" or same_load:
            match = _repeated(place, _values(first, quantity), _values(second, quantity))
        else:
            match = _interpolated(place, first, second, quantity)
        if match is not None:
            found.append(match)
    return found


def losses(
    runs: Sequence[Mapping[ComparisonSetting, SettingMeasurement]], places: Sequence[ComparisonSetting]
) -> F64:
    """Loss ratios of all trials at ``places``, below the threshold unless all have the same load."""
    known = [run[place].loss for run in runs for place in places if place in run]
    return np.concatenate(known) if known else np.empty(0)


def _values(measured: SettingMeasurement, quantity: Compared) -> F64:
    values = measured.log_rate if quantity == "rate" else measured.log_delay[quantity]
    return values[np.isfinite(values)]


def _repeated(place: ComparisonSetting, first: F64, second: F64) -> SettingDifference | None:
    """The difference of repeated trials on either side: medians, and the variance of a mean."""
    if not len(first) or not len(second):
        return None
    difference = _median(second) - _median(first)
    variances = tuple(float(np.var(v, ddof=1)) / len(v) if len(v) > 1 else np.nan for v in (first, second))
    return SettingDifference(place, difference, variances, (len(first) - 1, len(second) - 1))  # type: ignore[arg-type]


def _interpolated(
    place: ComparisonSetting, first: SettingMeasurement, second: SettingMeasurement, quantity: Compared
) -> SettingDifference | None:
    """Delays at the same load, each run's own against the other's interpolated.

    Both ways round, so that the error of interpolating a curve by chords cancels.
    """
    one, other = first.curves[quantity], second.curves[quantity]
    if not len(one[0]) or not len(other[0]):
        return None
    singles = np.concatenate([_against(one, other), -_against(other, one)])
    if not len(singles):
        return None
    return SettingDifference(place, _median(singles), singles=tuple(singles.tolist()))


def _curve(load: F64, value: F64) -> tuple[F64, F64]:
    """Loads and medians of the repetitions there."""
    known = np.isfinite(value)
    load, value = load[known], value[known]
    if not len(load):
        return load, value
    group = np.concatenate([[0], np.cumsum(np.diff(load) > SAME_LOAD)])
    return _medians(load, group), _medians(value, group)


def _medians(values: F64, group: npt.NDArray[np.intp]) -> F64:
    """Median of each of the groups, which are numbered from 0; both arrays have shape (n,)."""
    ordered = values[np.lexsort((values, group))]
    size = np.bincount(group)
    first = np.cumsum(size) - size
    return np.asarray(0.5 * (ordered[first + (size - 1) // 2] + ordered[first + size // 2]))


def _median(values: F64) -> float:
    """As ``np.median``, whose checks take much longer than a few numbers need."""
    ordered = np.sort(values)
    return 0.5 * float(ordered[(len(values) - 1) // 2] + ordered[len(values) // 2])


def _against(own: tuple[F64, F64], other: tuple[F64, F64]) -> F64:
    """The other curve minus the own points, if it has loads on both sides, or the same load."""
    load, value = own
    inside = (load >= other[0][0] - SAME_LOAD) & (load <= other[0][-1] + SAME_LOAD)
    return np.asarray(np.interp(load[inside], *other) - value[inside])
