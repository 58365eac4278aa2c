"""Quality of voice streams from a capture: the only times of sending are the media time stamps.

A capture does not show the delay from the sender. Delays here count from the fastest packet of each
stream; the rest has to be given, or MOS is that of codec, loss and jitter buffer alone. A sender's clock
that runs fast or slow shows as a drifting delay: 50 millionths are 180 ms an hour. Where this skew can be
estimated, delays are without it; jitter buffers play by the sender's clock, and slip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.quantities import plural
from weirlab.quality import jitterbuffer, segments
from weirlab.quality.assess import PlayoutQuality, StreamCoding, hear
from weirlab.quality.codecs import Impairment, of_encoding
from weirlab.quality.jitterbuffer import USUAL, Buffers, PlayOut
from weirlab.quality.packets import PacketArrivals, StreamPackets, place_all
from weirlab.quality.segments import I64
from weirlab.quality.streams import Streams, clock_skews, measure

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_DEFAULT_PACKET_NS: Final = 20_000_000
LONGEST_STREAM: Final = 1 << 24
"""Packets that one stream may span: 93 hours at 50 packets/s."""

_TIMED: Final = frozenset(
    {"jitter_ns", "jitter_max_ns", "play_ns", "r", "mos"}
    | {f"delay_{what}_ns" for what in ("min", "mean", "p50", "p95", "p99", "max")}
)

Table = TypeVar("Table", Streams, PlayoutQuality)


@dataclass(frozen=True)
class VoicePackets:
    """Packets of voice streams; those of a stream in order of arrival. Shapes (packets,)."""

    stream: npt.NDArray[np.integer]
    """Number of the stream, from 0."""
    arrival_ns: npt.NDArray[np.integer]
    seq: npt.NDArray[np.integer]
    """Sequence number, carried on beyond 16 bits (RFC 3550, A.1)."""
    timestamp: npt.NDArray[np.integer]
    """RTP time stamp, carried on beyond 32 bits, in units of the stream's clock."""
    speech: npt.NDArray[np.bool_]
    """False for comfort noise and telephone events, whose time stamps do not show when they were sent."""
    payload_bytes: npt.NDArray[np.integer]
    stretch: npt.NDArray[np.integer]
    """How often the speech time stamps of its stream had restarted before."""
    lead: npt.NDArray[np.integer] | None = None
    """Packets of each stream that were lost before its first, shape (streams,); None: none."""


@dataclass(frozen=True)
class FarEnd:
    """What RTCP shows of streams beyond the capture; shapes (streams,), NaN if unknown."""

    round_trip_ns: F64
    """Between sender and receiver, as far as it is known."""
    loss_ratio: F64
    """Share of the packets that the receiver missed."""
    to_sender_ns: F64
    """The longest round trip between the capture and the sender."""


_LEAST_BEYOND: Final = 0.005
"""Reports count at other times than the capture: a smaller difference is none."""


@dataclass(frozen=True)
class CaptureTable:
    """One row per stream. Delays in ``streams`` count from the stream's fastest packet; if its time stamps
    restart, from the fastest one after that. They are without ``skew``.

    Everything that depends on time stamps is NaN if the stream's clock is not known, or if none of its
    packets is speech.
    """

    packet_ns: I64
    skew: F64
    """Growth of the delay per media time: 1e-4 if the sender's clock is slow by 100 millionths; NaN if none
    shows."""
    kinds: tuple[Impairment, ...]
    """The impairment by each stream's codec, and why MOS may be missing."""
    streams: Streams
    fixed: PlayoutQuality
    adaptive: PlayoutQuality
    network_ms: float | None
    """As given; None: not given."""
    network_ns: F64
    """Delay of the network that MOS assumes: as given, or half of the round trip; NaN: not known."""
    beyond: F64
    """Share of the packets that was lost between capture and receiver, which MOS includes."""
    to_sender_ns: F64
    """The longest round trip between the capture and the sender; NaN: not known."""
    reported: Bool
    """Whether receivers report what they missed; if not, ``beyond`` is 0 and means nothing."""

    @property
    def mos(self) -> F64:
        """Behind the better buffer."""
        return np.fmax(self.fixed.mos, self.adaptive.mos)

    @property
    def r_factor(self) -> F64:
        """Behind the better buffer."""
        worse = np.isnan(self.fixed.mos) | (self.adaptive.mos > self.fixed.mos)
        return np.where(worse, self.adaptive.r, self.fixed.r)

    def heard_if(self, whole: npt.NDArray[np.bool_]) -> CaptureTable:
        """Without MOS of streams that are not ``whole``: the capture misses packets of them."""
        return replace(self, fixed=_with_clock(self.fixed, whole), adaptive=_with_clock(self.adaptive, whole))

    @property
    def assumption(self) -> str:
        """The network delay that MOS assumes, in words."""
        if self.network_ms is not None:
            return f"MOS assumes a network delay of {self.network_ms:g} ms, as given"
        known = self.network_ns[np.isfinite(self.network_ns)] / 1e6
        if not len(known):
            return (
                "the capture does not show the network's delay: MOS includes only that of codec, packet and "
                "jitter buffer"
            )
        least, most = f"{known.min():.0f}", f"{known.max():.0f}"
        span = least if least == most else f"{least} to {most}"
        half = f"MOS assumes half of the round trip that RTCP shows: {span} ms"
        if len(known) == len(self.network_ns):
            return half
        return f"{half}; that of {plural(len(self.network_ns) - len(known), 'stream')} is not known"


def capture_table(
    packets: VoicePackets,
    encodings: Sequence[str],
    clock_hz: npt.NDArray[np.integer],
    buffers: Buffers = USUAL,
    network_ms: float | None = None,
    far_end: FarEnd | None = None,
    tag_bytes: npt.NDArray[np.integer] | None = None,
) -> CaptureTable:
    """Quality of each stream.

    ``encodings`` (as in SDP; empty: not known), ``clock_hz`` (0: not known) and ``tag_bytes`` (of SRTP) have
    one element per stream. ``network_ms`` is the least delay from sender to capture, if it is known; else
    half of the round trip of ``far_end`` counts.

    Raises
    ------
    InputError
        There is a stream without packets, or one that jumps so far that it must be two.
    """
    clock = np.asarray(clock_hz, dtype=np.int64)
    placed, level, sloping = place(packets, clock)
    number = segments.total(packets.speech.astype(np.int64), _starts_of(packets, len(clock)))
    size = _usual_payload(packets, number) - (0 if tag_bytes is None else tag_bytes)
    kinds = tuple(
        of_encoding(name, float(payload), float(packet_ns) / 1e6, buffers.concealment)
        for name, payload, packet_ns in zip(encodings, size, placed.packet_ns, strict=True)
    )
    coded = StreamCoding(kinds, np.arange(len(kinds), dtype=np.int64))
    streams = measure(level)
    timed = (clock > 0) & (number > 0)
    blank = np.full(len(clock), np.nan)
    far = FarEnd(blank, blank, blank) if far_end is None else far_end
    network_ns = far.round_trip_ns / 2 if network_ms is None else np.full(len(clock), network_ms * 1e6)
    beyond = _beyond(streams, far.loss_ratio)

    def heard(play: PlayOut) -> PlayoutQuality:
        # Buffers see the sender's times; the delay that a listener notices is by one clock.
        real = replace(play, delay_ns=play.delay_ns + (placed.sent_ns - level.sent_ns))
        return _with_clock(hear(level, None, streams, real, coded, np.nan_to_num(network_ns), beyond), timed)

    return CaptureTable(
        placed.packet_ns,
        np.where(timed & (sloping != 0), sloping, np.nan),
        kinds,
        _with_clock(streams, timed),
        heard(jitterbuffer.fixed(placed, buffers)),
        heard(jitterbuffer.adaptive(placed, buffers)),
        network_ms,
        network_ns,
        beyond,
        far.to_sender_ns,
        np.isfinite(far.loss_ratio),
    )


def place(packets: VoicePackets, clock_hz: I64) -> tuple[StreamPackets, StreamPackets, F64]:
    """Packets in their places, sent by the sender's clock, and by the capture's; the skew of each stream."""
    media = _media(packets, clock_hz)
    placed = media.placed(np.zeros(len(clock_hz)))
    sloping = media.skew()
    return placed, media.placed(sloping) if sloping.any() else placed, sloping


def _beyond(streams: Streams, loss_ratio: F64) -> F64:
    """Share of the packets that passed the capture and did not arrive, by what the receiver missed in all."""
    here = streams.losses.count / streams.sent
    share = 1 - (1 - np.nan_to_num(loss_ratio)) / np.where(here < 1, 1 - here, 1)
    return np.where(share >= _LEAST_BEYOND, share, 0.0)


def _usual_payload(packets: VoicePackets, number: I64) -> F64:
    """Median size of the speech in a packet of each stream; without speech 0."""
    size = packets.payload_bytes.astype(np.float64)[packets.speech]
    order = np.lexsort((size, packets.stream.astype(np.int64)[packets.speech]))
    (median,) = segments.quantiles(size[order], segments.starts(number), (0.5,))
    return np.asarray(np.nan_to_num(median), dtype=np.float64)


@dataclass(frozen=True)
class _Media:
    """Packets with their media times; shapes (packets,), ``start`` and ``places`` (streams + 1,)."""

    packets: VoicePackets
    stream: I64
    start: I64
    places: I64
    """Where streams start if lost packets have places, too."""
    row: I64
    media_ns: I64
    """Time by the sender's clock since the first packet of the stream."""
    arrival_ns: I64
    speech: npt.NDArray[np.bool_]
    stretch: I64
    """Stretches of time stamps, numbered over all streams."""

    def placed(self, rate: F64) -> StreamPackets:
        """Packets in their places by sequence number, sent at their media time.

        Media time is longer by ``rate`` of each stream, and is shifted so that the fastest packet of each
        stream, and of each stretch of its time stamps, has no delay.
        """
        media_ns = self.media_ns + np.rint(self.media_ns * rate[self.stream]).astype(np.int64)
        # Stretches overlap where packets overtake each other.
        fastest = np.full(int(self.stretch.max()) + 1, np.iinfo(np.int64).max)
        transit = (self.arrival_ns - media_ns)[self.speech]
        np.minimum.at(fastest, self.stretch[self.speech], transit)
        # Without speech any time will do.
        fastest[fastest == np.iinfo(np.int64).max] = 0
        arrivals = PacketArrivals(
            stream=self.stream,
            row=self.row,
            sent_ns=media_ns + fastest[self.stretch],
            arrival_ns=self.arrival_ns,
            timed=self.speech,
        )
        times = _packet_times(self.packets.seq.astype(np.int64), self.media_ns, self.speech, self.start)
        flow = np.arange(len(self.start) - 1, dtype=np.int64)
        return place_all(arrivals, flow=flow, start=self.places, packet_ns=times)

    def skew(self) -> F64:
        """The skew of each stream, from the stretch of its time stamps with the most speech."""
        many = np.bincount(self.stretch[self.speech], minlength=int(self.stretch.max()) + 1)
        owner = np.zeros(len(many), dtype=np.int64)
        owner[self.stretch] = self.stream
        longest = np.zeros(len(self.start) - 1, dtype=np.int64)
        by = np.lexsort((many, owner))
        longest[owner[by]] = by
        used = self.speech & (self.stretch == longest[self.stream])
        return clock_skews(
            self.stream[used],
            self.media_ns[used],
            (self.arrival_ns - self.media_ns)[used],
            len(self.start) - 1,
        )


def _media(packets: VoicePackets, clock_hz: I64) -> _Media:
    n = len(clock_hz)
    stream = packets.stream.astype(np.int64)
    counts = np.bincount(stream, minlength=n)
    if len(counts) > n or (counts == 0).any() or (np.diff(stream) < 0).any():
        raise InputError(f"packets of {n} streams were expected, one stream after the other, each with some")
    start = segments.starts(counts)

    seq = packets.seq.astype(np.int64)
    first = segments.smallest(seq, start, 0)
    if packets.lead is not None:
        first = first - packets.lead.astype(np.int64)
    span = segments.largest(seq, start, 0) - first + 1
    if (span > LONGEST_STREAM).any():
        raise InputError(
            f"stream {int(np.argmax(span))} spans {int(span.max()):,} sequence numbers; "
            "its sender must have restarted: split it into two streams"
        )
    stamp = packets.timestamp.astype(np.int64) - packets.timestamp.astype(np.int64)[start[:-1]][stream]
    # If the clock is not known, any will do: results that depend on it are not shown.
    whole_s, ticks = np.divmod(stamp, (hz := np.where(clock_hz > 0, clock_hz, 8000)[stream]))
    _, stretch = np.unique(stream << 32 | packets.stretch.astype(np.int64), return_inverse=True)
    places = segments.starts(span)
    return _Media(
        packets=packets,
        stream=stream,
        start=start,
        places=places,
        row=places[stream] + seq - first[stream],
        # Separately, since a day of 90,000 ticks a second times 1e9 has more than 63 bits.
        media_ns=whole_s * 1_000_000_000 + ticks * 1_000_000_000 // hz,
        arrival_ns=packets.arrival_ns.astype(np.int64),
        speech=packets.speech.astype(np.bool_),
        stretch=stretch.astype(np.int64),
    )


def _starts_of(packets: VoicePackets, streams: int) -> I64:
    return segments.starts(np.bincount(packets.stream.astype(np.int64), minlength=streams))


def _with_clock(table: Table, known: npt.NDArray[np.bool_]) -> Table:
    """The table with NaN for streams whose media time is not known; counts, losses and gaps stay."""
    blank: dict[str, Any] = {
        field.name: np.where(known, getattr(table, field.name), np.nan)
        for field in fields(table)
        if field.name in _TIMED
    }
    return replace(table, **blank)


def _packet_times(seq: I64, media_ns: I64, timed: npt.NDArray[np.bool_], start: I64) -> I64:
    """Usual media time from one packet to the next, per stream."""
    which = segments.owner(start)[1:]
    neighbours = (np.diff(seq) == 1) & (np.diff(which, prepend=0) == 0) & timed[1:] & timed[:-1]
    neighbours[start[1:-1] - 1] = False
    step = np.diff(media_ns)[neighbours]
    owner = which[neighbours]
    by = np.lexsort((step, owner))
    inner = segments.starts(np.bincount(owner, minlength=len(start) - 1))
    (median,) = segments.quantiles(step[by].astype(np.float64), inner, (0.5,))
    usable = np.isfinite(median) & (median > 0)
    return np.where(usable, median, _DEFAULT_PACKET_NS).astype(np.int64)
