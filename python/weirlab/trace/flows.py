"""Which connections ``10.0.0.1:40000-192.0.2.1:443`` selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.trace.facts import Connection, Selection, Side


@dataclass(frozen=True)
class FlowEnd:
    """An address, a port, both, or (empty and 0) anything."""

    addr: str = ""
    port: int = 0

    def fits(self, side: Side) -> bool:
        return self.addr in ("", side["addr"]) and self.port in (0, side["port"])


@dataclass(frozen=True)
class Flow:
    """Two ends; it does not matter which of them opened the connection."""

    one: FlowEnd
    other: FlowEnd = FlowEnd()

    def fits(self, connection: Connection) -> bool:
        a, b = connection["a"], connection["b"]
        return (self.one.fits(a) and self.other.fits(b)) or (self.one.fits(b) and self.other.fits(a))


def parse(text: str, option: str = "--flow") -> Flow:
    """Read ``10.0.0.1:40000-192.0.2.1:443``, ``10.0.0.1``, ``:443``, ``[2001:db8::1]:443-2001:db8::2``.

    Raises
    ------
    InputError
        ``text`` is none of these; the message names ``option``.
    """
    one, dash, other = text.strip().partition("-")
    try:
        if not one or (dash and not other):
            raise ValueError
        return Flow(_end(one), _end(other) if dash else FlowEnd())
    except ValueError:
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted are two ends "
            "(10.0.0.1:40000-192.0.2.1:443) or one, "
            "and an end is an address, :PORT or both, IPv6 as [2001:db8::1]:443"
        ) from None


def select(connections: Sequence[Connection], flows: Sequence[Flow]) -> Selection:
    """The connections that match one of ``flows``; all of them if ``flows`` is empty."""
    every = Selection(connections)
    return every.where(lambda one: any(flow.fits(one) for flow in flows)) if flows else every


def _end(text: str) -> FlowEnd:
    if text.startswith("["):
        addr, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError
        port = rest[1:]
    elif text.count(":") > 1:
        addr, port, rest = text, "", ""
    else:
        addr, rest, port = text.partition(":")
    if rest and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError
    return FlowEnd(str(ip_address(addr)) if addr else "", int(port or 0))
