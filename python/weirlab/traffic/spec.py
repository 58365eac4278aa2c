"""What to send, in the user's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weirlab.traffic.sizes import Constant, SizeMix

Arrivals = Literal["constant", "poisson"]


@dataclass(frozen=True)
class Rate:
    """An offered load: packets/s, bit/s on the wire, a share of a line rate, or as fast as possible.

    Exactly one meaning, told by ``unit``; for ``percent`` ``line_bps`` is the line rate.
    """

    value: float
    unit: Literal["pps", "bps", "percent", "max"] = "pps"
    line_bps: float = 1e9


@dataclass(frozen=True)
class Step:
    """From ``at_s`` seconds after the start of recording on, the load is ``rate``."""

    at_s: float
    rate: Rate


@dataclass(frozen=True)
class Flows:
    """The flows that share the load in turn; one packet each, then the next.

    ``advance``: source address, then port, count up from flow to flow; ``random``: drawn
    with ``seed``; constant within a flow either way. Addresses come from the benchmarking
    ranges (RFC 2544: 198.18.0.0/16 to 198.19.0.0/16; RFC 5180: 2001:2:0:1::/64 to
    2001:2:0:2::/64).
    """

    count: int = 1
    l4: Literal["udp", "tcp"] = "udp"
    ip: Literal[4, 6] = 4
    order: Literal["advance", "random"] = "advance"
    seed: int = 1


@dataclass(frozen=True)
class Traffic:
    """All that the sender needs to know about one trial."""

    rate: Rate
    sizes: SizeMix = Constant(64)
    flows: Flows = Flows()
    arrivals: Arrivals = "constant"
    steps: tuple[Step, ...] = ()
    warmup_s: float = 0.5
    duration_s: float = 2.0
    seed: int = 1
