"""Signalling of calls and full frames of IAX2: which messages leave when, in which flow.

The bytes come from :mod:`weirlab.traffic.calls.signalling`. If traffic goes in only one direction, a device
sees only one side of a call: then the other side's messages are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weirlab.traffic.calls.addresses import FlowMap
from weirlab.traffic.calls.arrivals import SET_UP_NS, Units, backs
from weirlab.traffic.calls.signalling import SignallingMessage, iax2, sip
from weirlab.traffic.calls.spec import CallClass, Calls

I64 = npt.NDArray[np.int64]

_NS_PER_MS = 1_000_000


@dataclass
class MessageLog:
    """Messages collected so far, each with its departure, flow and bytes behind UDP."""

    due_ns: list[int] = field(default_factory=list)
    flow: list[int] = field(default_factory=list)
    payload: list[bytes] = field(default_factory=list)

    def post(self, due_ns: int, flow: int, payload: bytes) -> None:
        self.due_ns.append(due_ns)
        self.flow.append(flow)
        self.payload.append(payload)


@dataclass(frozen=True)
class VoiceFrames:
    """Full voice frames of IAX2, by unit, direction and time; shapes (frames,)."""

    unit: I64
    way: I64
    due_ns: I64
    stamp_ms: I64

    def __len__(self) -> int:
        return len(self.unit)


def post_sip(
    calls: Calls, units: Units, flows: FlowMap, start_ns: int, end_ns: int, mail: MessageLog
) -> None:
    """Post the set-up and tear-down of the RTP calls from ``start_ns`` to just before ``end_ns``."""
    sides = backs(calls.directions)
    for unit in np.flatnonzero(_talkative(units, start_ns, end_ns)).tolist():
        kind = calls.classes[int(units.call_class[unit])]
        if kind.transport != "rtp":
            continue
        here, there = flows.hosts(unit)
        port = int(flows.port[unit])
        call = sip.SipCall(
            number=int(units.call[unit]),
            caller=sip.Party(here, port),
            callee=sip.Party(there, port),
            payload_type=kind.stream.codec.payload_type,
            encoding=kind.stream.codec.encoding,
            packet_ms=kind.stream.packet_ms,
            directions=calls.directions,
            seed=calls.seed,
        )
        dialled_ns = int(units.dialled_ns[unit])
        messages: list[SignallingMessage] = []
        if units.announced[unit] and dialled_ns + SET_UP_NS > start_ns:
            messages += sip.set_up(call)
        if units.end_ns[unit] < end_ns:
            messages += sip.tear_down(call, (int(units.end_ns[unit]) - dialled_ns) / _NS_PER_MS)
        for message in messages:
            due_ns = dialled_ns + round(message.at_ms * _NS_PER_MS)
            if start_ns <= due_ns < end_ns and (not message.from_caller) in sides:
                way = sides.index(not message.from_caller)
                mail.post(due_ns, int(flows.signals[unit]) + way, message.payload)


def post_iax2(
    calls: Calls,
    units: Units,
    flows: FlowMap,
    voice: VoiceFrames,
    start_ns: int,
    end_ns: int,
    mail: MessageLog,
) -> list[bytes]:
    """Make the full frames of the IAX2 calls.

    Those of ``voice`` are speech and belong to their stream: their bytes are returned, in order. All
    others are posted, if signalling is enabled.
    """
    sides = backs(calls.directions)
    payloads: list[bytes] = [b""] * len(voice)
    first_frame = np.searchsorted(voice.unit, np.arange(len(units) + 1))
    wanted = np.zeros(len(units), dtype=np.bool_)
    wanted[voice.unit] = True
    if calls.signalling:
        wanted |= _talkative(units, start_ns, end_ns)
    for unit in np.flatnonzero(wanted).tolist():
        kind = calls.classes[int(units.call_class[unit])]
        if kind.transport == "rtp":
            continue
        mine = range(int(first_frame[unit]), int(first_frame[unit + 1]))
        # The calls of a trunk begin together: its frames have one time stamp for all of them.
        dialled_ns = int(units.dialled_ns[unit])
        for call in iax_calls(kind, units, unit):
            end = int(units.end_ns[unit])
            frames = [_voice(voice, i, sides, dialled_ns) for i in mine]
            if kind.transport == "iax2-trunk" and units.announced[unit] and calls.signalling:
                # Speech in a trunk does not name its codec: a full frame of each call does so just before.
                frames = [
                    _before_trunk(
                        int(units.first_ns[unit, way]) - kind.stream.packet_ns, not back, dialled_ns
                    )
                    for way, back in enumerate(sides)
                ]
            messages = iax2.full_frames(
                call,
                frames,
                established=not (units.announced[unit] and calls.signalling),
                hang_up_ms=(end - dialled_ns) / _NS_PER_MS if calls.signalling and end < end_ns else None,
            )
            own = kind.transport == "iax2"
            slots = {way: _frames_of(voice, mine, way) for way in range(len(sides))}
            for message in messages:
                if (not message.from_caller) not in sides:
                    continue
                way = sides.index(not message.from_caller)
                if own and message.name == "VOICE":
                    payloads[next(slots[way])] = message.payload
                    continue
                due_ns = dialled_ns + round(message.at_ms * _NS_PER_MS)
                if calls.signalling and start_ns <= due_ns < end_ns:
                    mail.post(due_ns, int(flows.signals[unit]) + way, message.payload)
    return payloads


def iax_calls(kind: CallClass, units: Units, unit: int) -> Iterator[iax2.IaxCall]:
    """The calls of a unit; those of trunks have the numbers 1, 2 ..., since a trunk has its own hosts."""
    for nth in range(int(units.carried[unit])):
        number = nth if kind.transport == "iax2-trunk" else int(units.call[unit]) % iax2.MAX_CALL_NUMBER
        yield iax2.IaxCall(
            caller_number=1 + number,
            callee_number=1 + number,
            codec=kind.stream.codec.name,
            speech_bytes=kind.stream.payload_bytes,
            filler=bytes.fromhex(kind.stream.codec.filler),
        )


def _talkative(units: Units, start_ns: int, end_ns: int) -> npt.NDArray[np.bool_]:
    """Units that may have a message in the window."""
    setting_up = units.announced & (units.begin_ns >= start_ns) & (units.dialled_ns < end_ns)
    # The last answer comes a little after the end.
    hanging_up = (units.end_ns >= start_ns - SET_UP_NS) & (units.end_ns < end_ns)
    return setting_up | hanging_up


def _voice(voice: VoiceFrames, i: int, sides: tuple[bool, ...], dialled_ns: int) -> iax2.IaxVoiceFrame:
    at_ms = (int(voice.due_ns[i]) - dialled_ns) / _NS_PER_MS
    return iax2.IaxVoiceFrame(not sides[int(voice.way[i])], at_ms, int(voice.stamp_ms[i]))


def _before_trunk(due_ns: int, from_caller: bool, dialled_ns: int) -> iax2.IaxVoiceFrame:
    at_ms = (due_ns - dialled_ns) / _NS_PER_MS
    return iax2.IaxVoiceFrame(from_caller, at_ms, int(at_ms))


def _frames_of(voice: VoiceFrames, mine: range, way: int) -> Iterator[int]:
    return (i for i in mine if voice.way[i] == way)
