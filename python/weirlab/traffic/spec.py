"""What to send, in the user's terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from weirlab.base.documents import SPARSE
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.sizes import Constant, SizeMix

Arrivals = Literal["constant", "poisson"]

GAP_SCV: Final[dict[Arrivals, float]] = {"constant": 0.0, "poisson": 1.0}
"""Squared coefficient of variation of the gaps between packets."""


@dataclass(frozen=True)
class Rate:
    """An offered load: packets/s, bit/s on the wire, a share of a line rate, or as fast as possible.

    ``unit`` says which; for ``percent``, ``line_bps`` is the line rate.
    """

    value: float = 0.0
    unit: Literal["pps", "bps", "percent", "max"] = "pps"
    line_bps: float = 1e9

    def to_json(self) -> dict[str, Any]:
        """Without meaningless fields: the value of ``max``, and the line rate of all but ``percent``."""
        if self.unit == "max":
            return {"unit": "max"}
        line = {"line_bps": self.line_bps} if self.unit == "percent" else {}
        return {"value": self.value, "unit": self.unit, **line}


@dataclass(frozen=True)
class LoadStep:
    """A change ``at_s`` seconds after the start of recording.

    ``rate`` is the load from then on, ``position`` the matching position of all packets from
    then on; None leaves it unchanged.
    """

    at_s: float
    rate: Rate | None = None
    position: int | None = None


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
    answered: bool = field(default=False, metadata=SPARSE)
    """The receiver answers: each of these flows while it is opened, before the load begins, so that
    connection tracking knows it, and the first packet of each further flow."""
    new_share: float = field(default=0.0, metadata=SPARSE)
    """Share of the packets (0 to 1) that are the first, and only, of a further flow."""


@dataclass(frozen=True)
class FlowEndpoints:
    """Where flows come from and go to, if not the benchmarking ranges: the first and the last of addresses
    (as text) and ports, both included."""

    source: tuple[str, str]
    destination: tuple[str, str]
    source_port: tuple[int, int]
    destination_port: tuple[int, int]


@dataclass(frozen=True)
class Traffic:
    """All that the sender needs to know about one trial."""

    rate: Rate
    sizes: SizeMix = Constant(64)
    flows: Flows = Flows()
    arrivals: Arrivals = "constant"
    steps: tuple[LoadStep, ...] = ()
    warmup_s: float = 0.5
    duration_s: float = 2.0
    seed: int = 1
    bin_ns: int | None = None
    """Width of a bin of the time series; None for 1 ms in trials with steps, 10 ms in trials with
    calls, and otherwise 2 ms, or more if a trial would have over 1000 bins."""
    calls: Calls | None = field(default=None, metadata=SPARSE)
    """Set for trials with calls: they say what is sent, and rate, sizes and flows follow from them
    (``weirlab.traffic.calls.schedule.traffic_of`` fills them in)."""


def stretches(traffic: Traffic) -> list[tuple[Rate, int | None]]:
    """Load and matching position before the first step and after each; the position is None until a step
    sets it."""
    found: list[tuple[Rate, int | None]] = [(traffic.rate, None)]
    for step in traffic.steps:
        rate, position = found[-1]
        found.append((step.rate or rate, position if step.position is None else step.position))
    return found
