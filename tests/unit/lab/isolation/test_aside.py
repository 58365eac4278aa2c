"""Whose CPUs change while a trial lasts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weirlab.lab.cores import aside, descendants


class Machine:
    """Processes and threads with affinities, as /proc and the scheduler show them."""

    def __init__(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc = proc
        self.affinity: dict[int, set[int]] = {}
        self.me = os.getpid()
        monkeypatch.setattr("os.sched_getaffinity", lambda who: set(self.affinity[who or self.me]))
        monkeypatch.setattr("os.sched_setaffinity", self._set)

    def process(self, number: int, *children: int, threads: tuple[int, ...] = ()) -> None:
        for thread in (number, *threads):
            folder = self.proc / str(number) / "task" / str(thread)
            folder.mkdir(parents=True)
            (folder / "children").write_text(" ".join(map(str, children)) if thread == number else "")
            self.affinity.setdefault(thread, {0, 1, 2, 3})

    def _set(self, who: int, cpus: set[int]) -> None:
        if who not in self.affinity:
            raise ProcessLookupError(3, "No such process")
        self.affinity[who] = set(cpus)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_threads_and_children_go_elsewhere_and_come_back(machine: Machine) -> None:
    machine.process(machine.me, 50, threads=(machine.me + 1,))
    machine.process(50, 51)
    machine.process(51)
    machine.process(99)
    before = dict(machine.affinity)
    with aside({0, 1}, machine.proc):
        ours = (machine.me, machine.me + 1, 50, 51)
        assert all(machine.affinity[who] == {2, 3} for who in ours)
        assert machine.affinity[99] == {0, 1, 2, 3}, "somebody else's"
    assert machine.affinity == before


def test_whoever_was_bound_on_purpose_keeps_its_cpus(machine: Machine) -> None:
    machine.affinity = {50: {1}, 51: {2}}
    machine.process(machine.me, 50, 51)
    machine.process(50)
    machine.process(51)
    with aside({0, 1}, machine.proc):
        assert (machine.affinity[50], machine.affinity[51]) == ({1}, {2})
    assert (machine.affinity[50], machine.affinity[51]) == ({1}, {2})


def test_without_other_cpus_nothing_changes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.process(machine.me)
    machine.affinity[machine.me] = {0, 1}
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: pytest.fail("nothing to do"))
    with aside({0, 1}, machine.proc):
        pass


def test_what_ends_meanwhile_and_what_binds_itself_is_left_alone(machine: Machine) -> None:
    machine.process(machine.me, 50, 51)
    machine.process(50)
    machine.process(51)
    with aside({0, 1}, machine.proc):
        # 50 has ended, and its number belongs to somebody else, who happens to have the same CPUs.
        (machine.proc / str(machine.me) / "task" / str(machine.me) / "children").write_text("51")
        machine.affinity[51] = {3}
    assert machine.affinity[50] == {2, 3}
    assert machine.affinity[51] == {3}
    assert machine.affinity[machine.me] == {0, 1, 2, 3}


def test_an_error_in_the_trial_gives_the_cpus_back(machine: Machine) -> None:
    machine.process(machine.me)
    with pytest.raises(ZeroDivisionError), aside({0, 1}, machine.proc):
        raise ZeroDivisionError
    assert machine.affinity[machine.me] == {0, 1, 2, 3}


def test_this_very_process_is_among_its_descendants() -> None:
    assert os.getpid() in descendants(os.getpid())
