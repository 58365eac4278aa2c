"""Options of ``pscheduler task weirtcp``, to and from specs."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from weirtcp import speaking

_NUMBERS = ("connections", "single-ended-port")
_RATES = ("bandwidth", "target")
_SIZES = ("block", "buffer")
_FLAGS = ("reverse", "single-ended")
_HELP = {
    "source": "host that connects",
    "source-node": "pScheduler of the source",
    "dest": "host that is connected to",
    "dest-node": "pScheduler of the destination",
    "duration": "how long data is sent (ISO 8601), e.g. PT30S",
    "interval": "length of the intervals in the result (ISO 8601)",
    "connections": "connections at once",
    "bandwidth": "at most so many bit/s; 100M, 10G",
    "target": "wanted bit/s: the diagnosis says what they would need",
    "congestion": "congestion control of both ends",
    "block": "bytes per write; 64K, 1M",
    "buffer": "socket buffer of both ends in bytes; 256K",
    "reverse": "the destination sends",
    "single-ended": "the destination runs weir tcp serve, and no pScheduler",
    "single-ended-port": "its port",
    "token": "its token",
}
_SHORT = {
    "source": "-s",
    "dest": "-d",
    "duration": "-t",
    "interval": "-i",
    "connections": "-P",
    "bandwidth": "-b",
}
_PREFIXES = ("", "k", "m", "g", "t")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        speaking.fail(message)


def spec(arguments: list[str]) -> dict[str, Any]:
    """The spec that ``arguments`` ask for; whether it is valid, spec-is-valid says."""
    parser = _Parser(prog="task weirtcp", description="TCP throughput, and why it was not higher.")
    for key, about in _HELP.items():
        names = [name for name in (_SHORT.get(key), f"--{key}") if name]
        if key in _FLAGS:
            parser.add_argument(*names, help=about, action="store_true", default=None)
        else:
            kind = int if key in _NUMBERS else _bits if key in _RATES else _bytes if key in _SIZES else str
            parser.add_argument(*names, help=about, type=kind)
    read = vars(parser.parse_args(arguments))
    found: dict[str, Any] = {"schema": 1}
    for key in _HELP:
        value = read[key.replace("-", "_")]
        if value is not None:
            found["_token" if key == "token" else key] = value
    return found


def arguments(asked: dict[str, Any]) -> list[str]:
    """The options that ask for ``asked``."""
    made: list[str] = []
    for key in _HELP:
        value = asked.get("_token" if key == "token" else key)
        if key in _FLAGS:
            made += [f"--{key}"] if value else []
        elif value is not None:
            made += [f"--{key}", str(value)]
    return made


def _bits(text: str) -> int:
    return _amount(text, 1000)


def _bytes(text: str) -> int:
    return _amount(text, 1024)


def _amount(text: str, step: int) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"not a number with a unit: {text}; 64K, 100M")
    return round(float(match[1]) * step ** _PREFIXES.index(match[2]))
