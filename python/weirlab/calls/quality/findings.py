"""What is wrong with the streams of a capture, what could be mistaken for a fault of the network, and what a
reader has to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from weirlab.calls.quality import streams as calls_of
from weirlab.calls.quality.streams import CaptureStream
from weirlab.quality.captures import CaptureTable
from weirlab.trace.quantities import duration, percent, plural

Kind = Literal[
    "one-way audio",
    "another address",
    "far-end loss",
    "round trip",
    "far-end claim",
    "pause",
    "codec change",
    "clock rate",
    "clock skew",
    "standing time stamps",
    "not voice",
    "telephone events",
    "copies",
    "strays",
    "estimated loss",
    "incomplete capture",
    "guessed codec",
]

_MOST: Final = 4
"""Streams with a sentence of their own, of those with the same finding."""
_MANY_COPIES: Final = 0.3


@dataclass(frozen=True)
class StreamFinding:
    """Something that a reader has to know about streams."""

    kind: Kind
    streams: tuple[int, ...]
    """Their numbers."""
    text: str


def of(
    streams: Sequence[CaptureStream],
    table: CaptureTable,
    calls: Sequence[Mapping[str, Any]],
    capture: Mapping[str, Any],
) -> Iterator[StreamFinding]:
    """All findings, those that callers complain about first."""
    start_ns, last_ns = capture["first_ns"], capture["last_ns"]
    for numbers, text in calls_of.one_way(calls, streams, start_ns, last_ns):
        yield StreamFinding("one-way audio", numbers, text)
    yield from _shortened(_missed(streams), "other streams are incomplete in the capture, too")
    yield from _far_end(streams, table)
    for numbers, text in calls_of.addresses(calls, streams):
        yield StreamFinding("another address", numbers, text)
    yield from _shortened(_pauses(streams), "other streams paused, too")
    yield from _shortened(_codec_changes(streams, start_ns), "other streams change their codecs, too")
    yield from _shortened(_clock_rates(streams), "the time stamps of other streams do so, too")
    yield from _skews(streams, table)
    yield from _shortened(_standing(streams), "those of other streams do so, too")
    yield from _contents(streams)
    yield from _packets(streams, table)


def _shortened(found: Iterable[StreamFinding], others: str) -> Iterator[StreamFinding]:
    """The first findings of a kind, and how many more there are."""
    listed = list(found)
    yield from listed[:_MOST]
    if rest := listed[_MOST:]:
        numbers = tuple(number for finding in rest for number in finding.streams)
        yield StreamFinding(rest[0].kind, numbers, f"{_sentence(others)} ({listed_streams(numbers)}).")


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


def _far_end(streams: Sequence[CaptureStream], table: CaptureTable) -> Iterator[StreamFinding]:
    reported = [(i, stream, stream.far_end) for i, stream in enumerate(streams) if stream.far_end]
    losing = [
        StreamFinding(
            "far-end loss",
            (stream.number,),
            f"Stream {stream.number}: its receiver reports {percent(far['loss_ratio'])} lost (RTCP). "
            f"{percent(float(table.beyond[i]))} of what passed here did not arrive; MOS includes that.",
        )
        for i, stream, far in reported
        if table.beyond[i] > 0
    ]
    losing += [
        StreamFinding(
            "far-end loss",
            (stream.number,),
            f"Stream {stream.number}: the losses that its receiver reports (RTCP) are of packets that the "
            "capture does not have, earlier or later ones: they do not count.",
        )
        for _, stream, far in reported
        if far["lost_others"]
    ]
    yield from _shortened(losing, "receivers of other streams report losses, too")
    trips = [
        StreamFinding(
            "round trip",
            (stream.number,),
            f"Stream {stream.number}: a round trip between capture and receiver takes "
            f"{_span(far['round_trip_min_ns'], far['round_trip_max_ns'])} (RTCP).",
        )
        for _, stream, far in reported
        if far["round_trips"]
    ]
    yield from _shortened(trips, "round trips of other streams are known, too")
    claims = [_claim(stream.number, far["claim"]) for _, stream, far in reported if far["claim"]]
    yield from _shortened(claims, "receivers of other streams say what they heard, too")


def _claim(number: int, claim: Mapping[str, Any]) -> StreamFinding:
    names = (("R", "r"), ("MOS-LQ", "mos_lq"), ("MOS-CQ", "mos_cq"))
    rated = "".join(f"; {name} {claim[key]:g}" for name, key in names if claim[key] is not None)
    text = (
        f"Stream {number}: its receiver says (RTCP XR) that {percent(claim['loss_ratio'])} were lost, and "
        f"that its jitter buffer discarded {percent(claim['discard_ratio'])}{rated}."
    )
    return StreamFinding("far-end claim", (number,), text)


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
    for i in most_first[:_MOST]:
        every = duration(float(table.packet_ns[i] / abs(rate[i])))
        yield StreamFinding(
            "clock skew",
            (streams[i].number,),
            f"Stream {streams[i].number}: the sender's clock is {abs(rate[i]) * 1e6:.0f} ppm "
            f"{'slow' if rate[i] > 0 else 'fast'} against the capture's. Delays are without this skew; "
            f"a fixed jitter buffer slips by a packet every {every}.",
        )
    if more := most_first[_MOST:]:
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
            f"{_sentence(listed_streams(others))} {are} not voice, but pictures, a fax, text, data, a "
            "transport stream, or sound of more than 520 kbit/s: no MOS."
        )
        yield StreamFinding("not voice", others, text)
    events = [stream for stream in streams if stream.has_only_events]
    if events:
        numbers = tuple(stream.number for stream in events)
        have = "has" if len(numbers) == 1 else "have"
        text = f"{_sentence(listed_streams(numbers))} {have} nothing but telephone events (DTMF)."
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


def be(number: int) -> str:
    return "was" if number == 1 else "were"


def _span(least_ns: float, most_ns: float) -> str:
    least, most = duration(least_ns), duration(most_ns)
    return least if least == most else f"{least} to {most}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def listed_streams(numbers: Sequence[int]) -> str:
    """``stream 3``, ``streams 1, 2``."""
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"stream{'s' * (len(numbers) > 1)} {shown}"
