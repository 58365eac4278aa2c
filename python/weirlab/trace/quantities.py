"""Quantities of captures with units, where nothing is smaller than a byte, a nanosecond or a bit; times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quantities import NOTHING, TIMES, clock, count, percent, plural, scaled, words
from weirlab.base.quoting import quoted

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


_SINCE_START: Final = re.compile(r"(\d{1,9}(?:\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|min|h)?")
_EPOCH: Final = re.compile(r"@(\d{1,12})(?:\.(\d{1,9}))?")
_STAMP: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,9}))?\s*(Z|[+-]\d{2}:?\d{2})?"
)
_UNIT_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_BEYOND_S: Final = (1 << 63) // 1_000_000_000
"""No 64-bit number of ns since 1970 reaches this second."""

_EPOCH_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Moment:
    """A point in time: ``ns`` since 1970, or since the first packet if ``relative``."""

    ns: int
    relative: bool


@dataclass(frozen=True)
class Window:
    """From when to when packets count; None: no limit. Both times have the same origin."""

    from_ns: int | None = None
    to_ns: int | None = None
    relative: bool = False


def parse_moment(text: str, option: str) -> Moment:
    """Read ``1.5`` or ``300ms`` (since the first packet), ``2026-01-31T12:00:00.25`` (UTC unless it
    says otherwise), or ``@1769860800.25`` (seconds since 1970).

    Raises
    ------
    InputError
        ``text`` is none of these; the message names ``option``.
    """
    text = text.strip()
    if match := _SINCE_START.fullmatch(text):
        return Moment(_scaled(match[1], _UNIT_NS[match[2] or "s"]), relative=True)
    if (match := _EPOCH.fullmatch(text)) and int(match[1]) < _BEYOND_S:
        return Moment(int(match[1]) * 1_000_000_000 + _fraction_ns(match[2]), relative=False)
    if match := _STAMP.fullmatch(text):
        try:
            zone = (match[4] or "+00:00").replace("Z", "+00:00")
            whole = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
        except ValueError:
            pass  # such as a 13th month
        else:
            seconds = (whole - _EPOCH_START) // timedelta(seconds=1)
            return Moment(seconds * 1_000_000_000 + _fraction_ns(match[3]), relative=False)
    raise InputError(
        f"{option} {quoted(text)} not understood; accepted are seconds since the first packet (1.5, "
        "300ms, 2min), a date and time (2026-01-31T12:00:00.25, UTC unless it ends in +01:00) and seconds "
        "since 1970 (@1769860800.25)"
    )


def utc_date(ns: int | None) -> str:
    """``2026-01-31``; empty for None. ``ns`` since 1970."""
    return "" if ns is None else f"{_EPOCH_START + timedelta(seconds=ns // 1_000_000_000):%Y-%m-%d}"


def period_ns(text: str, option: str = "--period") -> int:
    """Length of a period such as ``100ms``, in ns.

    Raises
    ------
    InputError
        ``text`` is no such length, or is not from 1 µs to 1 h.
    """
    match = _SINCE_START.fullmatch(text.strip())
    ns = _scaled(match[1], _UNIT_NS[match[2] or "s"]) if match else 0
    if not 1_000 <= ns <= _UNIT_NS["h"]:
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted are 1us to 1h, e.g. {option} 100ms"
        )
    return ns


def window(start: Moment | None, end: Moment | None) -> Window:
    """The window between two points.

    Raises
    ------
    InputError
        One counts from the first packet and the other from 1970, or nothing lies between them.
    """
    given = [moment for moment in (start, end) if moment is not None]
    if len({moment.relative for moment in given}) > 1:
        raise InputError(
            "one end of the window is a date, the other is since the first packet: give both in the same form"
        )
    if start is not None and end is not None and end.ns <= start.ns:
        raise InputError("the window ends before it begins")
    return Window(
        start.ns if start else None, end.ns if end else None, relative=bool(given) and given[0].relative
    )


def absolute(ns: int, digits: int = 6) -> str:
    """``2026-01-31 12:00:00.250000 UTC``; ``digits`` of the fraction are shown, the rest is cut off."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    whole = _EPOCH_START + timedelta(seconds=seconds)
    tail = f".{fraction:09d}"[: digits + 1] if digits else ""
    return f"{whole:%Y-%m-%d %H:%M:%S}{tail} UTC"


def since(ns: int, start_ns: int) -> str:
    """``3.000250 s``: how long after ``start_ns``, to the microsecond."""
    return f"{(ns - start_ns) / 1e9:,.6f} s"


def _scaled(number: str, unit_ns: int) -> int:
    whole, _, fraction = number.partition(".")
    return int(whole or 0) * unit_ns + _fraction_ns(fraction) * unit_ns // 1_000_000_000


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "0")[:9].ljust(9, "0"))
