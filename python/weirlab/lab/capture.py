"""A schedule as a capture file: what tcpdump would have seen of it, without sending anything.

The format is pcap with time stamps in nanoseconds (draft-ietf-opsawg-pcap), which Wireshark, tcpdump
and everything built on libpcap read.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from weirlab.errors import InputError, LabError, StoreError
from weirlab.lab import wiring
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S
from weirlab.traffic.schedule import Plan
from weirlab.units import NS_PER_S

_MAGIC_NS: Final = 0xA1B23C4D
_ETHERNET: Final = 1
_RECORD_BYTES: Final = 16
_SNAPLEN: Final = 262_144
_FRAMES_AT_ONCE: Final = 1 << 16

U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Captured:
    """What was written; ``lasts_ns`` is from the first frame to the last."""

    path: Path
    frames: int
    file_bytes: int
    lasts_ns: int


def check(path: Path, option: str = "--write") -> None:
    """Raise ``InputError`` for a file that cannot be written later, before anything is computed."""
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise InputError(f"{option} {path}: that is a folder; name a file in it, e.g. {path / 'calls.pcap'}")


def write_plan(path: Path, plan: Plan) -> Captured:
    """Write every frame of ``plan`` to ``path``, as between sender and receiver on one cable.

    Frames of the flows that are sent from the receiver's side are among them; all have the time
    at which they are due.

    Raises
    ------
    InputError
        The plan has no frames of its own, because it repeats or is not paced.
    StoreError
        The disk refuses; nothing stays behind.
    """
    try:
        from weirlab import _engine
    except ImportError as error:
        raise LabError(f"the engine is not built ({error}); make build builds it") from error
    tx, rx = _mac(wiring.TX0.mac), _mac(wiring.RX0.mac)
    try:
        raw = _engine.frames(plan, tx, rx, rx, tx)
    except ValueError as error:
        raise InputError(f"this traffic cannot be written as a capture: {error}") from error
    return write_frames(path, raw["due_ns"], raw["length"], raw["bytes"])


def write_frames(
    path: Path, due_ns: npt.NDArray[np.uint64], length: npt.NDArray[np.uint32], content: U8
) -> Captured:
    """Write frames to ``path`` in one step.

    Parameters
    ----------
    path
        Where to; what was there is replaced.
    due_ns
        Time of each frame from the start of the schedule, shape (frames,).
    length
        Its bytes, without FCS, shape (frames,).
    content
        All frames one after the other.

    Raises
    ------
    StoreError
        The disk refuses; ``path`` keeps what it had.
    """
    scratch: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        scratch = Path(name)
        with os.fdopen(handle, "wb") as file:
            _write(file, due_ns, length, content)
            size = file.tell()
        scratch.chmod(0o644)
        scratch.replace(path)
    except OSError as error:
        way_out = "choose another place"
        if error.errno == errno.ENOSPC:
            way_out = "free some space there, or write fewer calls or seconds"
        raise StoreError(f"{path} cannot be written: {error.strerror}; {way_out}") from error
    finally:
        if scratch is not None:
            with suppress(OSError):
                scratch.unlink()
    n = len(due_ns)
    return Captured(path, n, size, int(due_ns[-1] - due_ns[0]) if n else 0)


def _write(
    file: IO[bytes], due_ns: npt.NDArray[np.uint64], length: npt.NDArray[np.uint32], content: U8
) -> None:
    file.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _SNAPLEN, _ETHERNET))
    ends = np.concatenate(([0], np.cumsum(length, dtype=np.int64)))
    for first in range(0, len(due_ns), _FRAMES_AT_ONCE):
        last = min(first + _FRAMES_AT_ONCE, len(due_ns))
        records = _records(due_ns[first:last], length[first:last], content[ends[first] : ends[last]])
        file.write(records.tobytes())


def _records(due_ns: npt.NDArray[np.uint64], length: npt.NDArray[np.uint32], content: U8) -> U8:
    """Frames with the record header before each."""
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


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
