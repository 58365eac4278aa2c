"""Offered loads as text and as packets per second."""

from __future__ import annotations

import itertools
import math
import re
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.base.units import pps_from_bps
from weirlab.traffic.sizes import SizeMix, mean_bytes
from weirlab.traffic.spec import Rate, Traffic, stretches

ACCEPTED: Final = (
    "'450' or '450pps', '100kpps', '2Mpps', '300Mbit/s' or '300Mbps', '40%', '40%@10Gbit/s' and 'max'"
)

LOAD_SHARES: Final = (
    *(0.02, 0.05, 0.09, 0.13, 0.17, 0.21, 0.25, 0.29, 0.33, 0.37, 0.41, 0.45, 0.49, 0.53, 0.57),
    *(0.61, 0.65, 0.69, 0.73, 0.77, 0.81, 0.85, 0.89, 0.92, 0.95, 1.08, 1.35),
)
"""Loads of a profile relative to the threshold. They are dense, because a device that sleeps between
packets may respond to single loads in its own way, and few beyond 1, where all are alike."""

LOAD_STRIDE: Final = 3
"""No position and frame size needs all of these loads, as long as its neighbours have the others."""

_SCALE: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
# Units are lower case only: 'MBps' usually means bytes, and guessing would be wrong by a factor of 8.
_PLAIN = re.compile(_NUMBER + r"(?:([kKmMgG]?)(pps|bit/s|bps))?")
_LINE = r"(?:(?:of)?(?:the)?line(?:rate)?)?"
_PERCENT = re.compile(_NUMBER + "%" + _LINE + "(?:@" + _NUMBER + r"([kKmMgG]?)(?:bit/s|bps))?")


def parse_rate(text: str) -> Rate:
    """Read an offered load; raises ``InputError`` naming the text and the accepted forms.

    A bare number is packets per second. Percentages, also those "of the line", refer to a line rate of
    1 Gbit/s unless one follows ``@``.
    """
    plain = text.strip().replace(" ", "")
    if plain.lower() == "max":
        return Rate(0.0, "max")
    if match := _PLAIN.fullmatch(plain):
        value = float(match[1]) * _SCALE[(match[2] or "").lower()]
        rate = Rate(value, "bps" if match[3] in ("bit/s", "bps") else "pps")
    elif match := _PERCENT.fullmatch(plain):
        line_bps = float(match[2]) * _SCALE[match[3].lower()] if match[2] else 1e9
        rate = Rate(float(match[1]), "percent", line_bps)
    else:
        raise InputError(f"rate {quoted(text)} not understood; accepted are {ACCEPTED}")
    validate(rate, text)
    return rate


def validate(rate: Rate, text: str | None = None) -> None:
    """Raise ``InputError`` unless ``rate`` is a load that can be sent; ``text`` is how the user wrote it."""
    if rate.unit == "max":
        return
    shown = f"rate {quoted(text if text is not None else describe_rate(rate))}"
    if not (math.isfinite(rate.value) and rate.value > 0):
        raise InputError(f"{shown} must be above 0 and finite; accepted are {ACCEPTED}")
    if rate.unit == "percent":
        if not (math.isfinite(rate.line_bps) and rate.line_bps > 0):
            raise InputError(f"{shown} needs a line rate above 0, as in '40%@10Gbit/s'")
        if rate.value > 100:
            raise InputError(f"{shown} is more than the line carries; at most 100%, or give pps or bit/s")


def rate_pps(rate: Rate, mix: SizeMix) -> float:
    """Packets per second that ``rate`` means for frames of ``mix``; ``inf`` for ``max``.

    Bit rates count the frame's full length on the wire, including preamble and gap.
    """
    validate(rate)
    match rate.unit:
        case "pps":
            return rate.value
        case "bps":
            return pps_from_bps(rate.value, mean_bytes(mix))
        case "percent":
            return pps_from_bps(rate.value / 100 * rate.line_bps, mean_bytes(mix))
        case "max":
            return math.inf


def offered_pps(traffic: Traffic) -> float:
    """Nominal load averaged over the recorded window, steps included; infinite for ``max``."""
    starts = [0.0, *(step.at_s for step in traffic.steps), traffic.duration_s]
    packets = (
        rate_pps(rate, traffic.sizes) * (end - start)
        for (rate, _), (start, end) in zip(stretches(traffic), itertools.pairwise(starts), strict=True)
        if end > start
    )
    return sum(packets) / traffic.duration_s


def describe_rate(rate: Rate) -> str:
    """The text that :func:`parse_rate` reads back as ``rate``."""
    match rate.unit:
        case "pps":
            return _scaled(rate.value, "pps")
        case "bps":
            return _scaled(rate.value, "bit/s")
        case "percent":
            line = "" if rate.line_bps == 1e9 else "@" + _scaled(rate.line_bps, "bit/s")
            return f"{rate.value:.12g}%{line}"
        case "max":
            return "max"


def _scaled(value: float, unit: str) -> str:
    for prefix, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.12g}{prefix}{unit}"
    return f"{value:.12g}{unit}"
