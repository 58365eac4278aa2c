from __future__ import annotations

import errno
import tracemalloc
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from weirlab.base.errors import StoreError
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


def test_chosen_frames_are_written_in_their_order_however_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_FRAMES_AT_ONCE", 7)
    frames = [bytes([i]) * (60 + i % 5) for i in range(50)]
    chosen = np.array([49, 3, 3, *range(48, 9, -1)])
    done = capture.write_frames(
        tmp_path / "x.pcap",
        np.arange(len(chosen), dtype=np.uint64),
        np.array([len(frame) for frame in frames], dtype=np.uint32),
        np.frombuffer(b"".join(frames), dtype=np.uint8),
        chosen,
    )
    assert read(done.path) == [(at_ns, frames[i]) for at_ns, i in enumerate(chosen)]
    assert done.file_bytes == done.path.stat().st_size


def test_choosing_frames_takes_less_memory_than_they_have_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_FRAMES_AT_ONCE", 64)
    n, size = 4000, 1500
    arguments = np.arange(n, dtype=np.uint64), np.full(n, size, np.uint32), np.zeros(n * size, np.uint8)
    tracemalloc.start()
    try:
        capture.write_frames(tmp_path / "x.pcap", *arguments, np.arange(n)[::-1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n * size


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

    def no_space(file: BinaryIO, *_: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(capture, "_write", no_space)
    with pytest.raises(StoreError, match=r"cannot write .*x\.pcap: no space is left.*fewer calls"):
        write(path, [(0.0, bytes(60))])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_vanished_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory; choose another place"):
        write(tmp_path / "gone" / "x.pcap", [(0.0, bytes(60))])


@needs_tshark
def test_tshark_reads_times_in_nanoseconds(tmp_path: Path) -> None:
    path = write(tmp_path / "x.pcap", [(0.0, udp_frame(bytes(40), 9)), (0.000123, udp_frame(bytes(40), 9))])
    shown = tshark(path, "-T", "fields", "-e", "frame.time_epoch").split()
    assert shown == [f"{ORIGIN_UNIX_S}.000000000", f"{ORIGIN_UNIX_S}.000000123"]
