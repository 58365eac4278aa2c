from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError, MissingCapability
from weirlab.lab.cores import Cores, choose, parse_list, share_a_core


def machine(folder: Path, siblings: list[str], packages: list[int] | None = None) -> Path:
    """A /sys/devices/system/cpu with one CPU per entry of ``siblings``."""
    for cpu, text in enumerate(siblings):
        topology = folder / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
        (topology / "physical_package_id").write_text(f"{packages[cpu] if packages else 0}\n")
    return folder


def test_two_cores_are_both_used(tmp_path: Path) -> None:
    assert choose(allowed=[0, 1], cpus=machine(tmp_path, ["0", "1"])) == Cores(sender=0, dut=1)


def test_each_further_sender_has_a_cpu_of_its_own(tmp_path: Path) -> None:
    cpus = machine(tmp_path, ["0", "1", "2", "3", "4"])
    found = choose(senders=3, allowed=range(5), cpus=cpus)
    assert len({*found.senders, found.dut}) == 4
    assert 0 not in found.senders
    with pytest.raises(MissingCapability, match="2 senders and the receiver need 3 CPUs"):
        choose(senders=2, allowed=[0, 1], cpus=cpus)


def test_threads_of_one_core_are_avoided(tmp_path: Path) -> None:
    cpus = machine(tmp_path, ["0-1", "0-1", "2-3", "2-3"])
    chosen = choose(allowed=range(4), cpus=cpus)
    assert chosen == Cores(sender=0, dut=2)
    assert not share_a_core(chosen, cpus)


def test_threads_of_one_core_do_where_there_is_nothing_else(tmp_path: Path) -> None:
    cpus = machine(tmp_path, ["0-1", "0-1"])
    chosen = choose(allowed=[0, 1], cpus=cpus)
    assert chosen == Cores(sender=0, dut=1)
    assert share_a_core(chosen, cpus)


def test_core_of_cpu_0_stays_free_where_there_are_three(tmp_path: Path) -> None:
    cpus = machine(tmp_path, ["0,3", "1,4", "2,5", "0,3", "1,4", "2,5"])
    assert choose(allowed=range(6), cpus=cpus) == Cores(sender=1, dut=2)


def test_both_come_from_one_package(tmp_path: Path) -> None:
    cpus = machine(tmp_path, ["0", "1", "2", "3"], packages=[0, 0, 1, 1])
    assert choose(sender=2, allowed=range(4), cpus=cpus) == Cores(sender=2, dut=3)


def test_a_fixed_choice_is_kept(tmp_path: Path) -> None:
    cpus = machine(tmp_path, ["0", "1", "2"])
    assert choose(dut=0, allowed=range(3), cpus=cpus).dut == 0
    assert choose(sender=1, dut=0, allowed=range(3), cpus=cpus) == Cores(sender=1, dut=0)


def test_affinity_of_the_process_is_respected(tmp_path: Path) -> None:
    cpus = machine(tmp_path, [str(cpu) for cpu in range(8)])
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
