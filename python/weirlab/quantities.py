"""Numbers with units as text, for every place that shows one: the unit that leaves one to three digits before
the point, never an exponent, and no digits below what can be measured.
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
NOTHING: Final = "–"

FINEST: Final = 9
"""Decimals at most: what is smaller is what arithmetic leaves behind, and shown as 0."""
_ZEROS: Final = re.compile(r"\.0+ ")
_FINEST_TIME: Final = 2
"""Decimals of a ns at most, of means over many."""


def significant(value: float, digits: int = 3, finest: int = FINEST) -> str:
    """``value`` with ``digits`` significant digits, but at most ``finest`` decimals, thousands separated."""
    if not math.isfinite(value):
        return NOTHING
    short = float(f"{value:.{digits}g}")
    if round(short, finest) == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(short)))
    return f"{short:,.{min(max(decimals, 0), finest)}f}"


def scaled(value: float, units: Units, digits: int = 3, finest: int = FINEST, space: str = " ") -> str:
    """``value`` in the greatest of ``units`` of which it is at least one; ``finest`` is about the least."""
    if not math.isfinite(value):
        return NOTHING
    # Rounding first keeps 999,999 from becoming "1,000 kpps".
    short = abs(float(f"{value:.{digits}g}"))
    factor, unit = next((each for each in units if short >= each[0]), units[-1])
    decimals = finest if unit == units[-1][1] else FINEST
    return f"{significant(value / factor, digits, decimals)}{space}{unit}"


def duration(ns: float, digits: int = 3, space: str = " ") -> str:
    """``850 ns``, ``12.4 µs``, ``1.30 ms``; negative ones, too."""
    return scaled(ns, TIMES, digits, _FINEST_TIME, space)


def rate(pps: float, digits: int = 3, space: str = " ") -> str:
    """``820 kpps``, ``1.24 Mpps``, ``450 pps``."""
    return scaled(pps, RATES, digits, space=space)


def bit_rate(bps: float) -> str:
    """``95.20 Mbit/s``, ``2 Mbit/s``."""
    return _ZEROS.sub(" ", scaled(bps, BIT_RATES, 4))
