"""Which CPUs are chosen, and how this process stays off them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError, MissingCapability
from weirlab.lab.cores import Cores, aside, choose, descendants, parse_list, share_a_core


def cpu_folder(folder: Path, siblings: list[str], packages: list[int] | None = None) -> Path:
    """A /sys/devices/system/cpu with one CPU per entry of ``siblings``."""
    for cpu, text in enumerate(siblings):
        topology = folder / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
        (topology / "physical_package_id").write_text(f"{packages[cpu] if packages else 0}\n")
    return folder


def test_two_cores_are_both_used(tmp_path: Path) -> None:
    assert choose(allowed=[0, 1], cpus=cpu_folder(tmp_path, ["0", "1"])) == Cores(sender=0, dut=1)


def test_each_further_sender_has_a_cpu_of_its_own(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, ["0", "1", "2", "3", "4"])
    found = choose(senders=3, allowed=range(5), cpus=cpus)
    assert len({*found.senders, found.dut}) == 4
    assert 0 not in found.senders
    with pytest.raises(MissingCapability, match="2 senders and the receiver need 3 CPUs"):
        choose(senders=2, allowed=[0, 1], cpus=cpus)


def test_threads_of_one_core_are_avoided(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, ["0-1", "0-1", "2-3", "2-3"])
    chosen = choose(allowed=range(4), cpus=cpus)
    assert chosen == Cores(sender=0, dut=2)
    assert not share_a_core(chosen, cpus)


def test_threads_of_one_core_do_where_there_is_nothing_else(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, ["0-1", "0-1"])
    chosen = choose(allowed=[0, 1], cpus=cpus)
    assert chosen == Cores(sender=0, dut=1)
    assert share_a_core(chosen, cpus)


def test_core_of_cpu_0_stays_free_where_there_are_three(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, ["0,3", "1,4", "2,5", "0,3", "1,4", "2,5"])
    assert choose(allowed=range(6), cpus=cpus) == Cores(sender=1, dut=2)


def test_both_come_from_one_package(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, ["0", "1", "2", "3"], packages=[0, 0, 1, 1])
    assert choose(sender=2, allowed=range(4), cpus=cpus) == Cores(sender=2, dut=3)


def test_a_fixed_choice_is_kept(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, ["0", "1", "2"])
    assert choose(dut=0, allowed=range(3), cpus=cpus).dut == 0
    assert choose(sender=1, dut=0, allowed=range(3), cpus=cpus) == Cores(sender=1, dut=0)


def test_affinity_of_the_process_is_respected(tmp_path: Path) -> None:
    cpus = cpu_folder(tmp_path, [str(cpu) for cpu in range(8)])
    assert choose(allowed=[5, 7], cpus=cpus) == Cores(sender=5, dut=7)


def test_machine_without_topology_is_taken_as_separate_cores(tmp_path: Path) -> None:
    assert choose(allowed=[0, 1], cpus=tmp_path) == Cores(sender=0, dut=1)


def test_one_cpu_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(MissingCapability, match="may use 1"):
        choose(allowed=[0], cpus=tmp_path)


def test_impossible_choices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"CPU 9 cannot be used; these can: 0, 1"):
        choose(dut=9, allowed=[0, 1], cpus=tmp_path)
    with pytest.raises(InputError, match="cannot share CPU 1"):
        choose(sender=1, dut=1, allowed=[0, 1], cpus=tmp_path)


@given(st.sets(st.integers(0, 7), min_size=2))
def test_sender_and_device_are_never_the_same(allowed: set[int]) -> None:
    chosen = choose(allowed=allowed, cpus=Path("/nonexistent"))
    assert chosen.sender != chosen.dut
    assert {chosen.sender, chosen.dut} <= allowed


@pytest.mark.parametrize(
    ("text", "numbers"), [("0\n", {0}), ("0-2,5\n", {0, 1, 2, 5}), ("\n", set()), ("1,3,8-9", {1, 3, 8, 9})]
)
def test_lists_of_cpus_are_read_as_the_kernel_writes_them(text: str, numbers: set[int]) -> None:
    assert parse_list(text) == numbers


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
