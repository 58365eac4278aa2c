"""Delays of single packets at each rule count, as letter values."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from weirlab.devices.profile.page import curves, distributions
from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.report.figure import Figure
from weirlab.report.letters import LetterValues, boxes, of_histogram
from weirlab.report.numbers import duration
from weirlab.report.rows import RowText

SECTION: Final = "positions"
HALF: Final = 0.5
"""Share of its threshold at which a setting is compared."""


def figures(evidence: ProfileEvidence, panel: str) -> tuple[Figure, ...]:
    """A row for each rule count, of the trial at about half of its threshold; nothing for one alone."""
    trials = curves.within_chart(evidence.telling).filter(pl.col("panel") == panel)
    found: dict[str, LetterValues] = {}
    for _, rows in trials.sort("position", "stateful").group_by("setup", maintain_order=True):
        calm = [one for one in distributions.telling_trials(rows) if not one.overload]
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
