"""What the firewall's experiments take from stored runs. Times are in µs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from weirlab.measure.verify import parted
from weirlab.model import regimes as regime
from weirlab.model.base import F64, ObservationTable
from weirlab.records import Observation
from weirlab.store import Run
from weirlab.store.codec import spec_from_json
from weirlab.store.steps import StepSeries

US: Final = 1e3

LOST: Final = regime.OVERLOAD_LOSS
"""Loss ratio above which a trial counts as overloaded."""


def settings(run: Run) -> Mapping[str, pl.DataFrame]:
    """The valid trials of a series by the names of its settings."""
    valid = run.trials().filter("valid")
    return {str(name): valid.filter(label=name) for name in valid["label"].unique(maintain_order=True)}


def us(trials: pl.DataFrame | None, column: str = "delay_mean_ns") -> list[float]:
    """A column of times, in µs."""
    return [] if trials is None else [value / US for value in trials[column].drop_nulls().to_list()]


def middle(values: Iterable[float]) -> float:
    """The median; NaN of nothing."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.median(known)) if known else float("nan")


def loss_percent(trials: pl.DataFrame | None) -> float:
    """The median loss in percent."""
    return float("nan") if trials is None else 100 * middle(trials["loss_ratio"].drop_nulls().to_list())


@dataclass(frozen=True)
class MeasuredProfile:
    """The trials of a profile, sorted by regime."""

    observations: tuple[Observation, ...]
    held_out: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, run: Run) -> MeasuredProfile:
        """Those of ``run``."""
        held_out, _ = parted(run.observations("verify", plain=True))
        return cls(tuple(run.observations("profile", plain=True)), tuple(held_out))

    @cached_property
    def table(self) -> ObservationTable:
        """The profile's trials."""
        return ObservationTable.of(self.observations)

    @cached_property
    def everything(self) -> ObservationTable:
        """Held-out trials, too."""
        return ObservationTable.of((*self.observations, *self.held_out))

    @cached_property
    def over(self) -> ObservationTable:
        """The profile's trials in overload."""
        return self.table.where(regime.sort(self.table).overload)

    @cached_property
    def below(self) -> ObservationTable:
        """The profile's other trials."""
        return self.table.where(regime.sort(self.table).below)

    def thresholds(self, *, held_out: bool = True) -> dict[float, float]:
        """Threshold in pps by rule count: the mean over frame sizes of the forwarding rate in overload."""
        table = self.everything if held_out else self.table
        regimes = regime.sort(table)
        limits = regimes.threshold_pps(table)
        places = np.array([setting.position for setting in regimes.settings])
        known = np.isfinite(limits)
        return {float(n): float(limits[known & (places == n)].mean()) for n in np.unique(places[known])}

    def repeated(self, position: float) -> F64:
        """Forwarding rates in overload of every trial of the smallest frames at ``position``."""
        rows = self.over.position == position
        smallest = self.over.frame_bytes[rows].min() if rows.any() else 0.0
        return np.asarray(self.over.forwarding_pps[rows & (np.abs(self.over.frame_bytes - smallest) < 1)])


def means(table: ObservationTable) -> dict[float, float]:
    """Mean delay in µs by position."""
    return {
        float(n): float(table.delay_mean_ns[table.position == n].mean()) / US
        for n in np.unique(table.position)
    }


@dataclass(frozen=True)
class SteppedTrial:
    """One trial with steps, in bins by departure."""

    at_ns: tuple[float, ...]
    start_ns: F64
    sent: F64
    received: F64
    delay_us: F64

    def mean(self, begin_ns: float, end_ns: float) -> float:
        """Mean delay in µs of the packets that departed in this time; NaN without any."""
        rows = (self.start_ns >= begin_ns) & (self.start_ns < end_ns) & (self.received > 0)
        if not rows.any():
            return float("nan")
        return float(np.average(self.delay_us[rows], weights=self.received[rows]))


def stepped(run: Run) -> Mapping[str, list[SteppedTrial]]:
    """The valid trials with steps, by the names of their settings."""
    found: dict[str, list[SteppedTrial]] = {}
    series = run.series()
    for trial_id, label, text in run.trials().filter("valid").select("trial_id", "label", "spec").iter_rows():
        at = tuple(step.at_s * 1e9 for step in spec_from_json(json.loads(text)).traffic.steps)
        bins = series.filter(trial_id=trial_id).sort("start_ns")
        if not at or not bins.height:
            continue
        columns = (bins[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in _BINS)
        start, sent, received, delay = columns
        found.setdefault(label, []).append(SteppedTrial(at, start, sent, received, delay / US))
    return found


def by_bin(trials: Sequence[SteppedTrial], zero_ns: float) -> Sequence[tuple[float, float]]:
    """Medians over the trials of each bin's mean, by its start in ms from ``zero_ns``."""
    by_start: dict[float, list[float]] = {}
    for trial in trials:
        for start_ns, delay_us in zip(trial.start_ns, trial.delay_us, strict=True):
            by_start.setdefault((float(start_ns) - zero_ns) / 1e6, []).append(float(delay_us))
    return [(at, middle(delays)) for at, delays in sorted(by_start.items())]


_AFTER_NS: Final = 20e6
"""Time after a step in which a course keeps all its bins."""
_STRETCHES: Final = 400
"""Into which a course is divided otherwise."""


def thinned(trials: StepSeries, delay_ns: F64) -> Sequence[tuple[float, float]]:
    """``delay_ns`` of the bins of ``trials`` in µs, by when they begin in s, as far as a chart can show them.

    All bins shortly after a step; elsewhere several are joined, weighted with the packets that came.
    """
    start, traffic = trials.start_ns, trials.spec.traffic
    since = start[:, None] - 1e9 * np.array([step.at_s for step in traffic.steps])
    near = np.any((since >= 0) & (since < _AFTER_NS), axis=1)
    stretch = np.floor(start * _STRETCHES / (1e9 * traffic.duration_s))
    begins = near | np.append(False, near[:-1]) | (np.diff(stretch, prepend=-1.0) != 0)
    first = np.flatnonzero(begins)
    weight = np.where(np.isfinite(delay_ns), trials.received, 0.0)
    total, count = (np.add.reduceat(each, first) for each in (np.nan_to_num(delay_ns) * weight, weight))
    return [
        (at / 1e9, summed / packets / US)
        for at, summed, packets in zip(start[first], total, count, strict=True)
        if packets
    ]


_BINS: Final = ("start_ns", "sent", "received", "delay_mean_ns")


def neighbours(values: Iterable[float]) -> list[tuple[float, float]]:
    """Pairs of successive values."""
    return list(itertools.pairwise(values))


def r_squared(y: npt.ArrayLike, fitted: npt.ArrayLike) -> float:
    """The share of the variance that a fit explains."""
    found, expected = np.asarray(y, dtype=np.float64), np.asarray(fitted, dtype=np.float64)
    spread = float(((found - found.mean()) ** 2).sum())
    return 1 - float(((found - expected) ** 2).sum()) / spread if spread else float("nan")
