"""The speech of a call: the streams that reached caller and callee, measured as by ``weir quality``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weirlab import _engine
from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.numbering.lab.recorder import Frame, pcap
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
