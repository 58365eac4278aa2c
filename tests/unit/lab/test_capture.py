from __future__ import annotations

import errno
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from weirlab.errors import InputError, StoreError
from weirlab.lab import capture
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S

from .captures import needs_tshark, read, tshark, udp_frame, write


def test_every_frame_is_there_with_its_time_to_the_nanosecond(tmp_path: Path) -> None:
    frames = [(0.0, b"a" * 60), (0.000001, b"b" * 61), (999.999999, b"c" * 1514), (65_540.5, b"d" * 60)]
    path = write(tmp_path / "x.pcap", frames)
    assert read(path) == [(round(at_ms * 1e6), frame) for at_ms, frame in frames]


def test_more_frames_than_are_written_at_once_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_FRAMES_AT_ONCE", 7)
    frames = [(float(i), bytes([i]) * (60 + i % 5)) for i in range(50)]
    assert read(write(tmp_path / "x.pcap", frames)) == [
        (i * 1_000_000, frame) for i, (_, frame) in enumerate(frames)
    ]


def test_what_was_written_is_told(tmp_path: Path) -> None:
    done = capture.write_frames(
        tmp_path / "x.pcap",
        np.array([5, 2_000_000_005], dtype=np.uint64),
        np.array([60, 70], dtype=np.uint32),
        np.zeros(130, dtype=np.uint8),
    )
    assert (done.frames, done.lasts_ns) == (2, 2_000_000_000)
    assert done.file_bytes == done.path.stat().st_size == 24 + 2 * 16 + 130


def test_a_capture_of_nothing_is_a_header(tmp_path: Path) -> None:
    done = capture.write_frames(
        tmp_path / "x.pcap",
        np.zeros(0, dtype=np.uint64),
        np.zeros(0, dtype=np.uint32),
        np.zeros(0, dtype=np.uint8),
    )
    assert (done.frames, done.lasts_ns) == (0, 0)
    assert read(done.path) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(b"old")

    def no_space(file: IO[bytes], *_: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(capture, "_write", no_space)
    with pytest.raises(StoreError, match=r"x\.pcap cannot be written: No space left.*fewer calls"):
        write(path, [(0.0, bytes(60))])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_vanished_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory; choose another place"):
        write(tmp_path / "gone" / "x.pcap", [(0.0, bytes(60))])


def test_a_place_that_cannot_be_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        capture.check(tmp_path / "gone" / "x.pcap")
    with pytest.raises(InputError, match="that is a folder"):
        capture.check(tmp_path)
    capture.check(tmp_path / "x.pcap")


@needs_tshark
def test_tshark_reads_times_in_nanoseconds(tmp_path: Path) -> None:
    path = write(tmp_path / "x.pcap", [(0.0, udp_frame(bytes(40), 9)), (0.000123, udp_frame(bytes(40), 9))])
    shown = tshark(path, "-T", "fields", "-e", "frame.time_epoch").split()
    assert shown == [f"{ORIGIN_UNIX_S}.000000000", f"{ORIGIN_UNIX_S}.000000123"]
