"""What every model can do, and the plain values that models take and return."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from weirlab.base.errors import InputError, ModelError
from weirlab.records import Observation

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

DELAYS: Final = ("delay_mean_ns", "delay_p50_ns", "delay_p90_ns", "delay_p99_ns", "delay_p999_ns")
"""The delays that are predicted, as named in ``Observation`` and ``Prediction``."""

QUANTILE_DELAYS: Final = DELAYS[1:]
"""Those of them that are quantiles, in their order."""

QUANTITIES: Final = ("threshold_pps", "loss_ratio", *DELAYS, "jitter_ns")
"""All that is predicted."""

LEVELS: Final = (50, 90, 99)
"""Percent of trials that the intervals should cover."""

TOLD_LEVEL: Final = 90
"""The level that tables and sentences show; JSON has all of them."""

_OPTIONAL: Final = ("jitter_ns", "delay_p999_ns")
"""Quantities that a usable trial may lack."""


@dataclass(frozen=True)
class Parameter:
    """One fitted number; ``stderr`` is its standard error in the same ``unit`` (NaN if unknown)."""

    name: str
    value: float
    stderr: float
    unit: str
    meaning: str


@dataclass(frozen=True)
class Band:
    """An interval of predictions; arrays of one shape, in the unit of the quantity."""

    low: F64
    high: F64


@dataclass(frozen=True)
class Prediction:
    """What a model expects. All arrays have the broadcast shape of the arguments of ``predict``.

    ``extrapolated`` marks settings outside the profiled range; ``why`` holds the distinct
    reasons over all of them, and is empty if nothing was extrapolated.

    ``spread`` is the model's own estimate of the standard deviation of
    ``ln(measured / predicted)`` of one new trial, by quantity (for ``loss_ratio`` that of the
    difference); empty if it has none. ``intervals`` holds, by quantity and level in
    percent (:data:`LEVELS`), the interval into which one new trial should fall; empty for a
    model that was not calibrated. ``unchecked`` says what these intervals do not cover; empty if nothing.
    """

    threshold_pps: F64
    loss_ratio: F64
    delay_mean_ns: F64
    delay_p50_ns: F64
    delay_p90_ns: F64
    delay_p99_ns: F64
    delay_p999_ns: F64
    jitter_ns: F64
    extrapolated: Bool
    why: list[str]
    spread: dict[str, F64] = field(default_factory=dict)
    intervals: dict[str, dict[int, Band]] = field(default_factory=dict)
    unchecked: str = ""


class Predictor(Protocol):
    """Anything that predicts what a device, or several in a row, will do."""

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        """Predict at the given settings; arguments broadcast against each other.

        For a mix of sizes give its mean frame size; for traffic that matches at several
        positions the mean position. ``gap_scv`` is the squared coefficient of variation of
        the gaps between arrivals: 0 for constant ones, 1 for a Poisson process. Raises
        ``InputError`` for values without meaning.
        """
        ...

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        """Offered load above which packets are lost."""
        ...


class Model(Predictor, Protocol):
    """A fitted model of a device under test. Instances never change after the fit."""

    name: ClassVar[str]

    @classmethod
    def fit(cls, observations: Iterable[Observation]) -> Self:
        """Fit to valid trials; raises ``ModelError`` saying which trials are missing."""
        ...


@dataclass(frozen=True)
class ObservationTable:
    """Observations as columns; rows without a finite load and delay are left out."""

    rate_pps: F64
    frame_bytes: F64
    position: F64
    forwarding_pps: F64
    loss_ratio: F64
    delay_mean_ns: F64
    delay_p50_ns: F64
    delay_p90_ns: F64
    delay_p99_ns: F64
    delay_p999_ns: F64
    jitter_ns: F64
    gap_scv: F64
    packets: F64

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> ObservationTable:
        names = tuple(cls.__dataclass_fields__)
        rows = np.array([[getattr(o, name) for name in names] for o in observations], dtype=np.float64)
        rows = rows.reshape(-1, len(names))
        needed = [i for i, name in enumerate(names) if name not in _OPTIONAL]
        usable = np.isfinite(rows[:, needed]).all(axis=1)
        usable &= (rows[:, names.index("rate_pps")] > 0) & (rows[:, names.index("forwarding_pps")] > 0)
        for name in DELAYS[:-1]:
            usable &= rows[:, names.index(name)] > 0
        return cls(*rows[usable].T.copy())

    def where(self, mask: Bool | npt.NDArray[np.intp]) -> ObservationTable:
        return ObservationTable(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.rate_pps)


class Reason(str):
    """Why a setting lies outside the profiled range; ``remedy``: which option brings it inside."""

    remedy: str

    def __new__(cls, text: str, remedy: str = "") -> Self:
        reason = super().__new__(cls, text)
        reason.remedy = remedy
        return reason


_NUMBER: Final = re.compile(r"\d+(\.\d+)?%?")
_LOADS: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 1.2)
"""Shares of the threshold that a model needs besides those in question."""


def refusal(what: str, reasons: Iterable[str], profile: Sequence[str] = ()) -> ModelError:
    """The error for extrapolating without the user's consent; ``what``: a plan, a prediction.

    ``profile`` is the command that profiled the device: remedies keep its options.
    """
    told = list(dict.fromkeys(reasons))
    remedies = dict.fromkeys(
        _by_profile(reason.remedy, profile) for reason in told if isinstance(reason, Reason)
    )
    helps = "; ".join(remedies) or "profile a wider range"
    return ModelError(
        f"this {what} would extrapolate: {'; '.join(told)}. What helps: {helps}; or accept the risk with "
        "--extrapolate"
    )


def _by_profile(remedy: str, profile: Sequence[str]) -> str:
    """``remedy``, with the options of ``profile`` besides the one that it names."""

    def command(match: re.Match[str]) -> str:
        option, wanted = match[1], match[2].split(",")
        words: list[str] = []
        for before, word in zip(["", *profile], profile, strict=False):
            if option == before or word.startswith(f"{option}="):
                wanted += word.removeprefix(f"{option}=").split(",")
            elif word != option:
                words.append(word)
        numbers = {float(value.rstrip("%")): value for value in wanted if _NUMBER.fullmatch(value)}
        return f"{shlex.join(words)} {option} {','.join(numbers[number] for number in sorted(numbers))}"

    return re.sub(r"weir profile (--[a-z]+) (\S+?)(?=[)\s]|$)", command, remedy) if profile else remedy


@dataclass(frozen=True)
class ProfileRange:
    """The range of settings that a model was fitted to."""

    rate_min_pps: float
    rate_max_pps: float
    frame_min_bytes: float
    frame_max_bytes: float
    position_min: float
    position_max: float
    share_max: float
    """Highest profiled load relative to the threshold at the same setting."""
    gap_scv_min: float = 0.0
    gap_scv_max: float = 0.0

    # An achieved load differs a little from the nominal one, which is not an extrapolation.
    RATE_SLACK: ClassVar[float] = 0.02

    @classmethod
    def of(cls, table: ObservationTable, threshold_pps: F64) -> ProfileRange:
        ends = (
            (float(column.min()), float(column.max()))
            for column in (table.rate_pps, table.frame_bytes, table.position)
        )
        (rate_min, rate_max), (frame_min, frame_max), (position_min, position_max) = ends
        share = float((table.rate_pps / threshold_pps).max())
        gaps = float(table.gap_scv.min()), float(table.gap_scv.max())
        return cls(rate_min, rate_max, frame_min, frame_max, position_min, position_max, share, *gaps)

    def covers(self, frame_bytes: float, position: float, gap_scv: float) -> bool:
        """Whether such frames, positions and gaps were profiled, at whatever load."""
        return (
            self.frame_min_bytes - 0.5 <= frame_bytes <= self.frame_max_bytes + 0.5
            and self.position_min <= position <= self.position_max
            and self.gap_scv_min <= gap_scv <= self.gap_scv_max
        )

    def outside(
        self, rate: F64, frame: F64, position: F64, threshold: F64, gap_scv: F64
    ) -> tuple[Bool, list[str]]:
        """Which settings lie outside, and the distinct reasons."""
        low, high = 1 - self.RATE_SLACK, 1 + self.RATE_SLACK
        shares = {*_LOADS, *(round(float(share), 3) for share in _ends(rate / threshold))}
        listed = ",".join(f"{100 * share:g}%" for share in sorted(shares) if share > 0)
        loads = f"profile such loads (weir profile --loads {listed})"
        checks = (
            (
                rate < self.rate_min_pps * low,
                f"load below the lowest profiled, {self.rate_min_pps:,.0f} pps",
                loads,
            ),
            (
                rate > self.rate_max_pps * high,
                f"load above the highest profiled, {self.rate_max_pps:,.0f} pps",
                loads,
            ),
            (
                rate > self.share_max * threshold * high,
                f"load above the highest profiled, {self.share_max:.3g} times the threshold",
                loads,
            ),
            (
                (frame < self.frame_min_bytes - 0.5) | (frame > self.frame_max_bytes + 0.5),
                _unlike("frame size", frame, self.frame_min_bytes, self.frame_max_bytes, " B"),
                f"profile such frames (weir profile --frame "
                f"{_listed(self.frame_min_bytes, self.frame_max_bytes, *_ends(frame))})",
            ),
            (
                (position < self.position_min) | (position > self.position_max),
                _unlike("matching position", position, self.position_min, self.position_max, ""),
                f"profile such positions (weir profile --rules "
                f"{_listed(self.position_min, self.position_max, *_ends(position))})",
            ),
            (
                (gap_scv < self.gap_scv_min) | (gap_scv > self.gap_scv_max),
                f"gaps between packets outside the profiled, {_gaps(self.gap_scv_min, self.gap_scv_max)}",
                _other_gaps(self.gap_scv_max),
            ),
        )
        flags = np.zeros(rate.shape, dtype=np.bool_)
        why: list[str] = []
        for mask, reason, remedy in checks:
            if mask.any():
                flags |= mask
                why.append(Reason(reason, remedy))
        return flags, why


def _ends(asked: F64) -> tuple[float, float]:
    return float(asked.min()), float(asked.max())


def _listed(*values: float) -> str:
    """``64,900``: whole numbers, each once."""
    return ",".join(str(value) for value in sorted({round(value) for value in values}))


def _gaps(low: float, high: float) -> str:
    names = {0.0: "constant", 1.0: "random"}
    told = [names.get(scv, f"variation {scv:g}") for scv in dict.fromkeys((low, high))]
    return " to ".join(told)


def _other_gaps(profiled_scv: float) -> str:
    """What to do about a profile with one kind of gaps only."""
    there = "constant" if profiled_scv == 0 else "poisson"
    return (
        f"use --arrivals {there}, which was profiled, or profile both kinds (weir profile and weir "
        "profile --quick do; in a scenario 'arrivals: [constant, poisson]' below 'profile')"
    )


def _unlike(name: str, asked: F64, low: float, high: float, unit: str) -> str:
    """What was profiled and, if there is only one, the requested value."""
    least, most = float(asked.min()), float(asked.max())
    if least != most:
        return f"{name} outside the profiled {_span(low, high, unit)}"
    return f"{name} {least:g}{unit}, but only {_span(low, high, unit)} was profiled"


def _span(low: float, high: float, unit: str) -> str:
    return f"{low:g}{unit}" if low == high else f"{low:g} to {high:g}{unit}"


def settings(
    rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
) -> tuple[F64, F64, F64, F64]:
    """The arguments of ``predict`` as arrays of one shape; raises ``InputError`` for impossible values."""
    rate, frame, place, gaps = np.broadcast_arrays(
        *(np.asarray(value, dtype=np.float64) for value in (rate_pps, frame_bytes, position, gap_scv))
    )
    _require(rate, rate > 0, "rate_pps", "above 0 and finite")
    _require(frame, frame > 0, "frame_bytes", "above 0 and finite")
    _require(place, place >= 0, "position", "0 (no rules) or more, and finite")
    _require(gaps, gaps >= 0, "gap_scv", "0 (constant gaps) or more, and finite")
    return rate, frame, place, gaps


def places(position: ArrayLike, frame_bytes: ArrayLike) -> tuple[F64, F64]:
    """The arguments of ``threshold_pps`` as arrays of one shape."""
    _, frame, place, _ = settings(1.0, frame_bytes, position)
    return place, frame


def require_all(what: str, found: Iterable[str], names: Iterable[str]) -> None:
    """Raise ``ValueError`` unless ``found`` has all of ``names``."""
    if missing := sorted(set(names) - set(found)):
        raise ValueError(f"{what} without {', '.join(missing)}")


def _require(values: F64, good: Bool, name: str, expected: str) -> None:
    bad = ~(good & np.isfinite(values))
    if bad.any():
        found = float(values[bad].ravel()[0])
        shown = "not a number" if math.isnan(found) else f"{found:g}"
        raise InputError(f"cannot predict at {name} = {shown}: it must be {expected}")
