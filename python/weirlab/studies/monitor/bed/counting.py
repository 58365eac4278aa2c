"""How many frames a capture file holds, by Weir's own reader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weirlab.errors import LabError


@dataclass(frozen=True)
class Frames:
    """``ip`` are those of a trial; ``all`` includes what is not IP."""

    all: int
    ip: int


def count_frames(path: Path) -> Frames:
    """Read the file to its end; raises ``InputError`` where it is damaged."""
    try:
        from weirlab._engine import rtp_packets
    except ImportError as error:
        raise LabError(f"the engine is not built ({error}); make build builds it") from error
    capture = rtp_packets(str(path))["capture"]
    frames = int(capture["packets"])
    return Frames(frames, frames - int(capture["not_ip"]))
