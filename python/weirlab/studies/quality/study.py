"""Quality of the voice streams in a capture file from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
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
from weirlab.quality.streams import Streams
from weirlab.quoting import quoted
from weirlab.trace import passed
from weirlab.trace.quantities import NOTHING, plural

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
    """How often the source had restarted before."""
    media: str
    codec: str
    """Encoding name; empty if unknown."""
    known_by: str
    clock_hz: int
    payload_type: int
    payload_types: tuple[tuple[int, int, str], ...]
    strays: int
    first_ns: int
    last_ns: int
    loss_estimated: bool
    """Whether loss is estimated from gaps in the time stamps, for lack of sequence numbers."""
    loss_known: bool
    """False if there are neither sequence numbers nor time stamps of the speech."""

    @property
    def title(self) -> str:
        """``192.0.2.1:4000 > 192.0.2.2:4002``."""
        return f"{_end(self.src, self.src_port)} > {_end(self.dst, self.dst_port)}"

    @property
    def full_title(self) -> str:
        """The title with what distinguishes it from other streams between these ends."""
        vlan = f" VLAN {self.vlan}" if self.vlan else ""
        interface = f" if {self.interface}" if self.interface != "0" else ""
        part = f", part {self.part + 1}" if self.part else ""
        return f"{self.title}{vlan}{interface}{part}"

    @property
    def source(self) -> str:
        """``0x1234abcd``, ``call 7``."""
        return f"call {self.ssrc}" if self.protocol == "iax2" else f"0x{self.ssrc:08x}"

    @property
    def codec_title(self) -> str:
        """The codec, or else the payload type."""
        return self.codec or (f"type {self.payload_type}" if self.protocol == "rtp" else NOTHING)

    def is_meant(self, text: str) -> bool:
        """Whether ``text`` (number, SSRC, address, address with port) names this stream."""
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
    """Every stream of a capture and how it was heard."""

    path: Path
    capture: Mapping[str, Any]
    """What was read and what was passed over; see ``weirlab._engine.rtp_packets``."""
    streams: tuple[VoiceStream, ...]
    found: int
    """Streams in the capture, including those that were not chosen."""
    table: CaptureTable
    heard: BufferChoice
    buffers: Buffers

    @property
    def mos(self) -> F64:
        """MOS of each stream behind the requested jitter buffer; NaN if unknown."""
        one = {"fixed": self.table.fixed.mos, "adaptive": self.table.adaptive.mos}
        return one.get(self.heard, self.table.mos)

    @property
    def r_factor(self) -> F64:
        """R factor of each stream behind the same jitter buffer."""
        one = {"fixed": self.table.fixed.r, "adaptive": self.table.adaptive.r}
        return one.get(self.heard, self.table.r_factor)

    @property
    def loss_ratio(self) -> F64:
        """Loss of each stream, from its first to its last packet in the capture; NaN if unknown."""
        ratio = self.table.streams.losses.count / self.table.streams.sent
        return np.where([stream.loss_known for stream in self.streams], ratio, np.nan)

    @property
    def late(self) -> list[int | None]:
        """Packets that came too late for the same buffer; None if unknown."""
        fixed, adaptive = self.table.fixed, self.table.adaptive
        better = {"fixed": False, "adaptive": True}.get(self.heard, adaptive.mos > fixed.mos)
        late = np.where(better, adaptive.late, fixed.late)
        known = np.isfinite(self.table.streams.delay_max_ns)
        return [int(many) if told else None for many, told in zip(late, known, strict=True)]

    def worst_first(self) -> list[int]:
        """Rows by MOS, then by loss; those without MOS among those that lost as much."""
        return [
            int(i) for i in np.lexsort((-np.nan_to_num(self.loss_ratio), np.nan_to_num(self.mos, nan=np.inf)))
        ]

    def notes(self) -> list[str]:
        """What a reader has to know, a sentence each."""
        return [*self.notes_on_capture(), *self.notes_on_streams()]

    def notes_on_capture(self) -> list[str]:
        """What was read and what was passed over."""
        return list(_about_capture(self.capture))

    def notes_on_streams(self) -> list[str]:
        """Notes on the streams; the first says what MOS assumes."""
        return list(_about_streams(self))

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
            "lost": measured.losses.count[i] if self.streams[i].loss_known else None,
            "loss_ratio": self.loss_ratio[i],
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

    ``codecs`` gives the encodings of payload types; ``None`` is for those that the capture does not
    describe. ``network_ms`` is the one-way delay of the network, if it is known. ``only`` names streams
    (see :meth:`VoiceStream.is_meant`), ``decode_as`` ranges of ports that are known to be RTP.

    Raises
    ------
    InputError
        The file cannot be read, or has no such stream.
    """
    if network_ms is not None and not 0 <= network_ms < 1e5:
        raise InputError(f"a network delay of {network_ms:g} ms: expected are 0 to 100,000 ms")
    told = [(number, each.name, each.clock_hz) for number, each in (codecs or {}).items()]
    read = _engine.rtp_packets(str(path), list(decode_as), told)
    streams = [_stream(number, found) for number, found in enumerate(read["streams"], 1)]
    if not streams:
        raise InputError(_nothing_in(path, read["capture"]))
    chosen = [stream for stream in streams if not only or any(stream.is_meant(text) for text in only)]
    for text in only:
        if not any(stream.is_meant(text) for stream in streams):
            raise InputError(
                f"{path} has no stream {quoted(text)}: it has streams 1 to {len(streams)}; a stream is "
                "named by its number, its SSRC (0x1234abcd), an address, or address:port"
            )
    counted = [read["streams"][stream.number - 1] for stream in chosen]
    table = capture_table(
        _packets(
            read["packets"], [(stream.number, each) for stream, each in zip(chosen, counted, strict=True)]
        ),
        [stream.codec for stream in chosen],
        np.array([stream.clock_hz for stream in chosen], dtype=np.int64),
        buffers,
        network_ms,
    )
    table = replace(table, streams=_as_counted(table.streams, counted))
    return QualityOutcome(path, read["capture"], tuple(chosen), len(streams), table, heard, buffers)


def _stream(number: int, found: Mapping[str, Any]) -> VoiceStream:
    known = {field.name: found[field.name] for field in fields(VoiceStream) if field.name in found}
    types = tuple(tuple(one) for one in found["payload_types"])
    return VoiceStream(
        **known | {"number": number, "payload_types": types, "loss_known": found["lost"] is not None}
    )


def _as_counted(streams: Streams, counted: Sequence[Mapping[str, Any]]) -> Streams:
    """``streams`` with the counts of the engine, so that they are the same as in ``weir trace``."""

    def whole(name: str) -> npt.NDArray[np.int64]:
        return np.array([each[name] or 0 for each in counted], dtype=np.int64)

    def known(name: str) -> F64:
        return np.array([each[name] for each in counted], dtype=np.float64)

    losses = replace(
        streams.losses, count=whole("lost"), runs=whole("loss_runs"), longest=whole("longest_run")
    )
    return replace(
        streams,
        sent=whole("expected"),
        received=whole("packets") - whole("copies"),
        duplicated=whole("copies"),
        reordered=whole("reordered"),
        losses=losses,
        jitter_ns=known("jitter_mean_ns"),
        jitter_max_ns=known("jitter_max_ns"),
        longest_gap_ns=known("gap_max_ns"),
    )


def _packets(packets: Mapping[str, Any], chosen: Sequence[tuple[int, Mapping[str, Any]]]) -> VoicePackets:
    """The packets of the chosen streams, these numbered from 0."""
    counts = np.array([found["packets"] for _, found in chosen])
    rows = np.concatenate(
        [np.arange(found["first"], found["first"] + found["packets"]) for _, found in chosen]
    )
    for number, found in chosen:
        if (span := found["expected"]) > LONGEST_STREAM:
            raise InputError(
                f"stream {number} spans {span:,} sequence numbers, of which {found['packets']:,} are in the "
                f"capture; at most {LONGEST_STREAM:,} can be assessed: name the others with --stream, or cut "
                "the capture with editcap"
            )
    if (places := sum(found["expected"] for _, found in chosen)) > _MOST_PLACES:
        raise InputError(
            f"the sequence numbers of these streams span {places:,} packets, of which {len(rows):,} are in "
            f"the capture; at most {_MOST_PLACES:,} can be assessed: name fewer streams"
        )
    return VoicePackets(
        stream=np.repeat(np.arange(len(chosen), dtype=np.uint32), counts),
        **{
            name: packets[name][rows]
            for name in ("arrival_ns", "seq", "timestamp", "speech", "payload_bytes", "stretch")
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
    many = plural(capture["packets"], "packet") + (f": {', '.join(seen)}" if seen else "")
    hidden = "".join(f"; {text[0].lower()}{text[1:-1]}" for text in passed.opaque(capture["opaque"]))
    return (
        f"no voice stream in {path} ({many}){hidden}; a stream takes five RTP packets in order, two if SIP "
        "announced it, or name its ports with --decode-as"
    )


def _about_capture(capture: Mapping[str, Any]) -> Iterable[str]:
    if capture["cut_short"]:
        yield "The file ends inside a packet: the capture was killed, or is still being written."
    if capture["fragments"]:
        many = plural(capture["fragments"], "fragment")
        yield f"{many} of datagrams {_be(capture['fragments'])} passed over: a SIP message may be missing."
    if unread := passed.unread(capture):
        yield unread
    yield from passed.opaque(capture["opaque"])


def _be(number: int) -> str:
    return "was" if number == 1 else "were"


def _about_streams(outcome: QualityOutcome) -> Iterable[str]:
    yield f"{outcome.table.assumption[0].upper()}{outcome.table.assumption[1:]}."
    if any(stream.loss_estimated for stream in outcome.streams):
        yield (
            "IAX2 has no sequence numbers: loss is estimated from gaps in the time stamps, and speech that "
            "was suppressed as silence counts as lost."
        )
    duplicated = outcome.table.streams.duplicated >= 0.3 * outcome.table.streams.received
    if duplicated.any():
        yield (
            f"{plural(int(duplicated.sum()), 'stream')} came with copies of many packets: the capture saw "
            "them in two places; keep one with a capture filter, as the network did not duplicate them."
        )
    if strays := sum(stream.strays for stream in outcome.streams):
        belong = "belongs" if strays == 1 else "belong"
        yield (
            f"{plural(strays, 'packet')} {belong} nowhere in the sequence of a stream and "
            f"{_be(strays)} left out."
        )
    reasons: dict[str, list[str]] = {}
    for i, stream in enumerate(outcome.streams):
        if np.isnan(outcome.mos[i]):
            note = outcome.table.kinds[i].note
            if not stream.loss_known:
                note = "over IAX2 only time stamps show loss and delay, and these do not follow the speech"
            elif not stream.clock_hz:
                note = "the rate of its time stamps is not known"
            reasons.setdefault(note or "too little arrived", []).append(str(stream.number))
    for why, numbers in reasons.items():
        listed = ", ".join(numbers[:8]) + (", ..." if len(numbers) > 8 else "")
        yield f"No MOS for stream{'s' * (len(numbers) > 1)} {listed}: {why}."
