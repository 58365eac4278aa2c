"""Trials of a run belong together only if the host was the same machine to all of them.

A hypervisor that moves virtual CPUs between core complexes changes what it costs to hand a
packet from the sender's CPU to the device's several times over, for seconds or minutes at a
time, and with it threshold and delay. Each trial carries that cost (``handover_ns``); those
of another state than most of the run's trials are marked invalid when the run is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

SAME_RATIO: Final = 1.3
"""Handover times closer than this factor are one state; states seen differ by factors of 2 and more."""


def same(handover_ns: float, reference_ns: float) -> bool:
    """Is this the state of the reference?"""
    return reference_ns / SAME_RATIO <= handover_ns <= reference_ns * SAME_RATIO


def majority_ns(handovers_ns: Sequence[float]) -> float | None:
    """Median handover time of the most frequent state; None without any."""
    if not len(handovers_ns):
        return None
    logs = np.log(np.asarray(handovers_ns, dtype=np.float64))
    near = np.abs(logs[:, None] - logs[None, :]) <= np.log(SAME_RATIO)
    return float(np.exp(np.median(logs[near[np.argmax(near.sum(axis=1))]])))


def reference_ns(trials: pl.DataFrame) -> float | None:
    """The state of most valid trials of the profile, or of all where there is no profile."""
    if "handover_ns" not in trials.columns:
        return None
    known = trials.filter(pl.col("valid") & pl.col("handover_ns").is_not_null())
    profiled = known.filter(pl.col("role") == "profile")
    return majority_ns((profiled if profiled.height else known)["handover_ns"].to_list())


def mark(trials: pl.DataFrame, reference: float | None) -> pl.DataFrame:
    """``trials`` with those of another state than ``reference`` (ns) marked invalid, with the reason."""
    if reference is None or "handover_ns" not in trials.columns:
        return trials
    handover = pl.col("handover_ns")
    other = (
        pl.col("valid")
        & handover.is_not_null()
        & ((handover > reference * SAME_RATIO) | (handover < reference / SAME_RATIO))
    )
    reason = pl.format(
        f"the host was in another state: {{}} ns from CPU to CPU and back, {reference:.0f} ns in most trials",
        handover.round(0).cast(pl.Int64),
    )
    return trials.with_columns(
        invalid=pl.when(other).then(reason).otherwise(pl.col("invalid")),
        valid=pl.col("valid") & ~other,
    )
