"""How long the device was kept from running by others."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.lab.host import HostReader
from weirlab.lab.linux import scheduling

MS = 1_000_000


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "stat").write_text("cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\n")
    (tmp_path / "meminfo").write_text("")
    for thread in (7, 8):
        (tmp_path / str(thread)).mkdir()
    return tmp_path


def spend(proc: Path, **ran_and_waited_ms: tuple[int, int]) -> None:
    for thread, (ran, waited) in ran_and_waited_ms.items():
        (proc / thread.removeprefix("t") / "schedstat").write_text(f"{ran * MS} {waited * MS} 3\n")


def waited_s(proc: Path, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> float:
    reader = HostReader({"dut": 0}, proc=proc)
    reader.watch([int(thread[1:]) for thread in before])
    spend(proc, **before)
    first = reader.sample().dut_wait_s
    spend(proc, **after)
    second = reader.sample().dut_wait_s
    assert first is not None
    assert second is not None
    return second - first


def test_a_thread_alone_waits_for_others_only(proc: Path) -> None:
    assert waited_s(proc, {"t7": (10, 5)}, {"t7": (50, 9)}) == pytest.approx(0.004)


def test_threads_that_take_turns_wait_for_the_device_itself(proc: Path) -> None:
    before, after = {"t7": (0, 0), "t8": (0, 0)}, {"t7": (40, 30), "t8": (30, 40)}
    assert waited_s(proc, before, after) == 0


def test_what_one_waited_beyond_the_others_work_is_somebody_elses(proc: Path) -> None:
    before, after = {"t7": (0, 0), "t8": (0, 0)}, {"t7": (40, 35), "t8": (30, 40)}
    assert waited_s(proc, before, after) == pytest.approx(0.005)


def test_what_was_waited_before_the_first_sample_does_not_count(proc: Path) -> None:
    assert waited_s(proc, {"t7": (0, 900)}, {"t7": (10, 900)}) == 0


def test_a_kernel_that_does_not_tell_is_not_guessed_at(proc: Path) -> None:
    reader = HostReader({"dut": 0}, proc=proc)
    reader.watch([9])
    assert reader.sample().dut_wait_s is None


def test_threads_that_a_process_begins_belong_to_the_device(proc: Path) -> None:
    (proc / "7" / "task" / "7").mkdir(parents=True)
    reader = HostReader({"dut": 0}, proc=proc)
    reader.watch([], processes=[7])
    spend(proc, t7=(10, 0))
    first = reader.sample().dut_wait_s
    # The first waits while the new one runs.
    (proc / "7" / "task" / "8").mkdir()
    spend(proc, t7=(40, 30), t8=(30, 0))
    assert reader.sample().dut_wait_s == first
    # What they waited beyond is somebody else's, for whom both waited at the same time.
    spend(proc, t7=(40, 34), t8=(30, 3))
    assert reader.sample().dut_wait_s == pytest.approx(0.004)
    # A process that has ended is asked no more.
    reader.watch([8], processes=[9])
    assert reader.sample().dut_wait_s == 0


@pytest.mark.parametrize(
    ("name", "state", "waiting"),
    [
        ("ksoftirqd/1", "R", True),
        ("napi/rx0-8203", "R", True),
        ("ksoftirqd/0", "S", False),
        ("python) R (3", "S", False),
        ("sender", "R", False),
    ],
)
def test_packets_wait_for_threads_of_the_kernel_that_receive(
    name: str, state: str, waiting: bool, proc: Path
) -> None:
    (proc / "7" / "comm").write_text(f"{name}\n")
    (proc / "7" / "stat").write_text(f"7 ({name}) {state} 2 0 0 0 -1\n")
    assert scheduling.waiting(proc) is waiting
