"""Numbers with units for a terminal, with plain spaces, so that they can be searched and copied."""

from __future__ import annotations

import math

from weirlab.base.quantities import (
    NOTHING,
    clock,
    count,
    duration,
    percent,
    plural,
    rate,
    rules,
    significant,
    words,
)

__all__ = [
    "NOTHING", "clock", "clocks", "count", "duration", "percent", "plural", "rate", "rules", "significant",
    "words",
]  # fmt: skip


def clocks(from_s: float, to_s: float) -> str:
    """A range of durations as ``20 s to 1 min 10 s`` or ``2 to 5 min``."""
    if from_s < 60:
        return f"{clock(from_s)} to {clock(to_s)}"
    low, high = math.floor(from_s / 60), math.ceil(to_s / 60)
    return f"{low} to {high} min"
