"""What callers heard: the packets of a trial, through jitter buffers, into MOS per call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.quality import emodel, jitterbuffer, segments
from weirlab.quality.codecs import Band, Impairment, impairment
from weirlab.quality.jitterbuffer import USUAL, Buffers, PlayOut
from weirlab.quality.packets import PacketWindow, StreamPackets, unroll
from weirlab.quality.segments import I64
from weirlab.quality.streams import Streams, losses, measure
from weirlab.records import CallTable, FlowTable, PacketLog
from weirlab.traffic.calls.spec import Calls

__all__ = ["Buffers", "PacketWindow", "PlayoutQuality", "StreamCoding", "call_table", "hear", "opinion"]

F64 = npt.NDArray[np.float64]

_MS: Final = 1e6


@dataclass(frozen=True)
class PlayoutQuality:
    """One kind of jitter buffer, shapes (streams,)."""

    late: I64
    """Packets that arrived and were not played: too late, or where the buffer slipped."""
    slips: I64
    """How many packet times the buffer skipped or inserted."""
    longest: I64
    """Most packets in a row that were lost or not played."""
    play_ns: F64
    """Mean time from speaking to hearing; NaN if nothing was played."""
    r: F64
    mos: F64


def call_table(
    log: PacketLog,
    flows: FlowTable,
    calls: Calls,
    buffers: Buffers = USUAL,
    window: PacketWindow | None = None,
) -> CallTable:
    """One row per call and direction that sent media, in the window or in the whole recorded time.

    A trunk's packets carry the speech of several calls: each of them gets a row with what happened
    to the trunk.

    Raises
    ------
    TrialError
        The log is incomplete, or belongs to another flow table.
    """
    packets = unroll(log, flows)
    of = log.call_flows
    call_class = of.call_class[packets.flow]
    streams = measure(packets, window)
    known = [impairment(kind.stream.codec, buffers.concealment) for kind in calls.classes]
    coded = StreamCoding.of(known, call_class)
    fixed = hear(packets, window, streams, jitterbuffer.fixed(packets, buffers), coded)
    adaptive = hear(packets, window, streams, jitterbuffer.adaptive(packets, buffers), coded)
    better = np.where(np.isnan(fixed.mos) | (adaptive.mos > fixed.mos), adaptive.r, fixed.r)

    carried = of.calls_carried[packets.flow].astype(np.int64)
    # A stream that sent nothing in the window has no row.
    carried[streams.sent == 0] = 0
    row = np.repeat(np.arange(len(packets.flow)), carried)
    nth = np.arange(len(row)) - np.repeat(segments.starts(carried)[:-1], carried)
    call = of.call[packets.flow].astype(np.int64)[row] + nth

    def whole(values: I64) -> npt.NDArray[np.uint64]:
        return values[row].astype(np.uint64)

    return CallTable(
        call=call.astype(np.uint64),
        back=of.back[packets.flow][row],
        call_class=call_class[row],
        sent=whole(streams.sent),
        received=whole(streams.received),
        lost=whole(streams.losses.count),
        duplicated=whole(streams.duplicated),
        reordered=whole(streams.reordered),
        loss_runs=whole(streams.losses.runs),
        longest_run=whole(streams.losses.longest),
        burst_ratio=streams.losses.burst_ratio[row],
        delay_min_ns=streams.delay_min_ns[row],
        delay_mean_ns=streams.delay_mean_ns[row],
        delay_p50_ns=streams.delay_p50_ns[row],
        delay_p95_ns=streams.delay_p95_ns[row],
        delay_p99_ns=streams.delay_p99_ns[row],
        delay_max_ns=streams.delay_max_ns[row],
        jitter_ns=streams.jitter_ns[row],
        jitter_max_ns=streams.jitter_max_ns[row],
        longest_gap_ns=streams.longest_gap_ns[row],
        late_fixed=whole(fixed.late),
        playout_fixed_ns=fixed.play_ns[row],
        mos_fixed=fixed.mos[row],
        late_adaptive=whole(adaptive.late),
        playout_adaptive_ns=adaptive.play_ns[row],
        mos_adaptive=adaptive.mos[row],
        r_factor=better[row],
        mos=np.fmax(fixed.mos, adaptive.mos)[row],
    )


@dataclass(frozen=True)
class StreamCoding:
    """How each stream is coded, shapes (streams,)."""

    kinds: tuple[Impairment, ...]
    kind: I64
    """Index into ``kinds``."""

    @classmethod
    def of(cls, kinds: list[Impairment], kind: npt.NDArray[np.integer]) -> StreamCoding:
        return cls(tuple(kinds), kind.astype(np.int64))

    def each(self, value: Callable[[Impairment], float]) -> F64:
        """A number of the codec, per stream."""
        return np.array([value(kind) for kind in self.kinds], dtype=np.float64)[self.kind]

    def is_band(self, band: Band) -> npt.NDArray[np.bool_]:
        return np.array([kind.band == band for kind in self.kinds], dtype=np.bool_)[self.kind]


def hear(
    packets: StreamPackets,
    window: PacketWindow | None,
    streams: Streams,
    play: PlayOut,
    coded: StreamCoding,
    network_ns: F64 | float = 0.0,
    beyond: F64 | float = 0.0,
) -> PlayoutQuality:
    """Quality of the speech behind one jitter buffer.

    The delay from speaking to hearing is packet time, look-ahead of the codec, network and jitter
    buffer. ``network_ns`` is added if the packets do not show it (captures). Packet loss is the packets
    that the network lost and those that came late, in percent of those sent; its burst ratio is that of
    both together. ``beyond`` is the share that was lost afterwards, between the packets and the listener.
    """
    inside = packets.within(window)
    late = play.late & inside
    unheard = losses(packets.lost | late, inside, packets.start)
    played = inside & ~np.isnan(play.delay_ns)
    played_start = segments.starts(segments.total(played.astype(np.int64), packets.start))
    buffered = segments.mean(play.delay_ns[played], played_start)
    delay = packets.packet_ns + coded.each(lambda kind: kind.lookahead_ms) * _MS + network_ns + buffered
    with np.errstate(invalid="ignore"):
        ppl = 100 * (1 - (1 - unheard.count / streams.sent.astype(np.float64)) * (1 - beyond))
    r, mos = opinion(coded, delay / _MS, ppl, unheard.burst_ratio)
    slips = segments.total((play.slipped & inside).astype(np.int64), packets.start)
    return PlayoutQuality(
        segments.total(late.astype(np.int64), packets.start), slips, unheard.longest, delay, r, mos
    )


def opinion(coded: StreamCoding, delay_ms: F64, ppl: F64, burst_ratio: F64) -> tuple[F64, F64]:
    """R and MOS of each stream, each by the E-model of its codec's band.

    NaN if they cannot be known: nothing sent, or a codec without published values. If nothing at
    all was heard, MOS is 1 and R 0, whatever the codec.
    """
    # Without loss, an unknown Bpl does not matter.
    bpl = np.where(ppl > 0, coded.each(lambda kind: kind.bpl), 1.0)
    ie = coded.each(lambda kind: kind.ie)
    burst = np.where(np.isnan(burst_ratio), 1.0, burst_ratio)
    r, mos = np.full(len(ppl), np.nan), np.full(len(ppl), np.nan)

    narrow, wide, full = (coded.is_band(band) for band in ("narrowband", "wideband", "fullband"))
    ta = delay_ms[narrow]
    connection = emodel.EmodelParameters(
        t=ta, ta=ta, tr=2 * ta, ie=ie[narrow], bpl=bpl[narrow], ppl=ppl[narrow], burst_r=burst[narrow]
    )
    rating = emodel.rate(connection)
    r[narrow], mos[narrow] = rating.r, rating.mos
    in_wide = emodel.wideband(
        ta=delay_ms[wide], ie=ie[wide], bpl=bpl[wide], ppl=ppl[wide], burst_r=burst[wide]
    )
    r[wide], mos[wide] = in_wide.r, in_wide.mos
    in_full = emodel.fullband(
        ta=delay_ms[full], ie=ie[full], bpl=bpl[full], ppl=ppl[full], burst_r=burst[full]
    )
    r[full], mos[full] = in_full.r, in_full.mos

    silent = ppl >= 100
    return np.where(silent, 0.0, np.maximum(r, 0)), np.where(silent, 1.0, mos)
