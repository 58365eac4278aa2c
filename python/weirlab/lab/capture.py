"""A schedule as a capture file: what tcpdump would have seen of it, without sending anything.

The format is pcap with time stamps in nanoseconds (draft-ietf-opsawg-pcap), which Wireshark, tcpdump
and everything else built on libpcap can read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.base.extras import engine_needed
from weirlab.base.units import NS_PER_S
from weirlab.lab import wiring
from weirlab.traffic.calls.impairments import FrameArrivals, Impairments, impair
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S
from weirlab.traffic.plan import PACKET_KINDS, DeparturePlan

_MAGIC_NS: Final = 0xA1B23C4D
_ETHERNET: Final = 1
_HEADER: Final = struct.Struct("<IHHiIII")
_RECORD_BYTES: Final = 16
_SNAPLEN: Final = 262_144
_FRAMES_AT_ONCE: Final = 1 << 16

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class CaptureFile:
    """What was written; ``lasts_ns`` is the time from the first frame to the last."""

    path: Path
    frames: int
    file_bytes: int
    lasts_ns: int


def write_plan(
    path: Path, plan: DeparturePlan, faults: Impairments | None = None
) -> tuple[CaptureFile, FrameArrivals | None]:
    """Write every frame of ``plan`` to ``path``, as between sender and receiver on one cable.

    This includes the flows that the receiver's side sends. Each frame has its due time as its time
    stamp; with ``faults``, the capture shows what is left of the frames behind such a network.

    Raises
    ------
    InputError
        The plan has no fixed frames, because it repeats or is not paced.
    StoreError
        The disk refuses; nothing is left behind.
    """
    with engine_needed():
        from weirlab import _engine
    tx, rx = wiring.mac_bytes(wiring.TX0.mac), wiring.mac_bytes(wiring.RX0.mac)
    try:
        raw = _engine.frames(plan, (tx, rx), (rx, tx))
    except ValueError as error:
        raise InputError(f"this traffic cannot be written as a capture: {error}") from error
    due_ns, length, content = raw["due_ns"], raw["length"], raw["bytes"]
    arrivals = frame = None
    if faults is not None and plan.media is not None:
        speech = plan.media.kind != PACKET_KINDS["raw"]
        at_ns, flow = due_ns.astype(np.int64), raw["flow"].astype(np.int64)
        arrivals = impair(at_ns, flow, speech, len(plan.flows), faults)
        due_ns, frame = arrivals.at_ns.astype(np.uint64), arrivals.frame
    return write_frames(path, due_ns, length, content, frame), arrivals


def write_frames(
    path: Path,
    due_ns: npt.NDArray[np.uint64],
    length: npt.NDArray[np.uint32],
    content: U8,
    frame: I64 | None = None,
) -> CaptureFile:
    """Write frames to ``path`` in one step.

    Parameters
    ----------
    path
        The file to write; an existing one is replaced.
    due_ns
        Time of each frame that is written, from the start of the schedule, shape (written,).
    length
        Bytes of each frame in ``content``, without FCS, shape (frames,).
    content
        All frames one after the other.
    frame
        Numbers of those that are written, in this order, shape (written,); by default each once.

    Raises
    ------
    StoreError
        The disk refuses; ``path`` keeps its old content.
    """
    elsewhere = "choose another place, or write fewer calls or seconds"
    files.write(
        path, lambda file: _write(file, due_ns, length, content, frame), private=True, elsewhere=elsewhere
    )
    n = len(due_ns)
    written = length if frame is None else length[frame]
    size = _HEADER.size + n * _RECORD_BYTES + int(written.sum(dtype=np.int64))
    return CaptureFile(path, n, size, int(due_ns[-1] - due_ns[0]) if n else 0)


def _write(
    file: BinaryIO,
    due_ns: npt.NDArray[np.uint64],
    length: npt.NDArray[np.uint32],
    content: U8,
    frame: I64 | None,
) -> None:
    file.write(_HEADER.pack(_MAGIC_NS, 2, 4, 0, 0, _SNAPLEN, _ETHERNET))
    ends = np.concatenate(([0], np.cumsum(length, dtype=np.int64)))
    for first in range(0, len(due_ns), _FRAMES_AT_ONCE):
        last = min(first + _FRAMES_AT_ONCE, len(due_ns))
        if frame is None:
            sizes, chosen = length[first:last], content[ends[first] : ends[last]]
        else:
            sizes, chosen = length[frame[first:last]], _picked(content, ends, frame[first:last])
        file.write(_records(due_ns[first:last], sizes, chosen).tobytes())


def _picked(content: U8, ends: I64, frame: I64) -> U8:
    """The bytes of these frames one after the other; frame ``i`` ends at ``ends[i + 1]``."""
    # An index of every byte would take eight times what it points to.
    view = content.data
    starts_ends = zip(ends[frame].tolist(), ends[frame + 1].tolist(), strict=True)
    return np.frombuffer(b"".join([view[start:end] for start, end in starts_ends]), dtype=np.uint8)


def _records(due_ns: npt.NDArray[np.uint64], length: npt.NDArray[np.uint32], content: U8) -> U8:
    """The frames, each preceded by its record header."""
    at_ns = due_ns.astype(np.int64)
    header = np.empty((len(at_ns), 4), dtype="<u4")
    header[:, 0] = ORIGIN_UNIX_S + at_ns // NS_PER_S
    header[:, 1] = at_ns % NS_PER_S
    header[:, 2] = header[:, 3] = length
    starts = np.arange(len(at_ns), dtype=np.int64) * _RECORD_BYTES
    starts[1:] += np.cumsum(length[:-1], dtype=np.int64)
    records = np.empty(_RECORD_BYTES * len(at_ns) + len(content), dtype=np.uint8)
    of_header = np.zeros(len(records), dtype=np.bool_)
    of_header[(starts[:, None] + np.arange(_RECORD_BYTES)).ravel()] = True
    records[of_header] = header.view(np.uint8).ravel()
    records[~of_header] = content
    return records
