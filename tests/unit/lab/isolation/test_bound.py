"""Kernel threads that a partition unbinds, and that are bound again."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.lab.isolation.unified import bind_again, bound_threads

KERNEL, FIXED, ORDINARY = 0x0020_8040, 0x0420_8040, 0x0040_0000
FOUR = frozenset(range(4))


class Threads:
    def __init__(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc = proc
        self.affinity: dict[int, set[int]] = {}
        self.log: list[tuple[int, set[int]]] = []
        monkeypatch.setattr("os.sched_getaffinity", lambda who: self.affinity[who])
        monkeypatch.setattr("os.sched_setaffinity", lambda who, cpus: self.log.append((who, set(cpus))))

    def add(self, number: int, flags: int, cpus: set[int], started: int = 7) -> None:
        (self.proc / str(number)).mkdir(exist_ok=True)
        fields = ["S", "2", "0", "0", "0", "-1", str(flags), *["0"] * 12, str(started), "0"]
        (self.proc / str(number) / "stat").write_text(f"{number} (irq/9-a) c) {' '.join(fields)}\n")
        self.affinity[number] = cpus


@pytest.fixture
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Threads:
    (tmp_path / "sys").mkdir()
    return Threads(tmp_path, monkeypatch)


def test_threads_of_the_kernel_that_may_be_bound_and_are_count(threads: Threads) -> None:
    threads.add(10, KERNEL, {1})
    threads.add(11, KERNEL, {0, 1, 2, 3})
    threads.add(12, FIXED, {1})
    threads.add(13, ORDINARY, {1})
    assert bound_threads(FOUR, threads.proc) == [(10, 7, (1,))]


def test_they_get_their_cpus_back_if_they_lost_them(threads: Threads) -> None:
    threads.add(10, KERNEL, {1})
    threads.add(11, KERNEL, {3})
    threads.add(12, KERNEL, {2})
    found = sorted(bound_threads(FOUR, threads.proc))
    threads.add(10, KERNEL, {0, 1, 2, 3})
    threads.add(12, KERNEL, {0, 1, 2, 3}, started=900)
    bind_again(found, threads.proc)
    assert threads.log == [(10, {1})], "11 has them still, and 12 is another thread by now"


def test_a_thread_that_has_ended_is_no_error(threads: Threads) -> None:
    bind_again([(10, 7, (1,))], threads.proc)
    assert threads.log == []
