"""Names of what is scored, and what the letter-value plots show in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from weirlab.model.score import REPEATABILITY, Deviations
from weirlab.report.numbers import percent, plural, words

PANELS: Final = {
    "Delay below the threshold": (
        "delay_mean_below",
        {
            "delay_mean_below": "Mean",
            "delay_p50_below": "Median",
            "delay_p90_below": "90th percentile",
            "delay_p99_below": "99th percentile",
            "delay_p999_below": "99.9th percentile",
        },
    ),
    "Threshold, delay near and beyond it, jitter": (
        "threshold",
        {
            "threshold": "Threshold",
            "delay_mean_near": "Mean delay near the threshold",
            "delay_p99_near": "99th percentile near the threshold",
            "delay_p50_overload": "Median delay in overload",
            "jitter": "Jitter, all loads",
        },
    ),
}
"""Per chart the quantity of its title, and all its quantities with their names."""

_OF: Final = {"delay_mean_below": "mean delay below the threshold", "threshold": "threshold"}


def takeaway(deviations: Sequence[Deviations], quantity: str) -> str:
    """How close half of the single trials are to each model, and to each other."""
    found = {d.model: d for d in deviations if d.quantity == quantity and not d.extrapolated}
    if not found:
        first = next(d for d in deviations if not d.extrapolated)
        return f"Errors on {plural(len(first.measured), 'single trial')}."
    typical = {model: percent(float(np.median(np.abs(d.relative))), 2) for model, d in found.items()}
    off = words([f"{size} ({model})" for model, size in typical.items() if model != REPEATABILITY])
    itself = typical.get(REPEATABILITY)
    others = f"; trials of one setting are within {itself} of each other" if itself else ""
    return f"Half of the predictions of the {_OF[quantity]} are within {off} of single trials{others}."


def coverage(deviations: Sequence[Deviations]) -> str:
    """How many of the trials the 90 % intervals held; empty without intervals."""
    parts = []
    for model in dict.fromkeys(d.model for d in deviations):
        own = [d for d in deviations if d.model == model and 90 in d.bands and not d.extrapolated]
        own = [d for d in own if d.quantity in ("delay_mean_all", "threshold", "loss", "jitter")]
        held = [(d.bands[90].low <= d.measured) & (d.measured <= d.bands[90].high) for d in own]
        if held:
            parts.append(f"{percent(float(np.concatenate(held).mean()))} ({model})")
    if not parts:
        return ""
    return (
        "The 90 % intervals held "
        f"{words(parts)} of the thresholds, mean delays, jitters and losses of single trials."
    )
