"""Numbers with units, as they stand in sentences."""

from __future__ import annotations

import math


def ns(value: float) -> str:
    """A time with three significant digits in a fitting unit."""
    return _scaled(value, (("s", 1e9), ("ms", 1e6), ("µs", 1e3)), "ns")


def pps(value: float) -> str:
    """A packet rate with three significant digits in a fitting unit."""
    return _scaled(value, (("Mpps", 1e6), ("kpps", 1e3)), "pps")


def with_error(value: float, stderr: float | None, unit: str) -> str:
    """``2.70 ± 0.02 ns``: the value to the place of its error's first two digits."""
    if stderr is None or not math.isfinite(stderr) or stderr <= 0:
        return f"{value:.3g} {unit}"
    digits = min(max(1 - math.floor(math.log10(stderr)), 0), 4)
    return f"{value:.{digits}f} ± {stderr:.{digits}f} {unit}"


def _scaled(value: float, units: tuple[tuple[str, float], ...], smallest: str) -> str:
    rounded = float(f"{value:.3g}")
    for unit, size in units:
        if rounded >= size:
            return f"{rounded / size:.3g} {unit}"
    return f"{rounded:.3g} {smallest}"
