"""Everything that a trial with calls sends, before it is written out packet by packet.

Speech is kept as runs of packets (:mod:`weirlab.traffic.calls.media`), everything else as single
messages. Time 0 is the very first packet: anything that would come before it is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls import control, dialogs, media
from weirlab.traffic.calls.addresses import FlowMap, flow_map
from weirlab.traffic.calls.arrivals import FIRST_ANSWER_NS, FOREVER_NS, SET_UP_NS, Units, backs, draw_units
from weirlab.traffic.calls.spec import Calls, validate
from weirlab.traffic.calls.transport import calls_per_packet, check_sendable
from weirlab.traffic.spec import FlowEndpoints

I64 = npt.NDArray[np.int64]

MAX_PACKETS: Final = 1 << 24
"""Of one trial; the engine keeps every packet in memory."""

MAX_GAP_NS: Final = (1 << 32) - 1
"""Longest time between packets that the engine supports."""

_WRAP_MS: Final = 1 << 16
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True)
class Outline:
    """Everything that departs, time 0 being the first packet.

    ``stamp``, ``step``: shape (runs,), time stamp of a run's first packet and its distance from packet
    to packet, in the unit of the transport. ``full_run``, ``full_index``: the packets of runs that are
    full frames of IAX2, and ``full_payload`` what these carry behind UDP.
    """

    calls: Calls
    units: Units
    flows: FlowMap
    runs: media.PacketRuns
    stamp: I64
    step: I64
    full_run: I64
    full_index: I64
    full_payload: list[bytes]
    mail: dialogs.MessageLog
    ssrc: npt.NDArray[np.uint32]
    """Of each stream of RTP; shape (streams,)."""
    first_stamp: I64
    """RTP time stamp of each stream's packet time 0; shape (streams,)."""


def outline(
    calls: Calls,
    warmup_ns: int,
    duration_ns: int,
    endpoints: FlowEndpoints | None = None,
    *,
    mail_from_ns: int = 0,
) -> Outline:
    """What is sent in ``warmup_ns + duration_ns``.

    Messages that depart before ``mail_from_ns`` are left out, for callers that only count.

    Raises
    ------
    InputError
        The calls cannot be made or sent, or have too many packets.
    """
    validate(calls)
    for kind in calls.classes:
        check_sendable(kind.stream)
    total_ns = warmup_ns + duration_ns
    _check_amount(calls, warmup_ns, duration_ns, _expected_packets(calls, total_ns), slack=1.25)

    drawn, talked, reported, named = _generators(calls.seed)
    # The first packet may be late; what follows the end by as much is then still in the trial.
    horizon_ns = total_ns + MAX_GAP_NS
    units = draw_units(calls, warmup_ns, horizon_ns, drawn)
    ways = len(backs(calls.directions))
    packet_ns = np.array([kind.stream.packet_ns for kind in calls.classes], dtype=np.int64)
    talk = media.conversations(len(units), ways, horizon_ns, talked) if calls.spurts else None
    runs = media.runs_of(units, packet_ns[units.call_class], horizon_ns, talk)

    zero_ns = _first_packet_ns(calls, units, runs)
    if zero_ns >= total_ns:
        raise InputError(f"nobody speaks for {total_ns / NS_PER_S:g} s; make more calls or a longer trial")
    units, runs = _shifted(units, runs, ways, zero_ns, total_ns, calls.signalling)
    _check_amount(calls, warmup_ns, duration_ns, runs.total)

    flows = flow_map(calls, units, endpoints)
    streams = len(units) * ways
    ssrc = named.integers(1 << 32, size=streams, dtype=np.uint32)
    first_stamp = named.integers(1 << 32, size=streams, dtype=np.int64)
    stamp, step = _stamps(calls, units, runs, ways)
    full_run, full_index = _full_frames(calls, units, runs, stamp, step, ways)
    mail = dialogs.MessageLog()
    if calls.signalling:
        dialogs.post_sip(calls, units, flows, mail_from_ns, total_ns, mail)
    voice = dialogs.VoiceFrames(
        *np.divmod(runs.stream[full_run], ways),
        due_ns=runs.start_ns[full_run] + full_index * runs.packet_ns[full_run],
        stamp_ms=stamp[full_run] + full_index * step[full_run],
    )
    full_payload = dialogs.post_iax2(calls, units, flows, voice, mail_from_ns, total_ns, mail)
    streams_of = _Streams(calls, units, flows, runs, ssrc, first_stamp)
    _post_rtcp(streams_of, mail_from_ns, total_ns, reported, mail)
    _check_amount(calls, warmup_ns, duration_ns, runs.total + len(mail.due_ns))
    return Outline(
        calls=calls,
        units=units,
        flows=flows,
        runs=runs,
        stamp=stamp,
        step=step,
        full_run=full_run,
        full_index=full_index,
        full_payload=full_payload,
        mail=mail,
        ssrc=ssrc,
        first_stamp=first_stamp,
    )


def _generators(seed: int) -> list[np.random.Generator]:
    """Independent generators, so that drawing from one does not change what another draws."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)]


def _expected_packets(calls: Calls, total_ns: int) -> float:
    ways = len(backs(calls.directions))
    activity = 1.0
    if calls.spurts:
        activity = media.CONVERSATION_ACTIVITY if ways == 2 else media.MONOLOGUE_ACTIVITY
    per_call = 0.0
    for kind in calls.classes:
        carried = calls_per_packet(kind.stream, kind.transport, kind.trunk_calls)
        per_call += kind.share * kind.stream.rate_pps / carried
    return calls.count * ways * activity * per_call * total_ns / NS_PER_S


def _check_amount(calls: Calls, warmup_ns: int, duration_ns: int, packets: float, slack: float = 1.0) -> None:
    if packets <= MAX_PACKETS * slack:
        return
    share = MAX_PACKETS / packets
    longest_s = (warmup_ns + duration_ns) / NS_PER_S * share - warmup_ns / NS_PER_S
    ways_out = []
    if longest_s >= 0.1:
        ways_out.append(f"{math.floor(longest_s * 10) / 10:.12g} s with as many calls")
    if calls.count * share >= 1:
        ways_out.append(f"{math.floor(calls.count * share):,} calls for as long")
    way_out = f"at most {', or '.join(ways_out)}" if ways_out else "shorten the warm-up"
    raise InputError(
        f"{calls.count:,} calls of {(warmup_ns + duration_ns) / NS_PER_S:g} s (warm-up included) are about "
        f"{packets:,.0f} packets, more than the {MAX_PACKETS:,} of a trial: {way_out}"
    )


def _first_packet_ns(calls: Calls, units: Units, runs: media.PacketRuns) -> int:
    """The first packet of speech, or of the set-up of a call if that lies completely within the trial."""
    found = [int(runs.start_ns.min(initial=FOREVER_NS))]
    if calls.signalling:
        dialled_ns = units.dialled_ns[units.announced & (units.dialled_ns >= 0)]
        after_ns = FIRST_ANSWER_NS if calls.directions == "back" else 0
        found.append(int(dialled_ns.min(initial=FOREVER_NS)) + after_ns)
    return min(found)


def _shifted(
    units: Units, runs: media.PacketRuns, ways: int, zero_ns: int, total_ns: int, signalling: bool
) -> tuple[Units, media.PacketRuns]:
    """``units`` and ``runs`` shifted by ``zero_ns``, without those over by then or not begun at the end."""
    appears_ns = units.dialled_ns if signalling else units.begin_ns
    appears_ns = np.where(units.announced, appears_ns, units.begin_ns)
    there = (appears_ns < zero_ns + total_ns) & (units.end_ns > zero_ns - SET_UP_NS)
    number = np.where(there, np.cumsum(there) - 1, -1)
    old = np.arange(len(units) * ways)
    stream = np.where(there[old // ways], number[old // ways] * ways + old % ways, -1)
    kept = units.where(there)
    moved = Units(
        call_class=kept.call_class,
        call=kept.call,
        carried=kept.carried,
        dialled_ns=kept.dialled_ns - zero_ns,
        begin_ns=kept.begin_ns - zero_ns,
        end_ns=kept.end_ns - zero_ns,
        announced=kept.announced,
        first_ns=kept.first_ns - zero_ns,
    )
    return moved, media.within(media.moved(runs, stream, -zero_ns), 0, total_ns)


def _stamps(calls: Calls, units: Units, runs: media.PacketRuns, ways: int) -> tuple[I64, I64]:
    """RTP: clock units since the stream's first packet time; IAX2: ms since the call began."""
    unit, way = np.divmod(runs.stream, ways)
    call_class = units.call_class[unit]
    rtp = np.array([kind.transport == "rtp" for kind in calls.classes])
    step = np.array(
        [
            kind.stream.stamp_units if kind.transport == "rtp" else round(kind.stream.packet_ms)
            for kind in calls.classes
        ],
        dtype=np.int64,
    )[call_class]
    since_ms = (units.first_ns[unit, way] - units.dialled_ns[unit]) // _NS_PER_MS
    return np.where(rtp[call_class], 0, since_ms) + runs.slot * step, step


def _full_frames(
    calls: Calls, units: Units, runs: media.PacketRuns, stamp: I64, step: I64, ways: int
) -> tuple[I64, I64]:
    """Run and index of the voice frames that have to be full frames."""
    mini = np.array([kind.transport == "iax2" for kind in calls.classes])[units.call_class]
    mine = np.flatnonzero(mini[runs.stream // ways])
    some = media.PacketRuns(
        runs.stream[mine], runs.start_ns[mine], runs.slot[mine], runs.packets[mine], runs.packet_ns[mine]
    )
    run, index = media.wraps(some, stamp[mine], step[mine], _WRAP_MS)
    return mine[run], index


@dataclass(frozen=True)
class _Streams:
    """The streams that control packets report on; ``ssrc`` and ``first_stamp`` by stream."""

    calls: Calls
    units: Units
    flows: FlowMap
    runs: media.PacketRuns
    ssrc: npt.NDArray[np.uint32]
    first_stamp: I64


def _post_rtcp(
    streams: _Streams, start_ns: int, end_ns: int, rng: np.random.Generator, mail: dialogs.MessageLog
) -> None:
    calls, units, flows = streams.calls, streams.units, streams.flows
    ways = flows.ways
    unit = np.repeat(np.flatnonzero(flows.control >= 0), ways)
    if not len(unit):
        return
    way = np.tile(np.arange(ways), len(unit) // ways)
    call_class = units.call_class[unit]
    mean_ns = np.array(
        [round(control.interval_s(kind.stream, ways, calls.rtcp_min_s) * NS_PER_S) for kind in calls.classes]
    )
    begins = units.begin_ns[unit] >= 0
    reports = control.departures(
        np.maximum(units.begin_ns[unit], 0),
        units.end_ns[unit],
        mean_ns[call_class],
        begins & units.announced[unit],
        end_ns,
        rng,
    )
    late = reports.due_ns >= start_ns
    reports = control.ControlPackets(reports.side[late], reports.due_ns[late])
    side = reports.side
    stream = unit * ways + way
    sent = media.sent_before(streams.runs, stream[side], reports.due_ns)
    clock_hz = np.array([kind.stream.codec.rtp_clock_hz for kind in calls.classes])[call_class]
    payload = np.array([kind.stream.payload_bytes for kind in calls.classes])[call_class]
    since_ns = reports.due_ns - units.first_ns[unit, way][side]
    stamp = streams.first_stamp[stream[side]] + since_ns * clock_hz[side] // NS_PER_S
    hosts: dict[int, tuple[str, str]] = {}
    sides = backs(calls.directions)
    cnames = []
    for of, which in zip(unit.tolist(), way.tolist(), strict=True):
        if of not in hosts:
            hosts[of] = flows.hosts(of)
        back = sides[which]
        cnames.append(f"{'b' if back else 'a'}{int(units.call[of])}@{hosts[of][back]}")
    bodies = control.payloads(reports, streams.ssrc[stream], cnames, stamp, sent, sent * payload[side])
    flow = (flows.control[unit] + way)[side]
    for due_ns, to, body in zip(reports.due_ns.tolist(), flow.tolist(), bodies, strict=True):
        mail.post(due_ns, to, body)
