"""What was read, carried out by the engine without any network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weirlab._engine import emulate_path
from weirlab.base.errors import InputError
from weirlab.emulation.reading import read_path
from weirlab.emulation.spec import PathSpec

MS = 1_000_000


def carried(spec: PathSpec, count: int, gap_ns: int, frame_bytes: int = 1250) -> dict[str, Any]:
    """What becomes of evenly spaced frames."""
    at_ns = np.arange(count, dtype=np.uint64) * np.uint64(gap_ns)
    return emulate_path(spec.plain(), at_ns, np.full(count, frame_bytes, np.uint32))


def test_rate_queue_and_delay_are_those_of_the_words() -> None:
    # 1250 bytes at 10 Mbit/s take 1 ms; twice as many come.
    found = carried(read_path({"rate": "10Mbps", "queue": "5pkts", "delay": "25ms"}), 100, MS // 2)
    gaps = np.diff(found["due_ns"].astype(np.int64))
    assert found["due_ns"][0] == 26 * MS
    assert set(gaps.tolist()) == {MS}
    assert found["dropped_full"] == found["arrived"] - found["departed"] > 40


def test_numbered_frames_are_lost_and_no_others() -> None:
    found = carried(read_path({"loss": "frames=5,17,/100"}), 300, MS)
    # Frames are numbered from 1, the engine's answer from 0.
    assert set(range(300)) - set(found["frame"].tolist()) == {4, 16, 99, 199, 299}


def test_overhead_counts_towards_the_rate() -> None:
    found = carried(read_path({"rate": "10Mbps", "overhead": "24"}), 10, 0, 1226)
    assert found["due_ns"].tolist() == [n * MS for n in range(1, 11)]


def test_held_back_frames_are_overtaken() -> None:
    found = carried(read_path({"reorder": "frames=3,by=25ms"}), 8, 10 * MS)
    assert found["frame"].tolist() == [0, 1, 3, 4, 2, 5, 6, 7]


def test_a_direction_draws_other_numbers_than_the_other() -> None:
    up = read_path({"loss": "20%"})
    first, again, other = (carried(spec, 200, MS)["frame"].tolist() for spec in (up, up, up.reseeded()))
    assert first == again != other


def test_a_path_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="rate: 1 bit/s"):
        carried(PathSpec(rate_bps=1), 1, MS)


def test_arrays_that_do_not_fit_are_refused() -> None:
    times, lengths = np.array([2, 1], np.uint64), np.array([100, 100], np.uint32)
    for at_ns, frame_bytes in ((times, lengths), (times[:1], lengths)):
        with pytest.raises(ValueError, match="one length"):
            emulate_path(PathSpec().plain(), at_ns, frame_bytes)
