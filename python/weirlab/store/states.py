"""Trials of a run can be compared only if the host was in the same state for all of them.

When a hypervisor moves virtual CPUs between core complexes, the cost of handing a packet from
the sender's CPU to the device's changes by a factor of two or more, for seconds or minutes, and
the threshold and the delay change with it. Each trial records that cost (``handover_ns``). When
the run is read, trials in another state than most of the run's trials are marked invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

SAME_RATIO: Final = 1.3
"""Handover times closer than this factor are one state; states seen differ by factors of 2 and more."""


def same(handover_ns: float, reference_ns: float) -> bool:
    """Whether this is the state of the reference."""
    return reference_ns / SAME_RATIO <= handover_ns <= reference_ns * SAME_RATIO


def majority_ns(handovers_ns: Sequence[float]) -> float | None:
    """Median handover time of the most frequent state; None without any."""
    if not len(handovers_ns):
        return None
    logs = np.log(np.asarray(handovers_ns, dtype=np.float64))
    near = np.abs(logs[:, None] - logs[None, :]) <= np.log(SAME_RATIO)
    return float(np.exp(np.median(logs[near[np.argmax(near.sum(axis=1))]])))


def reference_ns(trials: pl.DataFrame) -> float | None:
    """The state of most valid trials of the profile, or of all trials if there is no profile."""
    if "handover_ns" not in trials.columns:
        return None
    known = trials.filter(pl.col("valid") & pl.col("handover_ns").is_not_null())
    profiled = known.filter(pl.col("role") == "profile")
    return majority_ns((profiled if profiled.height else known)["handover_ns"].to_list())


def mark(trials: pl.DataFrame, reference: float | None) -> pl.DataFrame:
    """``trials`` with those in another state than ``reference`` (ns) marked invalid, with the reason."""
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
        invalid=pl.when(other).then(reason).otherwise(pl.col("invalid")), valid=pl.col("valid") & ~other
    )
