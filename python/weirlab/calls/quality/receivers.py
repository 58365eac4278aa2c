"""What receivers report by RTCP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from weirlab.calls.quality.finding import StreamFinding, capitalized, listed_streams, shortened
from weirlab.calls.quality.streams import CaptureStream
from weirlab.quality.captures import CaptureTable, FarEnd
from weirlab.trace.quantities import duration, percent


def far_end(chosen: Sequence[CaptureStream], streams: Sequence[CaptureStream]) -> FarEnd:
    """What receivers reported.

    The round trip between sender and receiver is that from the capture to the receiver, and to the receiver
    of the stream in the other direction, who is the sender.
    """
    trips = {
        (each.src, each.src_port, each.dst, each.dst_port): _reported(each, "round_trip_mean_ns")
        for each in streams
    }

    def between(stream: CaptureStream) -> float:
        back = trips.get((stream.dst, stream.dst_port, stream.src, stream.src_port), np.nan)
        both = np.array([_reported(stream, "round_trip_mean_ns"), back])
        if np.isfinite(both).any():
            return float(np.nansum(both))
        claim = (stream.far_end or {}).get("claim")
        return claim["round_trip_ms"] * 1e6 if claim and claim["round_trip_ms"] else np.nan

    # A host that sends a stream receives another one.
    to_host: dict[tuple[str, str], float] = {}
    for each in streams:
        if (each.far_end or {}).get("round_trips"):
            longest = _reported(each, "round_trip_max_ns")
            key = (each.dst, each.interface)
            to_host[key] = max(to_host.get(key, longest), longest)

    return FarEnd(
        round_trip_ns=np.array([between(stream) for stream in chosen], dtype=np.float64),
        loss_ratio=np.array([_reported(stream, "loss_ratio") for stream in chosen], dtype=np.float64),
        to_sender_ns=np.array([to_host.get((each.src, each.interface), np.nan) for each in chosen]),
    )


def _reported(stream: CaptureStream, name: str) -> float:
    value = (stream.far_end or {}).get(name)
    return float("nan") if value is None else float(value)


_JITTER_NS: Final = 10_000_000
"""Jitter behind the capture that a jitter buffer feels."""


def losses(
    streams: Sequence[CaptureStream], table: CaptureTable, order: Sequence[int]
) -> Iterator[StreamFinding]:
    """Loss and jitter behind the capture, in the ``order`` of rows."""
    reported = [(row, streams[row].number, far) for row in order if (far := streams[row].far_end)]
    losing = [
        StreamFinding(
            "far-end loss",
            (number,),
            f"Stream {number}: its receiver reports {percent(far['loss_ratio'])} lost (RTCP). "
            f"{percent(float(table.beyond[row]))} of what passed here was lost behind the capture; MOS "
            "includes that.",
        )
        for row, number, far in reported
        if table.beyond[row] > 0
    ]
    losing += [
        StreamFinding(
            "far-end loss",
            (number,),
            f"Stream {number}: the losses that its receiver reports (RTCP) "
            + (
                "include numbers that were skipped in pauses"
                if streams[row].not_sent
                else "are of packets that the capture does not have, earlier or later ones"
            )
            + ": they do not count.",
        )
        for row, number, far in reported
        if far["lost_others"]
    ]
    yield from shortened(losing, "receivers of other streams report losses, too")
    shaky = [
        StreamFinding(
            "far-end jitter",
            (number,),
            f"Stream {number}: its receiver reports jitter of {duration(far['jitter_mean_ns'])} (RTCP); here "
            f"it is {duration(float(table.streams.jitter_ns[row]))}. The rest arises behind the capture; MOS "
            "is without it.",
        )
        for row, number, far in reported
        if far["reports"] > 1 and (far["jitter_mean_ns"] or 0) >= table.streams.jitter_ns[row] + _JITTER_NS
    ]
    yield from shortened(shaky, "receivers of other streams report more jitter, too")


def others(streams: Sequence[CaptureStream], order: Sequence[int]) -> Iterator[StreamFinding]:
    """What else receivers report, in the ``order`` of rows."""
    yield from shortened(
        _trips([streams[row] for row in order]), "round trips of other streams are known, too"
    )
    claims = [_claim(streams[row].number, far["claim"]) for row in order if (far := streams[row].far_end)]
    yield from shortened(filter(None, claims), "receivers of other streams say what they heard, too")


def _trips(streams: Sequence[CaptureStream]) -> Iterator[StreamFinding]:
    """A sentence for each conversation."""
    talks: dict[frozenset[tuple[str, int]], list[CaptureStream]] = {}
    for stream in streams:
        if stream.far_end and stream.far_end["round_trips"]:
            ends = frozenset(((stream.src, stream.src_port), (stream.dst, stream.dst_port)))
            talks.setdefault(ends, []).append(stream)
    for talk in talks.values():
        trips = ", ".join(
            f"{_span(far['round_trip_min_ns'], far['round_trip_max_ns'])} to {stream.dst}"
            for stream in talk
            if (far := stream.far_end)
        )
        numbers = tuple(stream.number for stream in talk)
        text = f"{capitalized(listed_streams(numbers))}: a round trip from the capture takes {trips} (RTCP)."
        yield StreamFinding("round trip", numbers, text)


def _claim(number: int, claim: Mapping[str, Any] | None) -> StreamFinding | None:
    if not claim:
        return None
    names = (("R", "r"), ("MOS-LQ", "mos_lq"), ("MOS-CQ", "mos_cq"))
    rated = "".join(f"; {name} {claim[key]:g}" for name, key in names if claim[key] is not None)
    text = (
        f"Stream {number}: its receiver says (RTCP XR) that {percent(claim['loss_ratio'])} were lost, and "
        f"that its jitter buffer discarded {percent(claim['discard_ratio'])}{rated}."
    )
    return StreamFinding("far-end claim", (number,), text)


def _span(least_ns: float, most_ns: float) -> str:
    least, most = duration(least_ns), duration(most_ns)
    return least if least == most else f"{least} to {most}"
