"""Quality of the voice streams in a capture file that was not made here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab import _engine
from weirlab.errors import InputError
from weirlab.quality.captures import LONGEST_STREAM, CaptureTable, VoicePackets, capture_table
from weirlab.quality.distribution import DISSATISFIED, SATISFIED, Spread
from weirlab.quality.jitterbuffer import USUAL, BufferChoice, Buffers

F64 = npt.NDArray[np.float64]

_MOST_PLACES: Final = 1 << 27
"""Packets that all streams may span, lost ones included: some 10 GB of arrays."""

_COLUMNS: Final = (
    "sent", "received", "duplicated", "reordered", "jitter_ns", "jitter_max_ns", "longest_gap_ns",
    "delay_mean_ns", "delay_p50_ns", "delay_p95_ns", "delay_p99_ns", "delay_max_ns",
)  # fmt: skip


@dataclass(frozen=True)
class Encoding:
    """What a payload type stands for, as in ``a=rtpmap`` of SDP."""

    name: str
    clock_hz: int


@dataclass(frozen=True)
class VoiceStream:
    """One stream as the capture has it."""

    number: int
    """In the order of first packets, from 1."""
    protocol: str
    src: str
    src_port: int
    dst: str
    dst_port: int
    ssrc: int
    """Source call number, in IAX2."""
    vlan: str
    interface: str
    part: int
    """How often the source had started anew before."""
    media: str
    codec: str
    """Encoding name; empty where not known."""
    known_by: str
    clock_hz: int
    payload_type: int
    payload_types: tuple[tuple[int, int, str], ...]
    strays: int
    first_ns: int
    last_ns: int

    @property
    def estimated(self) -> bool:
        """Are there no sequence numbers, so that loss is told by gaps in the time stamps?"""
        return self.protocol == "iax2"

    @property
    def title(self) -> str:
        """``192.0.2.1:4000 > 192.0.2.2:4002``."""
        return f"{_end(self.src, self.src_port)} > {_end(self.dst, self.dst_port)}"

    def is_meant(self, text: str) -> bool:
        """Does ``text`` (number, SSRC, address, address with port) name this stream?"""
        plain = text.strip().lower()
        if plain.startswith("0x"):
            return len(plain) > 2 and plain[2:].lstrip("0") == f"{self.ssrc:x}".lstrip("0")
        ends = ((self.src, self.src_port), (self.dst, self.dst_port))
        same = _address(plain)
        return plain == str(self.number) or any(
            same == address or plain == _end(address, port) for address, port in ends
        )


@dataclass(frozen=True)
class QualityOutcome:
    """Every stream of a capture and what was heard of it."""

    path: Path
    capture: Mapping[str, Any]
    """What was read and what was passed over; see ``weirlab._engine.rtp_packets``."""
    streams: tuple[VoiceStream, ...]
    found: int
    """Streams in the capture, those left aside included."""
    table: CaptureTable
    heard: BufferChoice
    buffers: Buffers

    @property
    def mos(self) -> F64:
        """Behind the jitter buffer asked for; NaN where it cannot be told."""
        one = {"fixed": self.table.fixed.mos, "adaptive": self.table.adaptive.mos}
        return one.get(self.heard, self.table.mos)

    @property
    def r_factor(self) -> F64:
        """Behind the same."""
        one = {"fixed": self.table.fixed.r, "adaptive": self.table.adaptive.r}
        return one.get(self.heard, self.table.r_factor)

    @property
    def loss_ratio(self) -> F64:
        """Of each stream, between its first and its last packet in the capture."""
        return np.asarray(self.table.streams.losses.count / self.table.streams.sent)

    def worst_first(self) -> list[int]:
        """Rows by MOS, then by loss; those without MOS among those that lost as much."""
        return [int(i) for i in np.lexsort((-self.loss_ratio, np.nan_to_num(self.mos, nan=np.inf)))]

    def notes(self) -> list[str]:
        """What a reader has to know, a sentence each."""
        return [*_about_capture(self.capture), *_about_streams(self)]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        mos = self.mos[~np.isnan(self.mos)]
        return {
            "kind": "capture quality",
            "path": self.path,
            "capture": self.capture,
            "streams_found": self.found,
            "network_delay_ms": self.table.network_ms,
            "jitter_buffer": {"heard": self.heard, **asdict(self.buffers)},
            "notes": self.notes(),
            "summary": {
                "streams": len(self.streams),
                "without_mos": int(np.isnan(self.mos).sum()),
                "mos": asdict(Spread.of(self.mos)),
                "below_satisfied": float(np.mean(mos < SATISFIED)) if mos.size else None,
                "below_dissatisfied": float(np.mean(mos < DISSATISFIED)) if mos.size else None,
                "loss_ratio": asdict(Spread.of(self.loss_ratio)),
                "jitter_ns": asdict(Spread.of(self.table.streams.jitter_ns)),
            },
            "streams": [self._row(i) for i in range(len(self.streams))],
        }

    def _row(self, i: int) -> dict[str, Any]:
        measured, kind = self.table.streams, self.table.kinds[i]
        return {
            **asdict(self.streams[i]),
            "packet_ns": self.table.packet_ns[i],
            **{name: getattr(measured, name)[i] for name in _COLUMNS},
            "lost": measured.losses.count[i],
            "loss_ratio": self.loss_ratio[i],
            "loss_estimated": self.streams[i].estimated,
            "loss_runs": measured.losses.runs[i],
            "longest_run": measured.losses.longest[i],
            "burst_ratio": measured.losses.burst_ratio[i],
            **{
                f"{name}_{buffer}": getattr(getattr(self.table, buffer), column)[i]
                for buffer in ("fixed", "adaptive")
                for name, column in (("late", "late"), ("playout", "play_ns"), ("r", "r"), ("mos", "mos"))
            },
            "r_factor": self.r_factor[i],
            "mos": self.mos[i],
            "band": kind.band,
            "impairment": {"ie": kind.ie, "bpl": kind.bpl, "source": kind.source, "note": kind.note},
        }


def capture_quality(
    path: Path,
    *,
    codecs: Mapping[int | None, Encoding] | None = None,
    network_ms: float | None = None,
    buffers: Buffers = USUAL,
    heard: BufferChoice = "best",
    only: Sequence[str] = (),
    decode_as: Sequence[tuple[int, int]] = (),
) -> QualityOutcome:
    """Assess every voice stream in the capture ``path``.

    ``codecs`` says what payload types stand for; ``None`` is for those of which the capture does not
    tell. ``network_ms`` is the one-way delay of the network, if it is known. ``only`` names streams
    (see :meth:`VoiceStream.is_meant`), ``decode_as`` ranges of ports that are RTP for sure.

    Raises
    ------
    InputError
        The file cannot be read, or has no such stream.
    """
    if network_ms is not None and not 0 <= network_ms < 1e5:
        raise InputError(f"a network delay of {network_ms:g} ms: expected are 0 to 100,000 ms")
    read = _engine.rtp_packets(str(path), list(decode_as))
    streams = _streams(read["streams"], read["packets"], codecs or {})
    if not streams:
        raise InputError(_nothing_in(path, read["capture"]))
    chosen = [stream for stream in streams if not only or any(stream.is_meant(text) for text in only)]
    for text in only:
        if not any(stream.is_meant(text) for stream in streams):
            raise InputError(
                f"{path} has no stream '{text}': it has streams 1 to {len(streams)}; a stream is named by "
                "its number, its SSRC (0x1234abcd), an address, or address:port"
            )
    packets = _packets(read["packets"], read["streams"], [stream.number - 1 for stream in chosen])
    table = capture_table(
        packets,
        [stream.codec for stream in chosen],
        np.array([stream.clock_hz for stream in chosen], dtype=np.int64),
        buffers,
        network_ms,
    )
    return QualityOutcome(path, read["capture"], tuple(chosen), len(streams), table, heard, buffers)


def _streams(
    columns: Mapping[str, Any], packets: Mapping[str, Any], codecs: Mapping[int | None, Encoding]
) -> list[VoiceStream]:
    found = []
    for i, (first, count) in enumerate(zip(columns["first"], columns["packets"], strict=True)):
        times = packets["arrival_ns"][int(first) : int(first) + int(count)]
        payload_type = int(columns["payload_type"][i])
        codec, known_by, clock = columns["codec"][i], columns["known_by"][i], int(columns["clock_hz"][i])
        iax2 = columns["protocol"][i] == "iax2"
        told = None if iax2 else codecs.get(payload_type)
        if told is None and not codec:
            told = codecs.get(None)
        if told is not None:
            # IAX2 counts milliseconds whatever the codec.
            clock = clock if iax2 else told.clock_hz
            codec, known_by = told.name, "option"
        found.append(
            VoiceStream(
                number=i + 1,
                codec=codec,
                known_by=known_by,
                clock_hz=clock,
                payload_types=tuple(columns["payload_types"][i]),
                first_ns=int(times.min()),
                last_ns=int(times.max()),
                payload_type=payload_type,
                protocol=columns["protocol"][i],
                src=columns["src"][i],
                src_port=int(columns["src_port"][i]),
                dst=columns["dst"][i],
                dst_port=int(columns["dst_port"][i]),
                ssrc=int(columns["ssrc"][i]),
                vlan=columns["vlan"][i],
                interface=columns["interface"][i],
                part=int(columns["part"][i]),
                media=columns["media"][i],
                strays=int(columns["strays"][i]),
            )
        )
    return found


def _packets(packets: Mapping[str, Any], columns: Mapping[str, Any], chosen: Sequence[int]) -> VoicePackets:
    """The packets of the chosen streams, these numbered from 0."""
    firsts, counts = columns["first"].astype(np.int64), columns["packets"].astype(np.int64)
    rows = np.concatenate([np.arange(firsts[i], firsts[i] + counts[i]) for i in chosen])
    seq = packets["seq"]
    spans = [int(np.ptp(seq[firsts[i] : firsts[i] + counts[i]])) + 1 for i in chosen]
    for i, span in zip(chosen, spans, strict=True):
        if span > LONGEST_STREAM:
            raise InputError(
                f"stream {i + 1} spans {span:,} sequence numbers, of which {int(counts[i]):,} are in the "
                f"capture; at most {LONGEST_STREAM:,} can be assessed: name the others with --stream, or cut "
                "the capture with editcap"
            )
    if (places := sum(spans)) > _MOST_PLACES:
        raise InputError(
            f"the sequence numbers of these streams span {places:,} packets, of which {len(rows):,} are in "
            f"the capture; at most {_MOST_PLACES:,} can be assessed: name fewer streams"
        )
    return VoicePackets(
        stream=np.repeat(np.arange(len(chosen), dtype=np.uint32), counts[list(chosen)]),
        **{
            name: packets[name][rows]
            for name in ("arrival_ns", "seq", "timestamp", "speech", "payload_bytes")
        },
    )


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return None


def _nothing_in(path: Path, capture: Mapping[str, Any]) -> str:
    names = {
        "other_udp": "other UDP", "not_udp": "not UDP", "not_ip": "not IP", "fragments": "fragments",
        "rtcp": "RTCP", "sip": "SIP", "iax2": "IAX2 signalling", "malformed": "malformed",
        "unknown_link": "of a link type that Weir does not know",
    }  # fmt: skip
    seen = [f"{capture[name]:,} {what}" for name, what in names.items() if capture[name]]
    if capture["unknown_link"]:
        seen[-1] += f" ({', '.join(map(str, capture['unknown_links']))})"
    many = f"{capture['packets']:,} packets" + (f": {', '.join(seen)}" if seen else "")
    return (
        f"no voice stream in {path} ({many}); a stream takes five RTP packets that go on, two if SIP "
        "announced it, or name its ports with --decode-as"
    )


def _about_capture(capture: Mapping[str, Any]) -> Iterable[str]:
    if capture["cut_short"]:
        yield "The file ends inside a packet: the capture was stopped hard, or is still being written."
    told = {
        "fragments": "fragments of datagrams were passed over: a SIP message may be missing",
        "malformed": "packets had headers that contradict themselves, or were cut inside them",
        "timeless": "packets had no time and were passed over",
        "unknown_link": "packets were of a link type that Weir does not know",
    }
    for name, what in told.items():
        if capture[name]:
            yield f"{capture[name]:,} {what}."


def _about_streams(outcome: QualityOutcome) -> Iterable[str]:
    yield f"{outcome.table.assumption[0].upper()}{outcome.table.assumption[1:]}."
    if any(stream.estimated for stream in outcome.streams):
        yield (
            "IAX2 has no sequence numbers: loss is estimated from gaps in the time stamps, and speech that "
            "was not sent in silence counts as lost."
        )
    duplicated = outcome.table.streams.duplicated >= 0.3 * outcome.table.streams.received
    if duplicated.any():
        yield (
            f"{int(duplicated.sum())} of the streams came with copies of many packets: the capture sees them "
            "at two places; keep one with a capture filter, as duplicates are not the network's."
        )
    if strays := sum(stream.strays for stream in outcome.streams):
        yield f"{strays:,} packets belong to no place in their stream's sequence and were left out."
    reasons: dict[str, list[str]] = {}
    for i, stream in enumerate(outcome.streams):
        if np.isnan(outcome.mos[i]):
            note = (
                outcome.table.kinds[i].note if stream.clock_hz else "the rate of its time stamps is not known"
            )
            reasons.setdefault(note or "too little arrived", []).append(str(stream.number))
    for why, numbers in reasons.items():
        listed = ", ".join(numbers[:8]) + (", ..." if len(numbers) > 8 else "")
        yield f"No MOS for stream{'s' * (len(numbers) > 1)} {listed}: {why}."
