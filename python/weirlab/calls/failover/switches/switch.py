"""The numbers of one switch, from the packets of its trial. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.event import Occurrence
from weirlab.calls.failover.switches.gaps import Bools, CallGaps, CallOutage, call_gaps, outage
from weirlab.calls.failover.switches.series import SwitchSeries, around
from weirlab.calls.failover.switches.timing import IN_FLIGHT_NS, SwitchWindows, Timing, windows
from weirlab.quality.assess import call_table
from weirlab.quality.jitterbuffer import USUAL, Buffers
from weirlab.quality.packets import PacketWindow, StreamPackets, unroll
from weirlab.quality.segments import owner
from weirlab.records import F64, CallTable, EngineResult
from weirlab.traffic.calls.spec import Calls

GOOD_MOS: Final = 3.6
"""Below it some users are dissatisfied (ITU-T G.107 annex B, R below 70)."""


@dataclass(frozen=True)
class CallPhases:
    """What was heard before, while and after the pair switched; tables row by row like the gaps."""

    before: CallTable
    affected: CallTable
    during: CallTable
    after: CallTable | None
    """None where not all was over before the end."""


@dataclass(frozen=True)
class SwitchMeasurement:
    """Everything measured around one event; only packets that carry speech count."""

    gaps: CallGaps
    outages: dict[bool, CallOutage]
    """By direction: False forward, True back."""
    heard: CallPhases
    packets: StreamPackets
    series: SwitchSeries
    windows: SwitchWindows
    event_ns: int
    end_ns: int
    sent_pps: float

    @property
    def outage_ns(self) -> float:
        """The longer of both directions' longest times without any arrival."""
        return max((found.gap_ns for found in self.outages.values()), default=math.nan)

    @property
    def resumed_ns(self) -> float:
        """From the event until packets arrived again in both directions; NaN if they never did."""
        ends = [found.ends_ns for found in self.outages.values()]
        return max(ends) if ends and all(map(math.isfinite, ends)) else math.nan

    def lost(self, back: bool | None = None) -> int:
        """Packets lost that departed from the event on (or shortly before), in one direction or both."""
        lost = self.packets.lost & ~self.earlier
        if back is not None:
            lost &= self.gaps.back[owner(self.packets.start)] == back
        return int(lost.sum())

    @property
    def earlier(self) -> Bools:
        """Which packets departed too early for the event to lose them."""
        return np.asarray(self.packets.sent_ns < self.event_ns - IN_FLIGHT_NS)

    @property
    def lost_before(self) -> int:
        """Packets lost before anything happened."""
        return int((self.packets.lost & self.earlier).sum())

    @property
    def sender_late_ns(self) -> float:
        """By how much a stream fell behind its pace at most while the pair switched.

        Told by the packets that arrived: what was lost in between has no time of departure of its own.
        """
        packets = self.packets
        over_ns = self.resumed_ns if math.isfinite(self.resumed_ns) else self.end_ns - self.event_ns
        came = np.flatnonzero(~packets.lost)
        stream = owner(packets.start)[came]
        at = packets.sent_ns[came] - self.event_ns
        behind = np.diff(at) - np.diff(came) * packets.packet_ns[stream[1:]]
        # A little longer: what departs late arrives late, and so makes the interruption longer.
        meant = (at[1:] >= -IN_FLIGHT_NS) & (at[1:] < over_ns + IN_FLIGHT_NS)
        meant &= stream[1:] == stream[:-1]
        return float(behind[meant].max()) if meant.any() else 0.0

    @property
    def glitch_ms(self) -> float:
        """Lost packets over the rate: the length of the interruption as Woernhard 2006 gives it."""
        return self.lost() / self.sent_pps * 1e3


def examine(
    result: EngineResult, calls: Calls, found: Occurrence, timing: Timing, buffers: Buffers = USUAL
) -> SwitchMeasurement:
    """Take the numbers around ``found`` from the log of ``result``.

    Raises
    ------
    TrialError
        The log is incomplete.
    """
    log, event = result.packets, found.event
    if log is None or event is None:
        raise ValueError("a switch needs the log of all packets and an event")
    event_ns, end_ns = event.began_ns, result.record_end_ns
    packets = unroll(log, result.flows)
    call, back = log.call_flows.call[packets.flow].astype(np.int64), log.call_flows.back[packets.flow]
    last_part_ns = round(timing.last_part_s * NS_PER_S)
    until_ns = found.switched_by_ns(timing)
    gaps = call_gaps(packets, call, back, event_ns, end_ns, last_part_ns, until_ns)
    outages = {
        side: outage(packets, back == side, event_ns, end_ns, until_ns)
        for side in (False, True)
        if bool((back == side).any())
    }
    parts = windows(
        float(result.record_start_ns - event_ns),
        float(end_ns - event_ns),
        _back_at(gaps),
        timing.affected_s * NS_PER_S,
    )
    table = {
        name: call_table(
            log, result.flows, calls, buffers, window=PacketWindow(*parts.absolute(window, event_ns))
        )
        for name, window in parts.named().items()
        if window[1] > window[0]
    }
    return SwitchMeasurement(
        gaps=gaps,
        outages=outages,
        heard=CallPhases(table["before"], table["affected"], table["during"], table.get("after")),
        packets=packets,
        series=around(packets, back, event_ns),
        windows=parts,
        event_ns=event_ns,
        end_ns=end_ns,
        sent_pps=len(packets.sent_ns) / result.record_s,
    )


def _back_at(gaps: CallGaps) -> float:
    """When the last stream was back that came back; 0 where no gap was longer than usual."""
    # Two packet times: one packet lost, or none and the event between two packets.
    broken = gaps.survived & (gaps.gap_ns > 2 * gaps.packet_ns) & np.isfinite(gaps.ends_ns)
    return float(gaps.ends_ns[broken].max()) if broken.any() else 0.0


def quantile(values: F64, q: float) -> float:
    """Quantile of what is known among ``values``; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(np.quantile(known, q)) if len(known) else math.nan
