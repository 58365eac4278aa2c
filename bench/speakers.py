"""What telephones send in the captures of `bench/speech.py`, and what a network does to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

CALLER: Final = ("192.0.2.10", 4000)
CALLEE: Final = ("198.51.100.20", 20000)
EVENT: Final = 101
NOISE: Final = 13
START_MS: Final = 1_000.0


@dataclass(frozen=True)
class Codec:
    """A codec on the wire."""

    name: str
    """Encoding name of SDP."""
    payload_type: int
    clock_hz: int
    payload_bytes: int
    packet_ms: float = 20.0
    rtpmap: str = ""

    @property
    def ticks(self) -> int:
        return round(self.clock_hz * self.packet_ms / 1e3)


CODECS: Final = (
    Codec("PCMU", 0, 8_000, 160),
    Codec("PCMA", 8, 8_000, 240, 30.0),
    Codec("G722", 9, 8_000, 160),
    Codec("G726-40", 99, 8_000, 100),
    Codec("G726-32", 98, 8_000, 80),
    Codec("G726-24", 97, 8_000, 60),
    Codec("G726-16", 96, 8_000, 40),
    Codec("G729", 18, 8_000, 20),
    Codec("G723", 4, 8_000, 24, 30.0),
    Codec("GSM", 3, 8_000, 33),
    Codec("iLBC", 102, 8_000, 38),
    Codec("opus", 111, 48_000, 80, rtpmap="opus/48000/2"),
    Codec("AMR", 112, 8_000, 32),
    Codec("AMR-WB", 113, 16_000, 33),
)


@dataclass(frozen=True)
class Packet:
    """One RTP packet, as its sender made it."""

    sent_ms: float
    seq: int
    stamp: int
    payload_type: int
    payload_bytes: int
    ssrc: int
    marker: bool = False
    speech: bool = True
    stretch: int = 0
    """How often the time stamps have stood still before."""


@dataclass(frozen=True)
class Network:
    """What happens on the way."""

    delay_ms: float = 20.0
    jitter_ms: float = 0.0
    """Scale of delays that are distributed exponentially."""
    in_order: bool = True
    loss: float = 0.0
    burst: float = 1.0
    """Mean length of a run of losses."""
    copies: float = 0.0

    def carried(
        self, packets: list[Packet], edges: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """When each packet arrives, ms; NaN if it does not; and which come twice."""
        number = len(packets)
        sent = np.array([packet.sent_ms for packet in packets])
        arrival = sent + self.delay_ms + self.jitter_ms * rng.exponential(1.0, number)
        if self.in_order:
            arrival = np.maximum.accumulate(arrival)
        lost = np.zeros(number, dtype=bool)
        if self.loss:
            leave = 1 / self.burst
            enter = leave * self.loss / (1 - self.loss)
            bad = False
            for i, chance in enumerate(rng.random(number)):
                bad = chance < (1 - leave if bad else enter)
                lost[i] = bad
        # What is lost before the first packet and after the last cannot be seen.
        lost[[0, -1, *edges]] = False
        return np.where(lost, np.nan, arrival), rng.random(number) < self.copies


@dataclass
class Call:
    """What one side of a call sends, part by part."""

    codecs: list[Codec]
    packets: list[list[Packet]] = field(default_factory=list)
    """One list per codec in use."""
    others: list[Packet] = field(default_factory=list)
    """Of another source on the same ports."""
    messages: list[tuple[float, bool, bytes]] = field(default_factory=list)
    """SIP: time in ms, whether from the caller, text."""
    edges: tuple[int, ...] = ()
    """Packets next to a pause; were they lost, nothing would show it."""
    still: bool = False
    """Time stamps stand still in silence."""
    stamp_rate: float = 1.0
    """How fast time stamps advance, compared with what they should."""


Talk = Callable[[Codec, float, np.random.Generator], Call]


def _speech(
    codec: Codec, begin_ms: float, number: int, seq: int, stamp: int, rate: float = 1.0, ssrc: int = 0x5EED
) -> list[Packet]:
    return [
        Packet(
            begin_ms + i * codec.packet_ms,
            seq + i,
            stamp + round(i * codec.ticks * rate),
            codec.payload_type,
            codec.payload_bytes,
            ssrc,
            marker=i == 0,
        )
        for i in range(number)
    ]


def plain(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Speech without a pause."""
    number = round(seconds * 1e3 / codec.packet_ms)
    return Call([codec], [_speech(codec, START_MS, number, int(rng.integers(60_000)), 1_000)])


def wrong_clock(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Time stamps advance twice as fast as they should."""
    number = round(seconds * 1e3 / codec.packet_ms)
    return Call([codec], [_speech(codec, START_MS, number, 7, 1_000, rate=2.0)], stamp_rate=2.0)


def _spurts(
    codec: Codec,
    seconds: float,
    rng: np.random.Generator,
    *,
    still: bool = False,
    noise: bool = False,
    described: bool = False,
    marker: bool = True,
) -> Call:
    packets: list[Packet] = []
    at_ms, seq, stamp, stretch = START_MS, 500, 90_000, 0
    while at_ms < START_MS + seconds * 1e3:
        number = int(rng.integers(40, 150))
        spurt = _speech(codec, at_ms, number, seq, stamp)
        spurt[0] = replace(spurt[0], marker=marker)
        packets += [replace(packet, stretch=stretch) for packet in spurt]
        at_ms, seq, stamp = at_ms + number * codec.packet_ms, seq + number, stamp + number * codec.ticks
        silence = int(rng.integers(15, 120))
        if noise:
            one = Packet(at_ms, seq, stamp, NOISE, 1, 0x5EED, speech=False, stretch=stretch)
            packets.append(one)
            seq += 1
        elif described:
            # Every 8 frames one that describes the silence, of the codec's own type (3GPP TS 26.093).
            places = range(8, silence, 8)
            packets += [
                Packet(
                    at_ms + place * codec.packet_ms, seq + i, stamp + place * codec.ticks,
                    codec.payload_type, 7, 0x5EED, stretch=stretch,
                )
                for i, place in enumerate(places)
            ]  # fmt: skip
            seq += len(places)
        at_ms += silence * codec.packet_ms
        stamp += 0 if still else silence * codec.ticks
        stretch += still
    return Call([codec], [packets], still=still)


def silence_suppressed(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Nothing is sent in silence; time stamps go on."""
    return _spurts(codec, seconds, rng)


def comfort_noise(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """A packet of comfort noise begins every silence."""
    return _spurts(codec, seconds, rng, noise=True)


def described_silence(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Small packets now and then describe the silence, as those of AMR, EVS and Opus do."""
    return _spurts(codec, seconds, rng, described=True)


def still_in_silence(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Time stamps stand still in silence, and no marker shows it."""
    return _spurts(codec, seconds, rng, still=True, marker=False)


def _events(codec: Codec, seconds: float, rng: np.random.Generator, *, again: bool) -> Call:
    packets = plain(codec, seconds, rng).packets[0]
    made: list[Packet] = []
    place, shift = 0, 0
    for digit in range(6):
        begin = round((digit + 1) * len(packets) / 8)
        made += [replace(packet, seq=packet.seq + shift) for packet in packets[place:begin]]
        first = packets[begin]
        lasts = round(160 / codec.packet_ms)
        numbers = [0, 0, *range(lasts), lasts - 1, lasts - 1] if again else [*range(lasts + 2)]
        for i, number in enumerate(numbers):
            at_ms = first.sent_ms + i * 10.0
            seq = first.seq + shift + number
            event = Packet(at_ms, seq, first.stamp, EVENT, 4, first.ssrc, marker=number == 0, speech=False)
            made.append(event)
        used = max(numbers) + 1
        # Speech goes on behind the event.
        resume = begin + round((len(numbers) * 10.0) / codec.packet_ms) + 1
        shift += used - (resume - begin)
        place = resume
    made += [replace(packet, seq=packet.seq + shift) for packet in packets[place:]]
    return Call([codec], [made])


def dtmf(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Digits; the end of each is sent three times, with numbers of their own (RFC 4733)."""
    return _events(codec, seconds, rng, again=False)


def dtmf_again(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Digits whose first and last packets are sent three times with one number."""
    return _events(codec, seconds, rng, again=True)


def hold_music(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Another source plays music on the same ports; the speaker's numbers go on with time."""
    call = plain(codec, seconds, rng)
    packets = call.packets[0]
    begin, end = len(packets) // 3, len(packets) * 2 // 3
    first = packets[begin]
    music = _speech(codec, first.sent_ms + 5, end - begin - 1, 30_000, 77, ssrc=0xCAFE)
    return replace(call, packets=[packets[:begin] + packets[end:]], others=music, edges=(begin - 1, begin))


def hold_by_sip(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """The other side holds the call by re-INVITE; the speaker's numbers go on with time."""
    call = plain(codec, seconds, rng)
    packets = call.packets[0]
    begin, end = len(packets) // 3, len(packets) * 2 // 3
    messages = [
        (packets[begin].sent_ms - 40, False, sip(False, [codec], 3, "INVITE", "sendonly")),
        (packets[begin].sent_ms - 30, True, sip(True, [codec], 3, "200", "recvonly")),
        (packets[end].sent_ms - 40, False, sip(False, [codec], 4, "INVITE", "sendrecv")),
        (packets[end].sent_ms - 30, True, sip(True, [codec], 4, "200", "sendrecv")),
    ]
    return replace(
        call, packets=[packets[:begin] + packets[end:]], messages=messages, edges=(begin - 1, begin)
    )


def another_codec(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """After half of the time, a re-INVITE changes the codec; the source stays the same."""
    other = CODECS[0] if codec.name != CODECS[0].name else CODECS[2]
    half = seconds / 2
    one = plain(codec, half, rng).packets[0]
    last = one[-1]
    begin_ms = last.sent_ms + codec.packet_ms
    number = round(half * 1e3 / other.packet_ms)
    two = _speech(other, begin_ms, number, last.seq + 1, last.stamp + codec.ticks)
    messages = [
        (begin_ms - 60, True, sip(True, [other], 2, "INVITE")),
        (begin_ms - 40, False, sip(False, [other], 2, "200")),
    ]
    return Call([codec, other], [one, two], messages=messages)


def sip(from_caller: bool, codecs: list[Codec], cseq: int, line: str, direction: str = "sendrecv") -> bytes:
    """A message of the call with a description of where its sender wants to receive."""
    address, port = CALLER if from_caller else CALLEE
    types = [*(codec.payload_type for codec in codecs), EVENT, NOISE]
    maps = [f"a=rtpmap:{c.payload_type} {c.rtpmap or f'{c.name}/{c.clock_hz}'}" for c in codecs]
    body = "\r\n".join(
        [
            *("v=0", f"o=- 1 {cseq} IN IP4 {address}", "s=-", f"c=IN IP4 {address}", "t=0 0"),
            f"m=audio {port} RTP/AVP {' '.join(map(str, types))}",
            *(*maps, f"a=rtpmap:{EVENT} telephone-event/8000", f"a={direction}", ""),
        ]
    )
    begin = "SIP/2.0 200 OK" if line == "200" else f"{line} sip:callee@example.net SIP/2.0"
    head = [
        *(begin, "Call-ID: planted@example.net", f"CSeq: {cseq} INVITE"),
        *("From: <sip:caller@example.net>;tag=1", "To: <sip:callee@example.net>"),
        *("Content-Type: application/sdp", f"Content-Length: {len(body)}", "", body),
    ]
    return "\r\n".join(head).encode()
