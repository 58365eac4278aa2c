"""Quality of the voice streams in a capture file from elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab import _engine
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.calls.quality import findings
from weirlab.calls.quality.finding import Kind, StreamFinding
from weirlab.calls.quality.findings import HeardStreams
from weirlab.calls.quality.notes import about_capture, nothing_in, sentence, without_mos
from weirlab.calls.quality.receivers import far_end
from weirlab.calls.quality.streams import CaptureStream, voice_stream
from weirlab.quality.captures import LONGEST_STREAM, CaptureTable, VoicePackets, capture_table
from weirlab.quality.causes import causes
from weirlab.quality.distribution import DISSATISFIED, SATISFIED, CallerPercentiles
from weirlab.quality.jitterbuffer import USUAL, BufferChoice, Buffers
from weirlab.quality.streams import Streams

F64 = npt.NDArray[np.float64]

_MOST_PLACES: Final = 1 << 27
"""Packets that all streams may span, lost ones included: some 10 GB of arrays."""

_COLUMNS: Final = (
    "sent", "received", "duplicated", "reordered", "jitter_ns", "jitter_max_ns", "longest_gap_ns",
    "delay_mean_ns", "delay_p50_ns", "delay_p95_ns", "delay_p99_ns", "delay_max_ns",
)  # fmt: skip


class NoStreams(InputError):
    """The ``capture`` was read (as :attr:`QualityOutcome.capture`), and no voice stream is in it."""

    def __init__(self, path: Path, capture: Mapping[str, Any]) -> None:
        super().__init__(nothing_in(path, capture))
        self.capture = capture


@dataclass(frozen=True)
class Encoding:
    """What a payload type stands for, as in ``a=rtpmap`` of SDP."""

    name: str
    clock_hz: int


@dataclass(frozen=True)
class QualityOutcome:
    """Every stream of a capture and how it was heard."""

    path: Path
    capture: Mapping[str, Any]
    """What was read and what was passed over; see ``weirlab._engine.rtp_packets``."""
    streams: tuple[CaptureStream, ...]
    found: int
    """Streams in the capture, including those that were not chosen."""
    calls: tuple[Mapping[str, Any], ...]
    """Calls by SIP between two hosts; see ``weirlab._engine.rtp_packets``."""
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
        known = np.isfinite(self.table.streams.delay_max_ns)
        return [int(many) if told else None for many, told in zip(self._played("late"), known, strict=True)]

    def _played(self, name: str) -> npt.NDArray[Any]:
        """A column of the buffer behind which each stream is heard."""
        fixed, adaptive = self.table.fixed, self.table.adaptive
        # Without a MOS, the better buffer is the one that plays more.
        best = np.where(np.isfinite(fixed.mos), adaptive.mos > fixed.mos, adaptive.late < fixed.late)
        better = {"fixed": False, "adaptive": True}.get(self.heard, best)
        return np.asarray(np.where(better, getattr(adaptive, name), getattr(fixed, name)))

    @cached_property
    def causes(self) -> list[tuple[str, ...]]:
        """Why each stream is below :data:`SATISFIED`, by what costs most; empty for the others.

        Where each is heard behind the better buffer, both count alike: the cause is not a matter of which one
        happens to be better.
        """
        fixed, adaptive = self.table.fixed.r, self.table.adaptive.r
        buffers = {
            "fixed": (fixed, self.buffers.fixed_ms),
            "adaptive": (adaptive, self.buffers.least_ms),
            "best": ((fixed + adaptive) / 2, (self.buffers.fixed_ms + self.buffers.least_ms) / 2),
        }
        found = causes(self.table, *buffers[self.heard])
        return [why if mos < SATISFIED else () for why, mos in zip(found, self.mos, strict=True)]

    def worst_first(self) -> list[int]:
        """Rows by MOS, then by loss; those without MOS among those that lost as much."""
        return [
            int(i) for i in np.lexsort((-np.nan_to_num(self.loss_ratio), np.nan_to_num(self.mos, nan=np.inf)))
        ]

    @cached_property
    def findings(self) -> tuple[StreamFinding, ...]:
        """What is wrong, or could be mistaken."""
        hole_ns = self._played("longest") * self.table.packet_ns.astype(np.float64)
        whole = [stream.is_voice and stream.loss_known and stream.clock_hz > 0 for stream in self.streams]
        heard = HeardStreams(
            self.worst_first(),
            self.causes,
            np.where(whole, hole_ns, np.nan),
            self._played("play_ns").astype(np.float64),
            self.late,
        )
        return tuple(findings.of(self.streams, self.table, self.calls, self.capture, heard))

    def notes(self) -> list[str]:
        """What a reader has to know, a sentence each."""
        return [*self.notes_on_capture(), *self.notes_on_streams()]

    def notes_on_capture(self) -> list[str]:
        """What was read and what was passed over."""
        return list(about_capture(self.capture))

    def notes_on_streams(self, without: Collection[Kind] = ()) -> list[str]:
        """Notes on the streams, ``without`` findings of some kinds; the first says what MOS assumes."""
        return [
            sentence(self.table.assumption),
            *(finding.text for finding in self.findings if finding.kind not in without),
            *without_mos(self.streams, self.table, self.mos),
        ]

    def document(self) -> dict[str, Any]:
        mos = self.mos[~np.isnan(self.mos)]
        return {
            "kind": "capture quality",
            "path": self.path,
            "capture": self.capture,
            "streams_found": self.found,
            "network_delay_ms": self.table.network_ms,
            "jitter_buffer": {"heard": self.heard, **asdict(self.buffers)},
            "notes": self.notes(),
            "findings": [asdict(finding) for finding in self.findings],
            "calls": self.calls,
            "summary": {
                "streams": len(self.streams),
                "without_mos": int(np.isnan(self.mos).sum()),
                "mos": asdict(CallerPercentiles.of(self.mos)),
                "below_satisfied": float(np.mean(mos < SATISFIED)) if mos.size else None,
                "below_dissatisfied": float(np.mean(mos < DISSATISFIED)) if mos.size else None,
                "loss_ratio": asdict(CallerPercentiles.of(self.loss_ratio)),
                "jitter_ns": asdict(CallerPercentiles.of(self.table.streams.jitter_ns)),
            },
            "streams": [self._row(i) for i in range(len(self.streams))],
        }

    def _row(self, i: int) -> dict[str, Any]:
        measured, kind = self.table.streams, self.table.kinds[i]
        row = {
            **asdict(self.streams[i]),
            "packet_ns": self.table.packet_ns[i],
            "network_ms": self.table.network_ns[i] / 1e6,
            "lost_beyond_ratio": self.table.beyond[i] if self.table.reported[i] else None,
            "skew_ppm": self.table.skew[i] * 1e6,
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
            "slips_fixed": self.table.fixed.slips[i],
            "r_factor": self.r_factor[i],
            "mos": self.mos[i],
            "causes": self.causes[i],
            "band": kind.band,
            "impairment": {"ie": kind.ie, "bpl": kind.bpl, "source": kind.source, "note": kind.note},
        }
        unknown = () if self.streams[i].loss_known else ("loss_runs", "longest_run", "burst_ratio")
        late = () if np.isfinite(measured.delay_max_ns[i]) else ("late_fixed", "late_adaptive", "slips_fixed")
        return row | dict.fromkeys((*unknown, *late))


@dataclass(frozen=True)
class CaptureReading:
    """How a capture is understood, and which of its streams."""

    codecs: Mapping[int | None, Encoding] = field(default_factory=dict)
    """Encodings of payload types; of None: those that the capture does not describe."""
    network_ms: float | None = None
    """One-way delay of the network, if it is known."""
    buffers: Buffers = USUAL
    heard: BufferChoice = "best"
    only: Sequence[str] = ()
    """Streams; see :meth:`CaptureStream.is_meant`. Empty: all."""
    decode_as: Sequence[tuple[int, int]] = ()
    """Ranges of ports that are known to be RTP."""


USUAL_READING: Final = CaptureReading()


@dataclass(frozen=True)
class QualityShare:
    """All streams of a capture, and how those of a share were heard."""

    capture: Mapping[str, Any]
    streams: tuple[CaptureStream, ...]
    """Those that were chosen."""
    found: int
    calls: tuple[Mapping[str, Any], ...]
    rows: tuple[int, ...]
    """Which of ``streams`` are of the share."""
    table: CaptureTable | None
    """A row for each of these; None without any."""


def capture_quality(path: Path, reading: CaptureReading = USUAL_READING) -> QualityOutcome:
    """Assess every voice stream in the capture ``path``.

    Raises
    ------
    NoStreams
        The capture has no voice stream.
    InputError
        The file cannot be read, or has no such stream.
    """
    return merge(path, reading, [quality_share(path, reading, (0, 1))])


def merge(path: Path, reading: CaptureReading, shares: Sequence[QualityShare]) -> QualityOutcome:
    """The answer of :func:`capture_quality` from those of all shares."""
    first = shares[0]
    if not first.found:
        raise NoStreams(path, first.capture)
    if any((one.capture, len(one.streams)) != (first.capture, len(first.streams)) for one in shares):
        raise InputError(f"{path}: workers read different captures there, or one that is still growing")
    tables = [one.table for one in shares if one.table is not None]
    order = np.argsort(np.concatenate([one.rows for one in shares]))
    table = tables[0] if len(tables) == 1 else _joined(tables, order)
    # Of the streams of other shares a share does not know all codecs.
    known = {row: one.streams[row] for one in shares for row in one.rows}
    streams, buffers = tuple(known[row] for row in range(len(known))), reading.buffers
    return QualityOutcome(
        path, first.capture, streams, first.found, first.calls, table, reading.heard, buffers
    )


def _joined(tables: Sequence[Any], order: npt.NDArray[np.integer]) -> Any:
    """Tables, or columns of them, one below the other and then in this ``order``."""
    first = tables[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(tables)[order]
    if isinstance(first, tuple):
        rows = [row for table in tables for row in table]
        return tuple(rows[place] for place in order)
    if is_dataclass(first) and not isinstance(first, type):
        names = [one.name for one in fields(first)]
        columns = {name: _joined([getattr(table, name) for table in tables], order) for name in names}
        return replace(first, **columns)
    return first


def quality_share(path: Path, reading: CaptureReading, share: tuple[int, int]) -> QualityShare:
    """Find every voice stream in the capture ``path``, and assess those of a ``share`` (number, of).

    Raises
    ------
    InputError
        The file cannot be read, or has no such stream.
    """
    network_ms, only = reading.network_ms, reading.only
    if network_ms is not None and not 0 <= network_ms < 1e5:
        raise InputError(f"a network delay of {network_ms:g} ms: expected are 0 to 100,000 ms")
    told = [(number, each.name, each.clock_hz) for number, each in reading.codecs.items()]
    read = _engine.rtp_packets(str(path), list(reading.decode_as), told, share)
    streams = [voice_stream(number, found) for number, found in enumerate(read["streams"], 1)]
    chosen = [stream for stream in streams if not only or any(stream.is_meant(text) for text in only)]
    for text in only if streams else ():
        if not any(stream.is_meant(text) for stream in streams):
            raise InputError(
                f"{path} has no stream {quoted(text)}: it has streams 1 to {len(streams)}; a stream is "
                "named by its number, its SSRC (0x1234abcd), an address, or address:port"
            )
    found = [read["streams"][stream.number - 1] for stream in chosen]
    rows = tuple(row for row, each in enumerate(found) if each["kept"])
    own, counted = [chosen[row] for row in rows], [found[row] for row in rows]
    table = _table(read["packets"], own, streams, counted, reading) if own else None
    return QualityShare(read["capture"], tuple(chosen), len(streams), tuple(read["calls"]), rows, table)


def _table(
    packets: Mapping[str, Any],
    chosen: Sequence[CaptureStream],
    streams: Sequence[CaptureStream],
    counted: Sequence[Mapping[str, Any]],
    reading: CaptureReading,
) -> CaptureTable:
    """A row for each of ``chosen``, of all ``streams``, as the engine ``counted`` them."""
    table = capture_table(
        voice_packets(packets, [(stream.number, each) for stream, each in zip(chosen, counted, strict=True)]),
        [stream.codec for stream in chosen],
        np.array([stream.clock_hz for stream in chosen], dtype=np.int64),
        reading.buffers,
        reading.network_ms,
        far_end(chosen, streams),
        np.array([stream.tag_bytes for stream in chosen], dtype=np.int64),
    )
    whole = np.array([not stream.missed for stream in chosen], dtype=np.bool_)
    return replace(table.heard_if(whole), streams=_as_counted(table.streams, counted))


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
        received=whole("packets") - whole("copies") - whole("repeats"),
        duplicated=whole("copies"),
        reordered=whole("reordered"),
        losses=losses,
        jitter_ns=known("jitter_mean_ns"),
        jitter_max_ns=known("jitter_max_ns"),
        longest_gap_ns=known("gap_max_ns"),
    )


def voice_packets(
    packets: Mapping[str, Any], chosen: Sequence[tuple[int, Mapping[str, Any]]]
) -> VoicePackets:
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
        lead=np.array([found["lead"] for _, found in chosen], dtype=np.int64),
    )
