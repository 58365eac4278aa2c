"""Numbers with units for captures, where nothing is smaller than a byte, a nanosecond or a bit."""

from __future__ import annotations

from typing import Final

from weirlab.base.quantities import NOTHING, TIMES, clock, count, percent, plural, scaled, words

__all__ = ["NOTHING", "bit_rate", "count", "duration", "octets", "percent", "plural", "size", "words"]

_SIZES: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_BIT_RATES: Final = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


def duration(ns: float | None, digits: int = 3) -> str:
    """``850 ns``, ``12.4 µs``, ``1 h 02 min 03 s``."""
    if ns is not None and abs(ns) >= 600e9:
        return f"{'-' if ns < 0 else ''}{clock(abs(ns) / 1e9)}"
    return scaled(ns, TIMES, digits, finest=0)


def size(octets: float | None, digits: int = 3) -> str:
    """``1.26 GB``, ``673 kB``: decimal, like rates."""
    return scaled(octets, _SIZES, digits, finest=0)


def octets(number: float) -> str:
    """``673,320 B``: to the byte."""
    return f"{number:,.0f} B"


def bit_rate(bps: float | None, digits: int = 3) -> str:
    """``386 Mbit/s``."""
    return scaled(bps, _BIT_RATES, digits, finest=0)
