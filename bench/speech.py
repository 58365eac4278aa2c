"""Plants impairments in captures of calls, and compares what `weir quality` says with what was planted.

    python bench/speech.py [--seconds 40] [--seed 1]

The calls are built here byte by byte, by none of Weir's generators: every codec, plain and with loss, bursts,
jitter, reordering, copies, silence suppression, telephone events, hold, another codec by re-INVITE, a clock
that is off, and time stamps that are wrong. Loss is to be right by 0.1 points, jitter by 0.5 ms, MOS by 0.1.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from weirlab.quality.assess import Coded, opinion
from weirlab.quality.codecs import of_encoding
from weirlab.studies.quality.study import QualityOutcome, capture_quality

CALLER: Final = ("192.0.2.10", 4000)
CALLEE: Final = ("198.51.100.20", 20000)
EVENT: Final = 101
NOISE: Final = 13
START_MS: Final = 1_000.0
BUFFER_MS: Final = 60.0
"""Depth of the fixed jitter buffer that MOS is compared behind."""

MOST_LOSS_POINTS: Final = 0.1
MOST_JITTER_MS: Final = 0.5
MOST_MOS: Final = 0.1


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

    def carried(self, packets: list[Packet], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
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
        lost[[0, -1]] = False
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
    codec: Codec, seconds: float, rng: np.random.Generator, *, still: bool, noise: bool, marker: bool
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
        at_ms += silence * codec.packet_ms
        stamp += 0 if still else silence * codec.ticks
        stretch += still
    return Call([codec], [packets], still=still)


def silence_suppressed(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Nothing is sent in silence; time stamps go on."""
    return _spurts(codec, seconds, rng, still=False, noise=False, marker=True)


def comfort_noise(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """A packet of comfort noise begins every silence."""
    return _spurts(codec, seconds, rng, still=False, noise=True, marker=True)


def still_in_silence(codec: Codec, seconds: float, rng: np.random.Generator) -> Call:
    """Time stamps stand still in silence, and no marker shows it."""
    return _spurts(codec, seconds, rng, still=True, noise=False, marker=False)


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
    return replace(call, packets=[packets[:begin] + packets[end:]], others=music)


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
    return replace(call, packets=[packets[:begin] + packets[end:]], messages=messages)


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


@dataclass(frozen=True)
class Situation:
    """What a speaker does, what the network does, and how fast the speaker's clock is."""

    title: str
    talk: Talk
    network: Network = Network()
    skew_ppm: float = 0.0


_ALL: Final = Network(jitter_ms=3.0, in_order=False, loss=0.02, burst=3.0, copies=0.01)

SITUATIONS: Final = (
    Situation("plain", plain),
    Situation("random loss", plain, Network(loss=0.03)),
    Situation("bursts of loss", plain, Network(loss=0.05, burst=4.0)),
    Situation("jitter", plain, Network(jitter_ms=6.0)),
    Situation("reordering and copies", plain, Network(jitter_ms=12.0, in_order=False, copies=0.05)),
    Situation("clock 100 ppm fast", plain, skew_ppm=100.0),
    Situation("clock 300 ppm slow, loss", plain, Network(loss=0.02), skew_ppm=-300.0),
    Situation("silence suppression", silence_suppressed, _ALL),
    Situation("comfort noise", comfort_noise, _ALL),
    Situation("stamps still in silence", still_in_silence),
    Situation("stamps still in silence, loss", still_in_silence, Network(loss=0.02)),
    Situation("telephone events", dtmf, _ALL),
    Situation("telephone events sent again", dtmf_again),
    Situation("hold, music", hold_music, _ALL),
    Situation("hold by SIP", hold_by_sip, _ALL),
    Situation("another codec", another_codec, _ALL),
    Situation("stamps twice as fast", wrong_clock, Network(loss=0.01)),
)


@dataclass(frozen=True)
class Truth:
    """What a part of a stream was made of."""

    sent: int
    lost: int
    jitter_ms: float
    mos: float
    """Behind the fixed buffer."""

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent


@dataclass(frozen=True)
class Errors:
    """How far off `weir quality` is, at worst of the parts of a call."""

    loss_points: float
    jitter_ms: float
    mos: float

    @property
    def are_small(self) -> bool:
        return (
            self.loss_points <= MOST_LOSS_POINTS and self.jitter_ms <= MOST_JITTER_MS and self.mos <= MOST_MOS
        )


def write(path: Path, codec: Codec, situation: Situation, seconds: float, seed: int) -> list[Truth]:
    """Write the capture of a call, and return what it is made of."""
    rng = np.random.default_rng(seed)
    call = situation.talk(codec, seconds, rng)
    frames = [
        (START_MS / 2, _udp(CALLER, CALLEE, 5060, 5060, sip(True, call.codecs[:1], 1, "INVITE"))),
        (START_MS / 2 + 50, _udp(CALLEE, CALLER, 5060, 5060, sip(False, call.codecs[:1], 1, "200"))),
    ]
    for at_ms, from_caller, text in call.messages:
        ends = (CALLER, CALLEE) if from_caller else (CALLEE, CALLER)
        frames.append((at_ms, _udp(*ends, 5060, 5060, text)))
    slowed = 1 - situation.skew_ppm * 1e-6
    all_packets = [
        replace(packet, sent_ms=START_MS + (packet.sent_ms - START_MS) * slowed)
        for part in call.packets
        for packet in part
    ]
    arrival, twice = situation.network.carried(all_packets, rng)
    truths, at = [], 0
    for part, used in zip(call.packets, call.codecs, strict=True):
        here = slice(at, at + len(part))
        truths.append(_truth(all_packets[here], arrival[here], used, call))
        at += len(part)
    for packet, at_ms, again in zip(all_packets, arrival, twice, strict=True):
        if np.isfinite(at_ms):
            frames.append((float(at_ms), _rtp(packet)))
            # Copies of events would be told from repetitions by nobody.
            if again and packet.speech:
                frames.append((float(at_ms) + 0.3, _rtp(packet)))
    frames += [(packet.sent_ms + situation.network.delay_ms, _rtp(packet)) for packet in call.others]
    back = plain(CODECS[0], seconds, np.random.default_rng(0)).packets[0]
    frames += [(packet.sent_ms, _rtp(replace(packet, ssrc=0xB), back=True)) for packet in back]
    _pcap(path, sorted(frames, key=lambda frame: frame[0]))
    return truths


def _truth(packets: list[Packet], arrival: np.ndarray, codec: Codec, call: Call) -> Truth:
    """By the definitions of RFC 3550 and of docs/quality.md."""
    numbers: dict[int, tuple[Packet, float]] = {}
    for packet, at_ms in zip(packets, arrival, strict=True):
        kept = numbers.get(packet.seq)
        if kept is None or (np.isnan(kept[1]) and np.isfinite(at_ms)):
            numbers[packet.seq] = (packet, float(at_ms))
    places = [numbers[seq] for seq in sorted(numbers)]
    tick_ms = 1e3 / codec.clock_hz / call.stamp_rate
    heard = [(at_ms, packet) for packet, at_ms in places if np.isfinite(at_ms) and packet.speech]
    came = sorted(heard, key=lambda each: each[0])
    transit = {packet.seq: at_ms - packet.stamp * tick_ms for at_ms, packet in came}
    now, estimates = 0.0, []
    for (_, one), (_, other) in pairwise(came):
        if one.stretch == other.stretch:
            now += (abs(transit[other.seq] - transit[one.seq]) - now) / 16
            estimates.append(now)
    least: dict[int, float] = {}
    for _, packet in came:
        least[packet.stretch] = min(least.get(packet.stretch, np.inf), transit[packet.seq])
    delay = {packet.seq: transit[packet.seq] - least[packet.stretch] for _, packet in came}
    first_ms = delay[came[0][1].seq]
    unheard = [
        np.isnan(at_ms) or (packet.speech and delay[packet.seq] > first_ms + BUFFER_MS)
        for packet, at_ms in places
    ]
    kind = of_encoding(codec.name, codec.payload_bytes, codec.packet_ms)
    mean_ms = codec.packet_ms + kind.lookahead_ms + first_ms + BUFFER_MS
    share = sum(unheard) / len(places)
    _, mos = opinion(
        Coded((kind,), np.zeros(1, dtype=np.int64)),
        np.array([mean_ms]),
        np.array([100 * share]),
        np.array([_burst_ratio(unheard)]),
    )
    lost = sum(np.isnan(at_ms) for _, at_ms in places)
    return Truth(len(places), lost, float(np.mean(estimates)), float(mos[0]))


def _burst_ratio(unheard: list[bool]) -> float:
    runs = sum(here and not before for before, here in zip([False, *unheard], unheard, strict=False))
    share = sum(unheard) / len(unheard)
    return sum(unheard) / runs * (1 - share) if runs else float("nan")


def errors(outcome: QualityOutcome, truths: list[Truth]) -> Errors:
    """The parts of the speaker's stream, compared with what they are made of."""
    found = [i for i, stream in enumerate(outcome.streams) if stream.ssrc == 0x5EED]
    if len(found) != len(truths):
        return Errors(100.0, np.inf, 5.0)
    measured, fixed = outcome.table.streams, outcome.table.fixed
    pairs = list(zip(found, truths, strict=True))
    return Errors(
        max(100 * abs(float(outcome.loss_ratio[i]) - truth.loss_ratio) for i, truth in pairs),
        max(abs(float(measured.jitter_ns[i]) / 1e6 - truth.jitter_ms) for i, truth in pairs),
        max(
            0.0 if np.isnan(truth.mos) else abs(float(np.nan_to_num(fixed.mos[i])) - truth.mos)
            for i, truth in pairs
        ),
    )


# --- bytes -----------------------------------------------------------------------------------------


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


def _rtp(packet: Packet, back: bool = False) -> bytes:
    second = packet.payload_type | 0x80 * packet.marker
    numbers = (0x80, second, packet.seq & 0xFFFF, packet.stamp & 0xFFFFFFFF, packet.ssrc)
    payload = struct.pack(">BBHII", *numbers) + bytes(packet.payload_bytes)
    ends = (CALLEE, CALLER) if back else (CALLER, CALLEE)
    return _udp(*ends, ends[0][1], ends[1][1], payload)


def _udp(src: tuple[str, int], dst: tuple[str, int], src_port: int, dst_port: int, payload: bytes) -> bytes:
    addresses = b"".join(bytes(map(int, end[0].split("."))) for end in (src, dst))
    udp = struct.pack(">HHHH", src_port, dst_port, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + head + addresses + udp


def _pcap(path: Path, frames: list[tuple[float, bytes]]) -> None:
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)]
    for at_ms, data in frames:
        seconds, ns = divmod(round(at_ms * 1e6), 1_000_000_000)
        parts.append(struct.pack("<IIII", 1_700_000_000 + seconds, ns, len(data), len(data)) + data)
    path.write_bytes(b"".join(parts))


# --- the comparison --------------------------------------------------------------------------------


def compared(seconds: float, seed: int) -> Iterator[tuple[Codec, Situation, Errors]]:
    """Every codec in every situation."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "call.pcap"
        for situation in SITUATIONS:
            for codec in CODECS:
                truths = write(path, codec, situation, seconds, seed)
                yield codec, situation, errors(capture_quality(path), truths)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--seconds", type=float, default=40.0)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(f"{'situation':32}{'codec':10}{'loss, points':>13}{'jitter, ms':>12}{'MOS':>8}")
    wrong = 0
    for codec, situation, found in compared(given.seconds, given.seed):
        wrong += not found.are_small
        mark = "" if found.are_small else "  <"
        numbers = f"{found.loss_points:13.3f}{found.jitter_ms:12.3f}{found.mos:8.3f}"
        print(f"{situation.title:32}{codec.name:10}{numbers}{mark}")
    print(f"{wrong} of {len(SITUATIONS) * len(CODECS)} are off by more than the limits")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
