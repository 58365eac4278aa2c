"""Numbers with units for a terminal: plain spaces, so that they can be searched and cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weirlab.quantities import NOTHING, duration, rate, significant

__all__ = [
    "NOTHING",
    "clock",
    "clocks",
    "count",
    "duration",
    "percent",
    "plural",
    "rate",
    "rules",
    "significant",
    "words",
]


def percent(ratio: float) -> str:
    """A ratio as ``12 %``, small ones as ``0.013 %``."""
    if not math.isfinite(ratio):
        return NOTHING
    # Two digits of what is lost, or of what is left: 99.99 % is not 100 %.
    digits = 2 if abs(ratio) < 0.995 else 5
    return f"{significant(ratio * 100, digits)} %"


def count(value: float) -> str:
    """A whole number with thousands separated."""
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def plural(n: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def rules(position: float) -> str:
    """``no rules``, ``1 rule``, ``1,000 rules``."""
    if position == 0:
        return "no rules"
    return "1 rule" if position == 1 else f"{position:,.6g} rules"


def words(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return "".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def clock(seconds: float) -> str:
    """``42 s``, ``3 min 05 s``."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def clocks(from_s: float, to_s: float) -> str:
    """``20 s to 1 min 10 s``, ``2 to 5 min``."""
    if from_s < 60:
        return f"{clock(from_s)} to {clock(to_s)}"
    low, high = math.floor(from_s / 60), math.ceil(to_s / 60)
    return f"{low} to {high} min"
