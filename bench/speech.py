"""Plants impairments in captures of calls, and compares what `weir quality` says with what was planted.

    python bench/speech.py [--seconds 40] [--seed 1] [--draws N]

The calls are built here byte by byte, by none of Weir's generators: every codec, plain and with loss, bursts,
jitter, reordering, copies, silence suppression, telephone events, hold, another codec by re-INVITE, a clock
that is off, and time stamps that are wrong; with --draws, N calls with all of this at random. Loss is to be
right by 0.1 points, jitter by 0.5 ms, MOS by 0.1. A table has the worst error of each situation, another
that of each codec in it.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

import speakers
from speakers import (
    CALLEE,
    CALLER,
    CODECS,
    START_MS,
    Call,
    Codec,
    Network,
    Packet,
    Talk,
    sip,
)
from weirlab.calls.quality.study import QualityOutcome, capture_quality
from weirlab.quality.assess import StreamCoding, opinion
from weirlab.quality.codecs import of_encoding

BUFFER_MS: Final = 60.0
"""Depth of the fixed jitter buffer that MOS is compared behind."""

UNDISTURBED: Final = Network()
MOST_LOSS_POINTS: Final = 0.1
MOST_JITTER_MS: Final = 0.5
MOST_MOS: Final = 0.1


@dataclass(frozen=True)
class Situation:
    """What a speaker does, what the network does, and how fast the speaker's clock is."""

    title: str
    talk: Talk
    network: Network = UNDISTURBED
    skew_ppm: float = 0.0


_ALL: Final = Network(jitter_ms=3.0, in_order=False, loss=0.02, burst=3.0, copies=0.01)

SITUATIONS: Final = (
    Situation("plain", speakers.plain),
    Situation("random loss", speakers.plain, Network(loss=0.03)),
    Situation("bursts of loss", speakers.plain, Network(loss=0.05, burst=4.0)),
    Situation("jitter", speakers.plain, Network(jitter_ms=6.0)),
    Situation("reordering and copies", speakers.plain, Network(jitter_ms=12.0, in_order=False, copies=0.05)),
    Situation("clock 100 ppm fast", speakers.plain, skew_ppm=100.0),
    Situation("clock 300 ppm slow, loss", speakers.plain, Network(loss=0.02), skew_ppm=-300.0),
    Situation("silence suppression", speakers.silence_suppressed, _ALL),
    Situation("comfort noise", speakers.comfort_noise, _ALL),
    Situation("described silence", speakers.described_silence, _ALL),
    Situation("stamps still in silence", speakers.still_in_silence),
    Situation("stamps still in silence, loss", speakers.still_in_silence, Network(loss=0.02)),
    Situation("telephone events", speakers.dtmf, _ALL),
    Situation("telephone events sent again", speakers.dtmf_again),
    Situation("hold, music", speakers.hold_music, _ALL),
    Situation("hold by SIP", speakers.hold_by_sip, _ALL),
    Situation("another codec", speakers.another_codec, _ALL),
    Situation("stamps twice as fast", speakers.wrong_clock, Network(loss=0.01)),
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
    def share(self) -> float:
        """The largest, over what it may be."""
        return max(self.loss_points / MOST_LOSS_POINTS, self.jitter_ms / MOST_JITTER_MS, self.mos / MOST_MOS)

    @property
    def are_small(self) -> bool:
        return self.share <= 1


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
    arrival, twice = situation.network.carried(all_packets, call.edges, rng)
    truths, begin, end = [], 0, 0
    for part, used in zip(call.packets, call.codecs, strict=True):
        end += len(part)
        # What is lost between two codecs belongs to the second.
        last = begin + int(np.flatnonzero(np.isfinite(arrival[begin:end]))[-1]) + 1
        truths.append(_truth(all_packets[begin:last], arrival[begin:last], used, call))
        begin = last
    for packet, at_ms, again in zip(all_packets, arrival, twice, strict=True):
        if np.isfinite(at_ms):
            frames.append((float(at_ms), _rtp(packet)))
            # Copies of events would be told from repetitions by nobody.
            if again and packet.speech:
                frames.append((float(at_ms) + 0.3, _rtp(packet)))
    frames += [(packet.sent_ms + situation.network.delay_ms, _rtp(packet)) for packet in call.others]
    back = speakers.plain(CODECS[0], seconds, np.random.default_rng(0)).packets[0]
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
    late = _late([packet.seq for _, packet in came], delay, codec.packet_ms)
    unheard = [np.isnan(at_ms) or packet.seq in late for packet, at_ms in places]
    kind = of_encoding(codec.name, codec.payload_bytes, codec.packet_ms)
    # By one clock, whatever that of the sender.
    took = [at_ms - packet.sent_ms for at_ms, packet in came]
    mean_ms = codec.packet_ms + kind.lookahead_ms + took[0] - min(took) + BUFFER_MS
    share = sum(unheard) / len(places)
    _, mos = opinion(
        StreamCoding((kind,), np.zeros(1, dtype=np.int64)),
        np.array([mean_ms]),
        np.array([100 * share]),
        np.array([_burst_ratio(unheard)]),
    )
    lost = sum(np.isnan(at_ms) for _, at_ms in places)
    return Truth(len(places), lost, float(np.mean(estimates)), float(mos[0]))


def _late(order: list[int], delay: dict[int, float], packet_ms: float) -> set[int]:
    """Packets that the fixed buffer does not play, of those in this order of arrival.

    Every 50 packets it looks at the least delay of the last 100, and slips if that has changed by a packet.
    """
    play_ms = delay[order[0]] + BUFFER_MS
    late: set[int] = set()
    aligned_ms = 0.0
    step_ms = min(packet_ms, BUFFER_MS / 2)
    for begin in range(0, len(order), 50):
        window = order[begin : begin + 50]
        if begin >= 100:
            least_ms = min(delay[seq] for seq in order[begin - 100 : begin])
            if begin == 100:
                aligned_ms = least_ms
            slips = int((least_ms - aligned_ms) / step_ms)
            aligned_ms += slips * step_ms
            play_ms += slips * step_ms
            late |= set(window[: abs(slips)])
        late |= {seq for seq in window if delay[seq] > play_ms}
    return late


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


TALKS: Final = tuple(dict.fromkeys(situation.talk for situation in SITUATIONS))
SIZES: Final = {
    "opus": (40, 60, 80, 120), "AMR": (21, 23, 27, 32), "AMR-WB": (18, 24, 33, 37, 41, 47, 51, 59, 61),
}  # fmt: skip
"""Payloads of 20 ms, of codecs with several modes."""


def drawn(rng: np.random.Generator) -> tuple[Codec, Situation, float]:
    """A codec, a situation and a duration in s, all of them at random."""
    codec = CODECS[rng.integers(len(CODECS))]
    size, times = int(rng.choice(SIZES.get(codec.name, (codec.payload_bytes,)))), int(rng.integers(1, 4))
    codec = replace(codec, payload_bytes=size * times, packet_ms=codec.packet_ms * times)
    network = Network(
        delay_ms=rng.uniform(0, 200),
        jitter_ms=float(rng.choice([0, rng.uniform(0, 5), rng.uniform(5, 30)])),
        in_order=bool(rng.integers(2)),
        loss=float(rng.choice([0, rng.uniform(0, 0.03), rng.uniform(0.03, 0.2)])),
        burst=rng.uniform(1.05, 6),
        copies=float(rng.choice([0, rng.uniform(0, 0.1)])),
    )
    talk = TALKS[rng.integers(len(TALKS))]
    title = talk.__name__.replace("_", " ")
    skew_ppm = float(rng.choice([0, rng.uniform(-500, 500)]))
    return codec, Situation(title, talk, network, skew_ppm), rng.uniform(15, 90) * times


def compared(seconds: float, seed: int, draws: int) -> Iterator[tuple[Codec, Situation, Errors]]:
    """Every codec in every situation, or so many draws."""
    cases = [(codec, situation, seconds) for situation in SITUATIONS for codec in CODECS]
    if draws:
        cases = [drawn(np.random.default_rng([seed, draw])) for draw in range(draws)]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "call.pcap"
        for case, (codec, situation, lasts_s) in enumerate(cases):
            truths = write(path, codec, situation, lasts_s, seed + (case if draws else 0))
            yield codec, situation, errors(capture_quality(path), truths)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--seconds", type=float, default=40.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--draws", type=int, default=0)
    given = options.parse_args()
    worst: dict[str, list[Errors]] = {}
    by_codec: dict[str, dict[str, float]] = {}
    for case, (codec, situation, found) in enumerate(compared(given.seconds, given.seed, given.draws)):
        worst.setdefault(situation.title, []).append(found)
        cells = by_codec.setdefault(situation.title, {})
        cells[codec.name] = max(cells.get(codec.name, 0.0), found.share)
        if not found.are_small:
            print(f"case {case}: {codec}, {situation}: {found}")
    print(f"{'situation':32}{'cases':>6}{'loss, points':>14}{'jitter, ms':>12}{'MOS':>8}{'off':>5}")
    for title, each in worst.items():
        loss, jitter, mos = (
            max(getattr(one, name) for one in each) for name in ("loss_points", "jitter_ms", "mos")
        )
        off = sum(not one.are_small for one in each)
        print(f"{title:32}{len(each):6}{loss:14.3f}{jitter:12.3f}{mos:8.3f}{off:5}")
    names = list(dict.fromkeys(codec.name for codec in CODECS))
    print("\nWorst error over what it may be, by codec:")
    print(f"{'situation':32}" + "".join(f"{name:>9.8}" for name in names))
    for title, cells in by_codec.items():
        shares = (f"{cells[name]:9.2f}" if name in cells else f"{'-':>9}" for name in names)
        print(f"{title:32}{''.join(shares)}")
    return any(not one.are_small for each in worst.values() for one in each)


if __name__ == "__main__":
    raise SystemExit(main())
