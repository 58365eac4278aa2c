"""Delay distributions of a few telling trials, and of single packets at each rule count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.devices.profile.page import curves
from weirlab.devices.profile.page.curves import by_load, nominal_pps, thresholds
from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.report.figure import Figure
from weirlab.report.letters import LetterValues, boxes, of_histogram
from weirlab.report.numbers import duration, percent, rate, rounded
from weirlab.report.rows import RowText

SHARES: Final = (0.1, 0.5, 0.9)
"""Loads to show, as shares of the threshold; overload comes on top."""

_POINTS: Final = 140
SCHEMA: Final = {"load": pl.String, "order": pl.Int64, "delay_us": pl.Float64, "slower_percent": pl.Float64}


@dataclass(frozen=True)
class DistributionTrial:
    """A trial whose distribution is shown. ``load`` says how much was offered, also beside the threshold."""

    trial_id: str
    load: str
    share: float
    """Offered load over threshold; NaN where no threshold is known."""
    overload: bool
    delay_p99_ns: float


def telling_trials(trials: pl.DataFrame) -> list[DistributionTrial]:
    """Trials of one panel and setting: at about 10, 50 and 90 % of the threshold, and in overload.

    Of several repetitions the one with the median p99 is taken.
    """
    loads = by_load(trials)
    if not loads.height:
        return []
    limits = thresholds(trials)
    limit = float(limits["threshold_kpps"][0]) * 1e3 if limits.height else math.nan
    reference = limit if limits.height else float(loads["achieved_pps"].to_numpy().max())
    calm = loads.filter(~pl.col("overload"))
    hot = loads.filter("overload")
    nearest = [
        calm.sort((pl.col("achieved_pps") - share * reference).abs()) for share in SHARES if calm.height
    ]
    wanted = [float(rows["nominal"][0]) for rows in [*nearest, *([hot] if hot.height else [])]]
    chosen = []
    for load in dict.fromkeys(wanted):
        same = trials.filter(nominal_pps().round_sig_figs(3) == load).sort("delay_p99_ns")
        row = same.row(same.height // 2, named=True)
        share = row["achieved_pps"] / limit
        beside = f" ({percent(share)} of the threshold)" if math.isfinite(share) else ""
        p99 = row["delay_p99_ns"]
        chosen.append(
            DistributionTrial(
                trial_id=str(row["trial_id"]),
                load=rate(row["achieved_pps"]) + beside,
                share=share,
                overload=bool(row["overload"]),
                delay_p99_ns=math.nan if p99 is None else float(p99),
            )
        )
    return chosen


def distributions(chosen: Sequence[DistributionTrial], histograms: pl.DataFrame) -> pl.DataFrame:
    """Share of packets slower than each delay; at most 140 points per trial."""
    rows: list[dict[str, Any]] = []
    for order, trial in enumerate(chosen):
        buckets = histograms.filter(pl.col("trial_id") == trial.trial_id).sort("lower_ns")
        if not buckets.height:
            continue
        upper = buckets["upper_ns"].to_numpy().astype(np.float64)
        count = buckets["count"].to_numpy().astype(np.float64)
        slower = 1.0 - np.cumsum(count) / count.sum()
        first = max(float(buckets["lower_ns"][0]), 1.0)
        # A log axis has no zero, so the slowest bucket's upper end, which nothing exceeds, is left out.
        delay = np.concatenate([[first], upper[:-1]])
        share = np.concatenate([[1.0], slower[:-1]])
        rows += [
            {
                "load": trial.load,
                "order": order,
                "delay_us": rounded(delay[i] / 1e3),
                "slower_percent": rounded(100 * share[i]),
            }
            for i in _thinned(delay, share)
        ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _thinned(delay: np.ndarray[Any, Any], share: np.ndarray[Any, Any]) -> list[int]:
    """Indices of at most 140 points, evenly along the curve as drawn on two log axes."""
    if len(delay) <= _POINTS:
        return list(range(len(delay)))
    x, y = np.log(delay), np.log(np.maximum(share, 1e-12))
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    wanted = np.linspace(0.0, length[-1], _POINTS)
    return sorted({int(i) for i in np.searchsorted(length, wanted).clip(0, len(delay) - 1)})


SECTION: Final = "positions"
HALF: Final = 0.5
"""Share of its threshold at which a setting is compared."""


def figures(evidence: ProfileEvidence, panel: str) -> tuple[Figure, ...]:
    """A row for each rule count, of the trial at about half of its threshold; nothing for one alone."""
    trials = curves.within_chart(evidence.telling).filter(pl.col("panel") == panel)
    found: dict[str, LetterValues] = {}
    for _, rows in trials.sort("position", "stateful").group_by("setup", maintain_order=True):
        calm = [one for one in telling_trials(rows) if not one.overload]
        if not calm:
            continue
        nearest = min(calm, key=lambda one: abs(one.share - HALF))
        buckets = evidence.histograms.filter(pl.col("trial_id") == nearest.trial_id).sort("lower_ns")
        if buckets.height:
            upper, count = (buckets[name].to_numpy().astype(np.float64) for name in ("upper_ns", "count"))
            found[f"{rows['words'][0]}, {nearest.load}"] = of_histogram(upper / 1e3, count)
    if len(found) < 2:
        return ()
    medians = [values.median * 1e3 for values in found.values()]
    text = RowText(
        "delay-by-position",
        SECTION,
        f"From the first row to the last, the median delay goes from {duration(medians[0])} to "
        f"{duration(medians[-1])}.",
        "One-way delay of single packets, µs",
        "The thickest box holds half of the packets, the next one three quarters, and so on; the tick is the "
        "median.",
    )
    return boxes(text, found, log=True)
