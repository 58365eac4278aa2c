"""Numbers for people: with the unit that leaves one to three digits before the decimal point."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from weirlab.base import quantities
from weirlab.base.quantities import NOTHING, count, decimals, significant, words

__all__ = [
    "NOTHING",
    "SPACE",
    "count",
    "decimals",
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
"""The space between a number and its unit, where a line must not break."""


def rounded(value: float | None, digits: int = 4) -> float | None:
    """``value`` to ``digits`` significant digits for plot data; None if it is not a finite number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


rate = partial(quantities.rate, space=SPACE)
duration = partial(quantities.duration, space=SPACE)
percent = partial(quantities.percent, space=SPACE)
plural = partial(quantities.plural, space=SPACE)
rules = partial(quantities.rules, space=SPACE)


def size(octets: float | None, digits: int = 3) -> str:
    """A size such as ``1.40 GiB`` or ``16.0 MiB``; small ones are exact to the byte."""
    if octets is not None and abs(octets) < 10_000:
        return f"{octets:,.0f}{SPACE}B"
    return quantities.scaled(octets, _BYTES, digits, space=SPACE)
