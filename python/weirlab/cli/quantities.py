"""Numbers with units for a terminal, with plain spaces, so that they can be searched and copied."""

from __future__ import annotations

import math

from weirlab.base.quantities import NOTHING, count, duration, percent, plural, rate, rules, significant, words

__all__ = [
    "NOTHING", "clock", "clocks", "count", "duration", "percent", "plural", "rate", "rules", "significant",
    "words",
]  # fmt: skip


def clock(seconds: float) -> str:
    """A duration as ``42 s`` or ``3 min 05 s``."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def clocks(from_s: float, to_s: float) -> str:
    """A range of durations as ``20 s to 1 min 10 s`` or ``2 to 5 min``."""
    if from_s < 60:
        return f"{clock(from_s)} to {clock(to_s)}"
    low, high = math.floor(from_s / 60), math.ceil(to_s / 60)
    return f"{low} to {high} min"
