"""A bed that measures nothing: packets by formulas, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from weirlab.calls.ipsec.endpoints.bed import EndpointBed
from weirlab.calls.ipsec.endpoints.plan import BYPASS, HOG, REAL_TIME, SOCKETS, EndpointCalls
from weirlab.calls.ipsec.endpoints.rows import EndpointObservation, Times, times

_BEGINS_NS: Final = 5_000_000_000
_SINCE_1970_NS: Final = 1_700_000_000_000_000_000
_LOST_NS: Final = 0
SWING_NS: Final[Mapping[str, int]] = {BYPASS: 3_000, SOCKETS: 60_000, REAL_TIME: 20_000}
"""By how much the delay of every other packet is longer, at idle; beside a hog it is ten times as much,
but for bypassing endpoints."""
CAPACITY: Final[Mapping[str, int]] = {BYPASS: 3000, SOCKETS: 900, REAL_TIME: 1200}
"""More calls than these are late."""


@dataclass(frozen=True)
class EndpointFault:
    """What goes wrong in an attempt."""

    stolen_s: float = 0.0
    real_time_refused: str = ""
    polls: bool = True
    lost: int = 0
    """Packets of the first call's stream that are lost, from the end."""
    refused: int = 0
    """Packets of the same stream that the system never takes, from the beginning."""
    raises: BaseException | None = None


USUAL: Final = EndpointFault()


@dataclass
class FakeEndpointBed:
    """Delay alternates from packet to packet, by kind of endpoints and by what is beside them."""

    faults: Iterator[EndpointFault | None] = field(default_factory=lambda: iter(()))
    """Of one attempt after the other; None, and behind the last: nothing goes wrong."""
    lab: str = "netns"
    facts: Mapping[str, Any] = field(default_factory=lambda: {"cpus": [0, 1]})
    talked: list[EndpointCalls] = field(default_factory=list)

    def talk(self, talk: EndpointCalls) -> EndpointObservation:
        """See :meth:`weirlab.calls.ipsec.endpoints.bed.EndpointBed.talk`."""
        self.talked.append(talk)
        fault = next(self.faults, None) or USUAL
        if fault.raises is not None:
            raise fault.raises
        there, back = (self._way(talk, way) for way in (0, 1))
        if fault.lost:
            there.heard_ns[0, -fault.lost :] = _LOST_NS
        if fault.refused:
            there.sent_ns[0, : fault.refused] = there.heard_ns[0, : fault.refused] = _LOST_NS
        handled = 4 * talk.calls * talk.packets
        refused = fault.real_time_refused if talk.arm != SOCKETS else ""
        return EndpointObservation(
            ways=(there, back),
            since_1970_ns=_SINCE_1970_NS + len(self.talked) * 10_000_000_000,
            damaged=0,
            refused=fault.refused,
            ip_bytes=(talk.ip_bytes, talk.ip_bytes),
            cpu_s=2 * talk.lasts_s if talk.arm == BYPASS else handled * 5e-6,
            work_s=handled * 2e-6,
            hog_share=0.9 if talk.beside == HOG else float("nan"),
            steal_s={"near": fault.stolen_s, "far": 0.0},
            wall_s=talk.lasts_s,
            real_time=talk.arm != SOCKETS and not refused,
            real_time_refused=refused,
            polls=talk.arm == BYPASS and fault.polls,
            zero_copy=False,
        )

    @staticmethod
    def _way(talk: EndpointCalls, way: int) -> Times:
        swing = SWING_NS[talk.arm] * (10 if talk.beside == HOG and talk.arm != BYPASS else 1)
        shape = talk.calls, talk.packets
        none = np.zeros(shape, np.int64)
        empty = times(_BEGINS_NS, talk.phases_ns[way], talk.stream.packet_ns, none, none)
        late = 50_000_000 if talk.calls > CAPACITY[talk.arm] else 1_000
        sent = empty.due_ns + late + 200 * (np.arange(talk.packets) // 2 % 2)
        heard = sent + 8_000 + swing * (np.arange(talk.packets) % 2)
        return replace(empty, sent_ns=sent, heard_ns=heard)


def opener(bed: FakeEndpointBed) -> Callable[[], AbstractContextManager[EndpointBed]]:
    """Opens ``bed``."""

    @contextmanager
    def open_bed() -> Iterator[EndpointBed]:
        yield bed

    return open_bed
