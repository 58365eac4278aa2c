"""Trials whose load or matching position changes during the trial, as time series."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from weirlab.records import TrialSpec
from weirlab.store.codec import spec_from_json

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StepSeries:
    """The repetitions of one trial with steps, bin by bin of departure time.

    ``start_ns`` counts from the start of recording and ``bin_ns`` is the bins' width; ``sent``
    and ``received`` are sums over the repetitions, ``delay_mean_ns`` the mean over all packets
    received, NaN where there are none. Shapes (bins,).
    """

    spec: TrialSpec
    trial_ids: tuple[str, ...]
    start_ns: F64
    bin_ns: float
    sent: F64
    received: F64
    delay_mean_ns: F64

    @property
    def loss_ratio(self) -> F64:
        ratio = np.full(len(self.sent), np.nan)
        np.divide(self.sent - self.received, self.sent, out=ratio, where=self.sent > 0)
        return ratio

    @property
    def edges_ns(self) -> F64:
        """Edges of the bins, shape (bins + 1,), none of them after the end of the trial."""
        edges = np.append(self.start_ns, self.start_ns[-1] + self.bin_ns)
        return np.asarray(np.minimum(edges, self.spec.traffic.duration_s * 1e9))


def step_series(trials: pl.DataFrame, series: pl.DataFrame) -> list[StepSeries]:
    """The valid trials with steps among ``trials`` (``Run.trials()``), repetitions joined, in order.

    ``series`` are the time series of the run (``Run.series()``). Repetitions are trials that
    differ only in seed or label, if at all.
    """
    stepped = trials.filter(
        pl.col("valid") & pl.col("spec").str.json_path_match("$.traffic.steps[0]").is_not_null()
    )
    groups: dict[str, list[tuple[str, str]]] = {}
    for trial_id, text in stepped.select("trial_id", "spec").iter_rows():
        groups.setdefault(_kind(text), []).append((trial_id, text))
    found = []
    for members in groups.values():
        ids = [trial_id for trial_id, _ in members]
        bins = (
            series.filter(pl.col("trial_id").is_in(ids))
            .with_columns(total_ns=pl.col("delay_mean_ns").fill_nan(0.0).fill_null(0.0) * pl.col("received"))
            .group_by("start_ns")
            .agg(pl.col("sent", "received", "total_ns").sum())
            .filter(pl.col("sent") > 0)
            .sort("start_ns")
        )
        if bins.height < 2:
            continue
        start, sent, received, total = (
            bins[name].cast(pl.Float64).to_numpy() for name in ("start_ns", "sent", "received", "total_ns")
        )
        delay = np.full(len(sent), np.nan)
        np.divide(total, received, out=delay, where=received > 0)
        spec = spec_from_json(json.loads(members[0][1]))
        width = float(np.diff(start).min())
        found.append(StepSeries(spec, tuple(ids), start, width, sent, received, delay))
    return found


def _kind(spec: str) -> str:
    """The specification without the fields in which repetitions differ."""
    # A plan that was read back from disk has 1.0 where the first session had 1.
    value = json.loads(spec, parse_int=float)
    value["label"], value["traffic"]["seed"] = "", 0
    return json.dumps(value, sort_keys=True)
