"""Numbers as people read them: the unit that leaves one to three digits before the point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weirlab import quantities
from weirlab.quantities import NOTHING, significant

__all__ = [
    "NOTHING",
    "SPACE",
    "count",
    "duration",
    "percent",
    "plural",
    "rate",
    "rounded",
    "rules",
    "significant",
    "size",
    "words",
]

_BYTES: Final = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
SPACE: Final = "\u00a0"
"""Between a number and what it counts: a line must not break there."""


def rounded(value: float | None, digits: int = 4) -> float | None:
    """``value`` to ``digits`` significant digits for plot data; None where there is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def rate(pps: float, digits: int = 3) -> str:
    """``820 kpps``, ``1.24 Mpps``, ``450 pps``."""
    return quantities.rate(pps, digits, SPACE)


def duration(ns: float, digits: int = 3) -> str:
    """``850 ns``, ``12.4 µs``, ``1.30 ms``."""
    return quantities.duration(ns, digits, SPACE)


def size(octets: float, digits: int = 3) -> str:
    """``1.40 GiB``, ``16.0 MiB``; small ones to the byte."""
    if abs(octets) < 10_000:
        return f"{octets:,.0f}{SPACE}B"
    return quantities.scaled(octets, _BYTES, digits, space=SPACE)


def percent(ratio: float, digits: int = 2) -> str:
    """A ratio (1 = 100 %) as ``12 %``; small ones as ``0.013 %``."""
    if not math.isfinite(ratio):
        return NOTHING
    if abs(ratio) >= 0.995:
        return f"{ratio * 100:,.0f}{SPACE}%"
    return f"{significant(ratio * 100, digits)}{SPACE}%"


def count(value: float) -> str:
    """Whole number with thousands separated."""
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def plural(n: int, noun: str, many: str = "") -> str:
    """``1 trial``, ``3 trials``."""
    return f"{n:,}{SPACE}{noun if n == 1 else many or noun + 's'}"


def rules(position: float) -> str:
    """``no rules``, ``1 rule``, ``1,000 rules``: the rules walked before a packet is accepted."""
    if position == 0:
        return f"no{SPACE}rules"
    return f"1{SPACE}rule" if position == 1 else f"{position:,.6g}{SPACE}rules"


def words(parts: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"
