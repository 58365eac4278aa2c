"""What is wrong with the streams of a capture, what could be mistaken for a fault of the network, and what a
reader has to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.calls.quality import receivers
from weirlab.calls.quality import streams as calls_of
from weirlab.calls.quality.finding import MOST, StreamFinding, be, capitalized, listed_streams, shortened
from weirlab.calls.quality.streams import CaptureStream
from weirlab.quality.captures import CaptureTable
from weirlab.quality.causes import NEAR_JITTER
from weirlab.trace.quantities import duration, percent, plural

_MANY_COPIES: Final = 0.3
_HOLE_NS: Final = 200_000_000
"""Speech that is missed for so long is a word, which no decoder conceals."""


@dataclass(frozen=True)
class HeardStreams:
    """How streams were heard, behind the jitter buffer of each."""

    order: Sequence[int]
    """Rows, the worst first."""
    causes: Sequence[tuple[str, ...]]
    """Why each is below :data:`SATISFIED`."""
    hole_ns: npt.NDArray[np.float64]
    """The longest speech, packet after packet, that was lost or late; NaN if unknown."""
    held_ns: npt.NDArray[np.float64]
    """Mean time from speaking to hearing."""
    late: Sequence[int | None]
    """Packets that came too late; None if unknown."""


def of(
    streams: Sequence[CaptureStream],
    table: CaptureTable,
    calls: Sequence[Mapping[str, Any]],
    capture: Mapping[str, Any],
    heard: HeardStreams,
) -> Iterator[StreamFinding]:
    """All findings, those that callers complain about first."""
    start_ns, last_ns = capture["first_ns"], capture["last_ns"]
    gaps_ns = {
        stream.number: float(gap) for stream, gap in zip(streams, table.streams.longest_gap_ns, strict=True)
    }
    for numbers, text in calls_of.one_way(calls, streams, gaps_ns, start_ns, last_ns):
        yield StreamFinding("one-way audio", numbers, text)
    yield from shortened(_missed(streams), "other streams are incomplete in the capture, too")
    yield from shortened(_holes(streams, table, heard), "other streams have such holes, too")
    yield from receivers.losses(streams, table, heard.order)
    yield from shortened(_jitter(streams, table, heard), "jitter spoils other streams, too")
    for numbers, text in calls_of.addresses(calls, streams):
        yield StreamFinding("another address", numbers, text)
    yield from shortened(_pauses(streams), "other streams paused, too")
    yield from shortened(_codec_changes(streams, start_ns), "other streams change their codecs, too")
    yield from shortened(_clock_rates(streams), "the time stamps of other streams do so, too")
    yield from _skews(streams, table)
    yield from shortened(_standing(streams), "those of other streams do so, too")
    yield from _contents(streams)
    yield from _packets(streams, table)
    yield from receivers.others(streams, heard.order)


def _holes(
    streams: Sequence[CaptureStream], table: CaptureTable, heard: HeardStreams
) -> Iterator[StreamFinding]:
    for row in heard.order:
        if heard.hole_ns[row] >= _HOLE_NS:
            number = streams[row].number
            packets = plural(round(heard.hole_ns[row] / table.packet_ns[row]), "packet")
            text = (
                f"Stream {number} has holes of up to {duration(heard.hole_ns[row])}: {packets} in a row "
                "were lost, or late for the jitter buffer."
            )
            yield StreamFinding("hole", (number,), text)


def _jitter(
    streams: Sequence[CaptureStream], table: CaptureTable, heard: HeardStreams
) -> Iterator[StreamFinding]:
    """Where jitter is why a stream sounds bad: what it does, and where it arose."""
    sent, late = table.streams.sent, heard.late
    for row in heard.order:
        near = NEAR_JITTER in heard.causes[row]
        if not near and "jitter" not in heard.causes[row]:
            continue
        stream, share = streams[row], percent((late[row] or 0) / float(sent[row]))
        trip = duration(float(table.to_sender_ns[row]))
        where = (
            f"at or near {stream.src} (or before it, if that relays calls): by RTCP, a round trip between it "
            f"and the capture takes at most {trip}"
            if near
            else "before the capture, at the sender or on the way"
        )
        least = "" if np.isfinite(table.network_ns[row]) else "at least "
        held = f"{least}{duration(heard.held_ns[row])}"
        text = (
            f"Stream {stream.number}: with its jitter, speech is heard {held} after it was spoken, and "
            f"{share} of the packets are late for the jitter buffer. The jitter arose {where}."
        )
        yield StreamFinding("jitter", (stream.number,), text)


def _missed(streams: Sequence[CaptureStream]) -> Iterator[StreamFinding]:
    for stream in streams:
        if not stream.missed:
            continue
        far = (stream.far_end or {}).get("loss_ratio")
        why = {
            "sparse": f"the capture has {stream.packets:,} packets of its {stream.expected:,} numbers: it "
            "is an excerpt, or the network lost nearly all of them",
            "gaps": "in its gaps hardly anything else was captured, either: the capture misses packets, or "
            "the whole link was silent",
            "reports": f"its receiver reports {percent(far or 0.0)} lost (RTCP), far less than is missing "
            "here: the capture misses packets",
        }[stream.missed]
        yield StreamFinding(
            "incomplete capture",
            (stream.number,),
            f"Stream {stream.number}: {why}. Loss and MOS are not known.",
        )


def _pauses(streams: Sequence[CaptureStream]) -> Iterator[StreamFinding]:
    for stream in streams:
        if stream.pauses:
            often = "" if stream.pauses == 1 else f" in {stream.pauses:,} pauses"
            yield StreamFinding(
                "pause",
                (stream.number,),
                f"Stream {stream.number} paused for {duration(stream.pauses_ns)}{often}, while another "
                f"source was heard at its destination, or it was on hold: the "
                f"{plural(stream.not_sent, 'number')} that it skipped {be(stream.not_sent)} not lost.",
            )


def _codec_changes(streams: Sequence[CaptureStream], start_ns: int) -> Iterator[StreamFinding]:
    before: dict[tuple[object, ...], CaptureStream] = {}
    for stream in streams:
        ends = (stream.src, stream.src_port, stream.dst, stream.dst_port)
        key = (*ends, stream.ssrc, stream.vlan, stream.interface)
        old = before.get(key)
        if stream.begins == "codec" and old is not None:
            yield StreamFinding(
                "codec change",
                (old.number, stream.number),
                f"Stream {old.number} changes its codec from {old.codec_title} to {stream.codec_title} after "
                f"{duration(stream.first_ns - start_ns)}: from then on it is stream {stream.number}.",
            )
        before[key] = stream


def _clock_rates(streams: Sequence[CaptureStream]) -> Iterator[StreamFinding]:
    for stream in streams:
        if stream.nominal_hz and stream.clock_hz != stream.nominal_hz:
            yield StreamFinding(
                "clock rate",
                (stream.number,),
                f"Stream {stream.number}: its time stamps count {stream.clock_hz:,} a second, but those of "
                f"{stream.codec} are to count {stream.nominal_hz:,}. Delays and jitter are by the real rate; "
                "a receiver that believes the stamps may play nothing.",
            )


def _skews(streams: Sequence[CaptureStream], table: CaptureTable) -> Iterator[StreamFinding]:
    rate = np.nan_to_num(table.skew)
    most_first = [int(i) for i in np.argsort(-np.abs(rate), kind="stable") if rate[i]]
    for i in most_first[:MOST]:
        every = duration(float(table.packet_ns[i] / abs(rate[i])))
        yield StreamFinding(
            "clock skew",
            (streams[i].number,),
            f"Stream {streams[i].number}: the sender's clock is {abs(rate[i]) * 1e6:.0f} ppm "
            f"{'slow' if rate[i] > 0 else 'fast'} against the capture's. Delays are without this skew; "
            f"a fixed jitter buffer slips by a packet every {every}.",
        )
    if more := most_first[MOST:]:
        numbers = tuple(streams[i].number for i in sorted(more))
        yield StreamFinding("clock skew", numbers, f"A clock skew shows in {listed_streams(numbers)}, too.")


def _standing(streams: Sequence[CaptureStream]) -> Iterator[StreamFinding]:
    for stream in streams:
        if stream.still:
            yield StreamFinding(
                "standing time stamps",
                (stream.number,),
                f"Stream {stream.number}: its time stamps stood still in {plural(stream.still, 'silence')}, "
                "against RFC 3550, or the network delays all packets by more since then, which looks the "
                "same. Delays count anew after each.",
            )


def _contents(streams: Sequence[CaptureStream]) -> Iterator[StreamFinding]:
    others = tuple(each.number for each in streams if not (each.is_voice or each.has_only_events))
    if others:
        are = "is" if len(others) == 1 else "are"
        text = (
            f"{capitalized(listed_streams(others))} {are} not voice, but pictures, a fax, text, data, "
            "repairs of another stream, a transport stream, or sound of more than 520 kbit/s: no MOS."
        )
        yield StreamFinding("not voice", others, text)
    events = [stream for stream in streams if stream.has_only_events]
    if events:
        numbers = tuple(stream.number for stream in events)
        have = "has" if len(numbers) == 1 else "have"
        text = f"{capitalized(listed_streams(numbers))} {have} nothing but telephone events (DTMF)."
        if not all(stream.loss_known for stream in events):
            text += " The numbers between them are of speech that is not in the capture: loss is not known."
        yield StreamFinding("telephone events", numbers, text)
    if repeats := sum(stream.repeats for stream in streams):
        numbers = tuple(stream.number for stream in streams if stream.repeats)
        yield StreamFinding(
            "telephone events",
            numbers,
            f"{plural(repeats, 'packet')} of telephone events {be(repeats)} sent again with one number, "
            "as their senders do: neither capture nor network copied them.",
        )
    guessed = tuple(stream.number for stream in streams if stream.known_by == "webrtc")
    if guessed:
        yield StreamFinding(
            "guessed codec",
            guessed,
            f"The codec of {listed_streams(guessed)} is a guess: STUN or DTLS on these ports shows WebRTC, "
            "where this payload type is usually Opus; name another with --codec.",
        )


def _packets(streams: Sequence[CaptureStream], table: CaptureTable) -> Iterator[StreamFinding]:
    estimated = tuple(stream.number for stream in streams if stream.loss_estimated)
    if estimated:
        yield StreamFinding(
            "estimated loss",
            estimated,
            "IAX2 has no sequence numbers: loss is estimated from gaps in the time stamps, and speech that "
            "was suppressed as silence counts as lost.",
        )
    duplicated = table.streams.duplicated >= _MANY_COPIES * table.streams.received
    if duplicated.any():
        numbers = tuple(streams[int(i)].number for i in np.flatnonzero(duplicated))
        yield StreamFinding(
            "copies",
            numbers,
            f"{plural(len(numbers), 'stream')} came with copies of many packets: the capture saw "
            "them in two places; keep one with a capture filter, as the network did not duplicate them.",
        )
    if strays := sum(stream.strays for stream in streams):
        numbers = tuple(stream.number for stream in streams if stream.strays)
        belong = "belongs" if strays == 1 else "belong"
        text = (
            f"{plural(strays, 'packet')} {belong} nowhere in the sequence of a stream and {be(strays)} "
            "left out."
        )
        yield StreamFinding("strays", numbers, text)
