"""Amounts as users write them: sizes, times and line rates, parsed the same way for every option."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([kmgt]?b|[kmgt]ib|[kmgt]|)", re.IGNORECASE)
_MOST_BYTES: Final = 1 << 62
_MOST_S: Final = 1e9
_WEEK_S: Final = 7 * 24 * 3600.0
_TIME_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(ms|s|min|m|h|d|)")
SHORT_TIME: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(ns|us|µs|ms|s)")
_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LINE: Final = re.compile(r"(\d{1,12}(?:\.\d+)?)([kmg]?)(?:bit/s|bps|bit|b/s)?")


def parse_size(text: str, option: str) -> int:
    """Bytes of ``500MB`` (powers of 1000, as for disks), ``64MiB`` or ``64M`` (powers of 1024), ``65536``."""
    match = _SIZE.fullmatch(text.strip())
    value = 0
    if match:
        unit = match[2].lower()
        base = 1000 if unit.endswith("b") and "i" not in unit else 1024
        value = int(Decimal(match[1]) * base ** _POWERS[unit[:1].strip("b")])
    if not 1 <= value <= _MOST_BYTES:
        raise InputError(f"{option} {quoted(text)} is no size; accepted are 500MB, 64MiB, 65536 (bytes)")
    return value


def parse_time(text: str, option: str) -> float:
    """Seconds of ``10``, ``90s``, ``5min``, ``1h``."""
    match = _TIME.fullmatch(text.strip().lower())
    value = float(match[1]) * _TIME_UNITS_S[match[2]] if match else 0.0
    if not 0 < value <= _MOST_S:
        raise InputError(f"{option} {quoted(text)} is no time; accepted are 90s, 5min, 1h, 10 (seconds)")
    return value


def parse_time_ns(text: str, option: str) -> int:
    """Nanoseconds of ``25ms``, ``300us``, ``1.5s``, ``800ns``: the unit must be given."""
    match = SHORT_TIME.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option} {quoted(text)} is no time; accepted: 25ms, 300us, 1.5s, 800ns")
    return round(float(match[1]) * _NS[match[2]])


def parse_budget(text: str, option: str = "the time budget") -> float:
    """Seconds as :func:`parse_time` reads them, at most a week: more is a typing error."""
    value = parse_time(text, option)
    if value > _WEEK_S:
        raise InputError(f"{option} {quoted(text)} is more than a week")
    return value


def parse_line(text: str) -> float:
    """Line rate in bit/s of a text such as ``1Gbit/s``, ``100M`` or ``10Gbps``."""
    plain = text.strip().lower().replace(" ", "")
    match = _LINE.fullmatch(plain)
    if match is None or float(match[1]) <= 0 or "B" in text:
        raise InputError(
            f"line rate {quoted(text)} not understood; accepted are e.g. '100Mbit/s', '1Gbit/s' and '10G' "
            "(bits, not bytes)"
        )
    return float(match[1]) * 1000.0 ** _POWERS[match[2]]
