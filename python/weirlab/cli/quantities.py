"""Numbers with units for a terminal: plain spaces, so that they can be searched and cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_RATES: Final = ((1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps"))
_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
NOTHING: Final = "–"


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits and never an exponent."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def rate(pps: float) -> str:
    """``820 kpps``, ``1.24 Mpps``."""
    return _scaled(pps, _RATES)


def duration(ns: float) -> str:
    """``850 ns``, ``12.4 µs``; negative ones, too."""
    return _scaled(ns, _TIMES)


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


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    if not math.isfinite(value):
        return NOTHING
    for factor, unit in units:
        # Rounding first keeps 999,999 from becoming "1,000 kpps".
        if abs(float(f"{value:.3g}")) >= factor:
            return f"{significant(value / factor)} {unit}"
    factor, unit = units[-1]
    return f"{significant(value / factor)} {unit}"
