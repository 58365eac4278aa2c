"""A redundant pair made of formulas: every packet of a trial, with a gap where the pair switches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.closing import Closable
from weirlab.base.units import NS_PER_S
from weirlab.lab.redundant.base import SIDES, EventKind, Firewall, PairEvent, Transition
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.records import (
    BinDetails,
    EngineResult,
    HostSample,
    PacketLog,
    SchedulerCounters,
    Series,
)
from weirlab.testing.bed import FakeClock
from weirlab.testing.results import make_result
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.plan import CallFlows
from weirlab.traffic.spec import Traffic

DELAY_NS: Final = 30_000
BIN_NS: Final = 10_000_000
_OTHER: Final[Mapping[Firewall, Firewall]] = {"a": "b", "b": "a"}


@dataclass(frozen=True)
class SwitchBehaviour:
    """How a :class:`FakePair` switches."""

    outage_s: Mapping[EventKind, float]
    """How long nothing is forwarded after an event, by its kind."""
    back_extra_s: float = 0.0
    """How much longer nothing is forwarded from the receiver's side."""
    shares_states: bool = True
    """Whether streams go on after a switch; if not, they die when admission is closed."""
    carries_calls: int = 1_000_000
    """With more calls every hundredth packet is lost."""
    took_ns: int = 3_000_000
    """How long the commands of an event take."""
    copies_after: int = 0
    """Number of packets that arrive twice right after the outage, the copy one packet late (reordered)."""


@dataclass(frozen=True)
class SwitchFault:
    """What goes wrong in one trial of a :class:`FakePair`."""

    took_ns: int | None = None
    """How long the commands of the event take."""
    away_ns: int = 0
    """How long after the outage the sender sends nothing, before it sends everything at once."""
    steal_s: float = 0.0
    steal_after_s: float | None = None
    """How long after the event a watcher sees the stolen time; None: nothing watches."""
    wait_s: float = 0.0
    """How long other work has the pair's CPU."""
    lost_before: int = 0
    """Number of packets of the first stream that are lost before the event."""
    stays: bool = False
    """The event changes nothing: the master stays master."""
    fails: BaseException | None = None
    """Raised instead of the trial."""


def instant(protocol: Keepalived | Ucarp) -> SwitchBehaviour:
    """A pair that takes over in the middle of what its timers allow, and without a gap on request."""
    earliest, latest = protocol.expected_failover_s
    return SwitchBehaviour({"soft": 0.0, "hard": (earliest + latest) / 2, "return": 0.0})


class FakePair(Closable):
    """A pair; ``mishaps`` has one entry per trial, None for none.

    Time passes on ``clock`` alone.
    """

    lab = "redundant"
    looks_inside = True
    backend = "sim"

    def __init__(
        self,
        protocol: Keepalived | Ucarp,
        manner: SwitchBehaviour | None = None,
        mishaps: Iterable[SwitchFault | None] = (),
        clock: FakeClock | None = None,
    ) -> None:
        self.protocol = protocol
        self.manner = manner or instant(protocol)
        self.clock = clock or FakeClock()
        self.closed = 0
        self.admits = True
        self.events: list[PairEvent] = []
        self.transitions: list[Transition] = []
        self._mishaps = iter(mishaps)
        self._mishap = SwitchFault()
        self._master: Firewall = "a"
        self._known: dict[Firewall, int] = {"a": 0, "b": 0}
        self._strays = 1
        """States that belong to no call, as on a real pair."""
        self._connections = 0
        self._steal_s = self._wait_s = 0.0
        self._closed_with = 0

    @property
    def pair(self) -> FakePair:
        return self

    @property
    def dut(self) -> str:
        return self.protocol.name

    @property
    def facts(self) -> Mapping[str, object]:
        return {"made_of": "formulas"}

    @property
    def expected_failover_s(self) -> tuple[float, float]:
        return self.protocol.expected_failover_s

    def now_ns(self) -> int:
        """The clock in ns."""
        return round(self.clock() * NS_PER_S)

    def settle(self) -> Firewall:
        self.clock.advance(self.expected_failover_s[1])
        return self._master

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        self.clock.advance(max(at_ns - self.now_ns(), 0) / NS_PER_S)
        event()

    def close_admission(self) -> int:
        self.admits = False
        self._closed_with = self._known[self._master]
        return self._closed_with

    def step_down(self) -> PairEvent:
        return self._switch("soft")

    def cut(self) -> PairEvent:
        return self._switch("hard")

    def restore(self) -> PairEvent:
        return self._switch("return")

    def master(self) -> Firewall | Literal["both"] | None:
        return self._master

    def states(self, firewall: Firewall) -> int:
        return self._known[firewall]

    def calls_begun(self) -> int:
        return self._known[self._master]

    def surviving(self) -> int:
        return self._known[self._master]

    def clear_states(self) -> None:
        self._strays = 0

    def counters(self) -> dict[str, int]:
        return {}

    def host(self) -> HostSample:
        idle = {"user": 0.0, "system": 0.0, "softirq": 0.0, "idle": 1.0}
        return HostSample(
            self.clock(), {"sender": {**idle, "steal": self._steal_s}, "dut": idle}, dut_wait_s=self._wait_s
        )

    def close(self) -> None:
        self.closed += 1

    def run(self, traffic: Traffic, during: Callable[[], object] | None = None) -> EngineResult:
        """Every packet of the calls, in even phases."""
        assert traffic.calls is not None
        self._mishap = next(self._mishaps, None) or SwitchFault()
        if self._mishap.fails is not None:
            raise self._mishap.fails
        begin_ns = self.now_ns() + round(traffic.warmup_s * NS_PER_S)
        end_ns = begin_ns + round(traffic.duration_s * NS_PER_S)
        self._connections = 1 if traffic.calls.one_flow else traffic.calls.count
        self._known[self._master] = self._connections + self._strays
        if self.manner.shares_states:
            self._known[_OTHER[self._master]] = self._known[self._master]
        events = len(self.events)
        if during is not None:
            during()
        event = self.events[-1] if len(self.events) > events else None
        self.clock.advance(max(end_ns - self.now_ns(), 0) / NS_PER_S)
        self._steal_s += self._mishap.steal_s
        self._wait_s += self._mishap.wait_s
        return self._result(traffic, begin_ns, end_ns, event)

    def _switch(self, kind: EventKind) -> PairEvent:
        took_ns = self._mishap.took_ns if self._mishap.took_ns is not None else self.manner.took_ns
        event = PairEvent(kind, self._master, self.now_ns(), took_ns, {"links_down_ns": took_ns})
        self.events.append(event)
        if self._mishap.stays:
            return event
        new = _OTHER[self._master]
        moved_ns = event.began_ns + round(self.manner.outage_s[kind] * NS_PER_S)
        for side in SIDES:
            self.transitions.append(Transition(event.began_ns, self._master, side, False))
            self.transitions.append(Transition(moved_ns, new, side, True))
        self._master = new
        return event

    def _result(self, traffic: Traffic, begin_ns: int, end_ns: int, event: PairEvent | None) -> EngineResult:
        assert traffic.calls is not None
        flows = _flows(traffic.calls)
        streams = len(flows.back)
        packet_ns = int(flows.packet_ns[0])
        per_stream = (end_ns - begin_ns) // packet_ns
        # Each direction's packets are spread evenly over the packet time.
        phase = (2 * flows.call.astype(np.int64) + flows.back) * packet_ns // (2 * traffic.calls.count)
        sent_ns = (begin_ns + phase[:, None] + np.arange(per_stream) * packet_ns).ravel()
        flow = np.repeat(np.arange(streams), per_stream)
        seq = np.tile(np.arange(per_stream), streams)
        if event is not None:
            back_ns = self._over_ns(event)
            away = (sent_ns >= back_ns) & (sent_ns < back_ns + self._mishap.away_ns)
            sent_ns = np.where(away, back_ns + self._mishap.away_ns, sent_ns)
        lost = self._lost(traffic.calls, flows, flow, seq, sent_ns, event)
        came = np.flatnonzero(~lost)
        copies = came[:0] if event is None else _first_after(came, sent_ns, flow, self._over_ns(event))
        copies = copies[: self.manner.copies_after]
        rows = np.concatenate((came, copies))
        # A copy comes a little after the packet that follows it.
        extra = np.concatenate((np.zeros(len(came), np.int64), np.full(len(copies), packet_ns + 1_000)))
        arrival_ns = sent_ns[rows] + DELAY_NS + extra
        order = np.lexsort((arrival_ns, flows.back[flow[rows]]))
        rows, arrival_ns = rows[order], arrival_ns[order]
        log = PacketLog(
            flow=flow[rows].astype(np.uint32),
            seq=seq[rows].astype(np.uint32),
            sent_ns=sent_ns[rows].astype(np.uint64),
            arrival_ns=arrival_ns.astype(np.uint64),
            first_seq=np.zeros(streams, np.uint64),
            call_flows=flows,
        )
        duration_s = (end_ns - begin_ns) / NS_PER_S
        bins = -(-(end_ns - begin_ns) // BIN_NS)
        bin_of = (sent_ns - begin_ns) // BIN_NS
        sent = np.bincount(bin_of, minlength=bins).astype(np.uint64)
        received = np.bincount(bin_of[came], minlength=bins).astype(np.uint64)
        delay = np.where(received > 0, float(DELAY_NS), np.nan)
        made = make_result(len(sent_ns) / duration_s, duration_s=duration_s, flows=streams)
        counted = np.bincount(flow, minlength=streams).astype(np.uint64)
        arrived = np.bincount(flow[came], minlength=streams).astype(np.uint64)
        return replace(
            made,
            record_start_ns=begin_ns,
            record_end_ns=end_ns,
            sent=len(sent_ns),
            received=len(came),
            lost=int(lost.sum()),
            series=Series(BIN_NS, sent, received, delay, delay),
            flows=replace(made.flows, sent=counted, received=arrived, lost=counted - arrived),
            packets=log,
            windows=None if event is None else self._seen(event, begin_ns, bins),
        )

    def _seen(self, event: PairEvent, begin_ns: int, bins: int) -> BinDetails | None:
        """What a watcher sees of the stolen time."""
        after_s, none = self._mishap.steal_after_s, np.zeros(bins, np.uint64)
        if after_s is None:
            return None
        at_ns = (begin_ns + np.arange(bins + 1) * BIN_NS).astype(np.uint64)
        later = at_ns > event.began_ns + round(after_s * NS_PER_S)
        stolen_ns = later * np.uint64(round(self._mishap.steal_s * NS_PER_S))
        threads = np.zeros((bins + 1, 1), np.uint64)
        looks = SchedulerCounters(at_ns, stolen_ns, 0 * stolen_ns, at_ns, threads, threads)
        return BinDetails(none, none, none, none, none, none, none, none, none, none, none, looks)

    def _over_ns(self, event: PairEvent) -> int:
        outage_s = 0.0 if self._mishap.stays else self.manner.outage_s[event.kind]
        return event.began_ns + round(outage_s * NS_PER_S)

    def _lost(
        self,
        calls: Calls,
        flows: CallFlows,
        flow: npt.NDArray[np.int64],
        seq: npt.NDArray[np.int64],
        sent_ns: npt.NDArray[np.int64],
        event: PairEvent | None,
    ) -> npt.NDArray[np.bool_]:
        lost = np.zeros(len(sent_ns), np.bool_)
        if calls.count > self.manner.carries_calls:
            lost[::100] = True
        if event is not None:
            over_ns = self._over_ns(event) + flows.back[flow] * round(self.manner.back_extra_s * NS_PER_S)
            lost |= (sent_ns >= event.began_ns) & (sent_ns < over_ns)
            if not (self.manner.shares_states or self.admits):
                lost |= sent_ns >= event.began_ns
        lost |= (flow == 0) & (seq > 0) & (seq <= self._mishap.lost_before)
        return lost


def _flows(calls: Calls) -> CallFlows:
    """Streams of ``calls``: every call forward, then, where both talk, every call back."""
    ways = {"forward": (False,), "back": (True,), "both": (False, True)}[calls.directions]
    n = calls.count
    streams = n * len(ways)
    packet_ns = round(calls.classes[0].stream.packet_ms * 1e6)
    return CallFlows(
        back=np.repeat(np.asarray(ways, np.bool_), n),
        carries_media=np.ones(streams, np.bool_),
        call=np.tile(np.arange(n, dtype=np.uint32), len(ways)),
        calls_carried=np.ones(streams, np.uint32),
        call_class=np.zeros(streams, np.int64),
        packet_ns=np.full(streams, packet_ns, np.int64),
    )


def _first_after(
    came: npt.NDArray[np.int64], sent_ns: npt.NDArray[np.int64], flow: npt.NDArray[np.int64], at_ns: int
) -> npt.NDArray[np.int64]:
    """The first packet of each flow that departed from ``at_ns`` on and came."""
    later = came[sent_ns[came] >= at_ns]
    _, first = np.unique(flow[later], return_index=True)
    return later[first]
