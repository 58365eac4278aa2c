"""Numbers with units as text, for every place that shows one: the unit that leaves one to three digits before
the point, never an exponent, and no digits below what can be measured. What is not known, None or no finite
number, is shown as :data:`NOTHING`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

Units = Sequence[tuple[float, str]]
"""How much of the quantity a unit is, and its name; the greatest first."""

TIMES: Final[Units] = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
RATES: Final[Units] = ((1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps"))
BIT_RATES: Final[Units] = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_ZEROS: Final = re.compile(r"\.0+ ")
NOTHING: Final = "–"

FINEST: Final = 9
"""Decimals at most: anything smaller is rounding error and shown as 0."""
_NEARLY_ALL: Final = 0.9
_FINEST_TIME: Final = 2
"""Decimals of a ns at most, of means over many."""


def significant(value: float | None, digits: int = 3, finest: int = FINEST) -> str:
    """``value`` with ``digits`` significant digits, but at most ``finest`` decimals, thousands separated."""
    if value is None or not math.isfinite(value):
        return NOTHING
    short = float(f"{value:.{digits}g}")
    if round(short, finest) == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(short)))
    return f"{short:,.{min(max(decimals, 0), finest)}f}"


def scaled(value: float | None, units: Units, digits: int = 3, finest: int = FINEST, space: str = " ") -> str:
    """``value`` in the greatest of ``units`` of which it is at least one; ``finest`` is for the smallest."""
    if value is None or not math.isfinite(value):
        return NOTHING
    # Rounding first keeps 999,999 from becoming "1,000 kpps".
    short = abs(float(f"{value:.{digits}g}"))
    factor, unit = next((each for each in units if short >= each[0]), units[-1])
    decimals = finest if unit == units[-1][1] else FINEST
    return f"{significant(value / factor, digits, decimals)}{space}{unit}"


def duration(ns: float | None, digits: int = 3, space: str = " ") -> str:
    """``850 ns``, ``12.4 µs``, ``1.30 ms``; negative ones, too."""
    return scaled(ns, TIMES, digits, _FINEST_TIME, space)


def clock(seconds: float) -> str:
    """A duration to the second: ``42 s``, ``3 min 05 s``, ``1 h 02 min 03 s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours:,} h {minutes:02d} min {rest:02d} s" if hours else f"{minutes} min {rest:02d} s"


def rounded_clock(seconds: float) -> str:
    """A duration without its small parts: ``45 s``, ``13 min``, ``2.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def rate(pps: float | None, digits: int = 3, space: str = " ") -> str:
    """``820 kpps``, ``1.24 Mpps``, ``450 pps``."""
    return scaled(pps, RATES, digits, space=space)


def percent(ratio: float | None, digits: int = 2, space: str = " ") -> str:
    """A ratio (1 = 100 %) as ``12 %``, small ones as ``0.013 %``, nearly all as ``99.99 %``."""
    if ratio is None or not math.isfinite(ratio):
        return NOTHING
    share = abs(ratio)
    if share >= 1:
        text = f"{ratio * 100:,.0f}"
    elif share > _NEARLY_ALL:
        left = float(f"{(1 - share) * 100:.{digits - 1}g}")
        decimals = max(digits - 2 - math.floor(math.log10(left)), 0)
        text = f"{math.copysign(100 - left, ratio):.{min(decimals, FINEST)}f}"
    else:
        text = significant(ratio * 100, digits)
    return f"{text}{space}%"


def count(value: float | None) -> str:
    """A whole number with thousands separated."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:,.0f}"


def decimals(value: float | None, places: int = 2) -> str:
    """``4.37``: a number on a scale whose steps are always the same, as that of MOS."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.{places}f}"


def plural(n: int, noun: str, many: str = "", space: str = " ") -> str:
    """``1 trial``, ``3 trials``; ``many`` is the plural if that takes more than an ``s``."""
    return f"{n:,}{space}{noun if n == 1 else many or noun + 's'}"


def rules(position: float, space: str = " ") -> str:
    """``no rules``, ``1 rule``, ``1,000 rules``: the rules walked before a packet is accepted."""
    if position == 0:
        return f"no{space}rules"
    return f"1{space}rule" if position == 1 else f"{position:,.6g}{space}rules"


def words(parts: Sequence[str], last: str = "and", most: int | None = None) -> str:
    """``a, b and c``; ``a, b and 7 more`` where only ``most`` are named, and all if it would be one more."""
    if most is not None and len(parts) > most + 1:
        parts, last = [*parts[:most], f"{len(parts) - most:,} more"], "and"
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def bit_rate(bps: float | None, digits: int = 3) -> str:
    """``95.6 Mbit/s``, ``2 Mbit/s``."""
    return _ZEROS.sub(" ", scaled(bps, BIT_RATES, digits))
