"""The speech of a call: the streams that reached caller and callee, and how long none got through. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from weirlab import _engine
from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.numbering.lab.device import PassageRow
from weirlab.numbering.lab.switch import Frame, pcap
from weirlab.numbering.proof.wire import packets
from weirlab.quality.captures import VoicePackets, capture_table

_PACKETS = ("stream", "arrival_ns", "seq", "timestamp", "speech", "payload_bytes", "stretch")


@dataclass(frozen=True)
class StreamReception:
    """One stream where it arrived."""

    source: str
    target: str
    """Addresses."""
    codec: str
    """Encoding name of SDP; empty if unknown."""
    expected: int
    """Packets from the first to the last one that arrived."""
    lost: int
    jitter_ns: float
    mos: float
    """NaN if it cannot be determined."""


def streams(frames: Sequence[Frame], scratch: Path) -> list[StreamReception]:
    """The voice streams among frames that were delivered; ``scratch`` is a file to write over.

    MOS includes codec, packet and jitter buffer, but no network delay.
    """
    delivered = [frame for frame in frames if frame.delivered]
    if not delivered:
        return []
    files.write_bytes(scratch, pcap(delivered))
    read = _engine.rtp_packets(str(scratch))
    found = read["streams"]
    if not found:
        return []
    packets = VoicePackets(**{name: read["packets"][name] for name in _PACKETS})
    clocks = np.array([stream["clock_hz"] for stream in found], dtype=np.int64)
    try:
        mos = capture_table(packets, [stream["codec"] for stream in found], clocks).mos
    except InputError:
        # A stream that jumps shows as missing packets.
        mos = np.full(len(found), math.nan)
    return [
        StreamReception(
            source=stream["src"],
            target=stream["dst"],
            codec=stream["codec"],
            expected=stream["expected"],
            lost=stream["lost"] or 0,
            jitter_ns=math.nan if stream["jitter_mean_ns"] is None else float(stream["jitter_mean_ns"]),
            mos=float(one),
        )
        for stream, one in zip(found, mos, strict=True)
    ]


def reaching(found: Sequence[StreamReception], address: str) -> StreamReception | None:
    """The longest stream that reached an address; None if none did."""
    return max(
        (each for each in found if each.target == address), key=lambda each: each.expected, default=None
    )


_MS: Final = 1e6
_RTP: Final = 0x80
"""First byte of RTP packets of SIPp and gateways: version 2, no flags (RFC 3550, 5.1)."""
_RTCP: Final = range(72, 77)
"""RTP payload types that RTCP packets would seem to have (RFC 5761, 4)."""


@dataclass(frozen=True)
class Silence:
    """Silences in one direction of a call."""

    longest_ns: int
    """Longest time from a sent packet until the next packet that got through."""
    last_ns: int
    """The same at the end, until the last sent packet; 0 if that packet, or a later one, got through."""


def beside(rows: Sequence[PassageRow], frames: Sequence[Frame], caller: str) -> list[PassageRow]:
    """``rows`` of both directions, from and to the caller, with the longest silence of each."""
    if not rows:
        return []
    return [
        row
        if each is None
        else replace(
            row,
            silence_ms=each.longest_ns / _MS,
            ends_silent=each.last_ns > 0 and each.last_ns == each.longest_ns,
        )
        for row, each in zip(rows, silences(frames, caller), strict=True)
    ]


def silences(frames: Sequence[Frame], caller: str) -> tuple[Silence | None, Silence | None]:
    """Silences from and to the caller, an address; None if no speech was sent."""
    sent = [*_speech(frame for frame in frames if not frame.delivered)]
    heard = [*_speech(frame._replace(delivered=False) for frame in frames if frame.delivered)]
    there = _silence(
        [each.at_ns for each in sent if each.source.address == caller],
        [each.at_ns for each in heard if each.source.address == caller],
    )
    back = _silence(
        [each.at_ns for each in sent if each.target.address == caller],
        [each.at_ns for each in heard if each.target.address == caller],
    )
    return there, back


def _speech(frames: Iterable[Frame]) -> Iterable[packets.Payload]:
    for datagram in packets.datagrams(frames):
        if (
            len(datagram.content) > 12
            and datagram.content[0] == _RTP
            and datagram.content[1] & 0x7F not in _RTCP
        ):
            yield datagram


def _silence(sent_ns: Sequence[int], heard_ns: Sequence[int]) -> Silence | None:
    if not sent_ns:
        return None
    sent = sorted(sent_ns)
    longest_ns, heard_until = 0, -math.inf
    for at_ns in sorted(heard_ns):
        longest_ns = max(longest_ns, _unheard_ns(sent, heard_until, at_ns))
        heard_until = at_ns
    last_ns = _unheard_ns(sent, heard_until, sent[-1])
    return Silence(max(longest_ns, last_ns), last_ns)


def _unheard_ns(sent: Sequence[int], after_ns: float, until_ns: int) -> int:
    """Time from the first packet sent after ``after_ns`` until ``until_ns``; 0 without such a packet."""
    first = bisect_right(sent, after_ns)
    return max(0, until_ns - sent[first]) if first < len(sent) else 0
