"""Numbers with units, as sentences show them."""

from __future__ import annotations

import math
from typing import Final

from weirlab.base.quantities import FINEST, duration, rate, significant


def ns(value: float) -> str:
    """A time with three significant digits in a fitting unit."""
    return _short(duration(value))


def pps(value: float) -> str:
    """A packet rate with three significant digits in a fitting unit."""
    return _short(rate(value))


UNDETERMINED: Final = "not determined by these trials"


def determined(value: float, stderr: float | None) -> bool:
    """Whether a fit tells ``value`` from 0: its standard error is smaller than itself."""
    return stderr is None or math.isnan(stderr) or stderr <= 0 or stderr < abs(value)


def with_error(value: float, stderr: float | None, unit: str) -> str:
    """``2.70 ± 0.02 ns``: the value to the place of its error's first digit, at most 0.01 ns.

    The unit ``1`` of ratios is left out. :data:`UNDETERMINED` for a value that is not :func:`determined`.
    """
    if not determined(value, stderr):
        return UNDETERMINED
    if stderr is None or not math.isfinite(stderr) or stderr <= 0:
        return f"{significant(value)} {unit}".removesuffix(" 1")
    digits = min(max(-math.floor(math.log10(stderr)), 0), 2 if unit == "ns" else FINEST)
    # An error is never shown as none.
    return f"{value:,.{digits}f} ± {max(stderr, 0.1**digits):,.{digits}f} {unit}".removesuffix(" 1")


def _short(text: str) -> str:
    """A number with its unit, without trailing zeros: ``1 ms``."""
    number, space, unit = text.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{space}{unit}"
