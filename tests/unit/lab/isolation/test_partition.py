"""What becomes of the machine's control groups while CPUs are isolated, and afterwards."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from weirlab.lab.isolation import groups as version_1
from weirlab.lab.isolation import partition
from weirlab.lab.isolation.groups import CgroupHierarchy, IsolationError, LegacyGroup, find
from weirlab.lab.isolation.partition import Isolation

from .made import FakeGroups, everything, legacy, unified

FOUR = frozenset(range(4))
MEASURING = frozenset({1, 2})


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "0123abcd.cpuset"


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_held", None)


def isolate(groups: FakeGroups, journal: Path, **how: Any) -> Isolation:
    return partition.make(journal, MEASURING, find=lambda: groups, allowed=FOUR, **how)


def give_back(groups: FakeGroups, journal: Path) -> bool:
    return partition.give_back(journal, lambda: groups)


def test_in_version_2_the_cpus_are_an_isolated_partition_beside_this_process(
    tmp_path: Path, journal: Path
) -> None:
    groups = unified(tmp_path / "cgroup")
    found = isolate(groups, journal)
    assert (found.state, found.remedy) == ("isolated", "")
    assert found.words == "CPUs 1,2: isolated partition (control groups v2)"
    assert groups.read("weir-0123abcd/measuring", "cpuset.cpus.partition") == "isolated"
    assert groups.read("weir-0123abcd/measuring", "cpuset.cpus") == "1,2"
    assert groups.read("weir-0123abcd/measuring", "cgroup.type") == "threaded"
    assert groups.members("weir-0123abcd", "cgroup.procs") == [os.getpid()]


@pytest.mark.parametrize("enabled", [False, True])
def test_in_version_2_everything_is_as_before_when_it_is_given_back(
    enabled: bool, tmp_path: Path, journal: Path
) -> None:
    groups = unified(tmp_path / "cgroup", enabled=enabled)
    groups.write("/user.slice", "cgroup.procs", os.getpid())
    names = {"cpu", "memory", *(["cpuset"] if enabled else [])}
    before = groups.members("/user.slice", "cgroup.procs")
    isolate(groups, journal)
    assert groups.members("/user.slice", "cgroup.procs") == []
    assert give_back(groups, journal)
    assert groups.children("/") == ["user.slice"]
    assert set(groups.read("/", "cgroup.subtree_control").split()) == names
    assert groups.members("/user.slice", "cgroup.procs") == before
    assert not journal.exists()
    assert give_back(groups, journal), "a second time does nothing"


def test_a_controller_that_others_use_by_now_stays_enabled(tmp_path: Path, journal: Path) -> None:
    groups = unified(tmp_path / "cgroup")
    isolate(groups, journal)
    groups.write("/user.slice", "cpuset.cpus", "0-1")
    assert give_back(groups, journal)
    assert "cpuset" in groups.read("/", "cgroup.subtree_control")


def test_where_an_isolated_partition_is_refused_one_with_load_balancing_does(
    tmp_path: Path, journal: Path
) -> None:
    said = {"isolated": "isolated invalid (whatever)"}
    groups = unified(tmp_path / "cgroup", said=said)
    found = isolate(groups, journal)
    assert found.state == "isolated"
    assert "with load balancing" in found.words
    assert groups.read("weir-0123abcd/measuring", "cpuset.cpus.partition") == "root"


@pytest.mark.parametrize(
    ("how", "detail", "remedy"),
    [
        (
            {"said": {kind: f"{kind} invalid (Cpu list not exclusive)" for kind in ("isolated", "root")}},
            "Cpu list not exclusive",
            "cpuset.cpus.exclusive",
        ),
        ({"without": frozenset({"cpuset.cpus.exclusive"})}, "no remote partitions", "Linux 6.7"),
        ({"refused": {("cgroup.subtree_control", "+cpuset"): errno.EBUSY}}, "subtree_control", "delegate"),
        ({"refused": {("cgroup.subtree_control", "+cpuset"): errno.EROFS}}, "subtree_control", "read-write"),
        ({"refused": {("cgroup.procs", str(os.getpid())): errno.EPERM}}, "cgroup.procs", "root"),
        ({"refused": {("cpuset.cpus.exclusive", "1,2"): errno.EINVAL}}, "exclusive", "to itself"),
    ],
)
def test_what_is_refused_is_told_with_a_remedy_and_leaves_nothing(
    how: dict[str, Any], detail: str, remedy: str, tmp_path: Path, journal: Path
) -> None:
    groups = unified(tmp_path / "cgroup", **how)
    found = isolate(groups, journal)
    assert found.state == "refused"
    assert detail in found.words
    assert remedy in found.remedy
    assert groups.children("/") == ["user.slice"]
    assert set(groups.read("/", "cgroup.subtree_control").split()) == {"cpu", "memory"}
    assert not journal.exists()


@pytest.mark.parametrize(("file", "limit"), [("memory.max", "1000000000"), ("cpu.max", "50000 100000")])
def test_a_process_under_a_limit_does_not_leave_it(
    file: str, limit: str, tmp_path: Path, journal: Path
) -> None:
    groups = unified(tmp_path / "cgroup", enabled=True)
    groups.path("/user.slice", file).write_text("max")
    groups.make("/user.slice/session")
    inside = FakeGroups(groups.mount, 2, "/user.slice/session")
    assert isolate(inside, journal).state == "isolated"
    assert give_back(inside, journal)
    groups.path("/user.slice", file).write_text(limit)
    found = isolate(inside, journal)
    assert found.state == "refused"
    assert f"{file} of the control group /user.slice" in found.words


def test_with_two_cpus_nothing_is_touched(tmp_path: Path, journal: Path) -> None:
    groups = unified(tmp_path / "cgroup")
    before = everything(groups)
    found = partition.make(journal, {0, 1}, find=lambda: groups, allowed=frozenset({0, 1}))
    assert found.state == "not needed"
    assert "none would remain" in found.words
    assert everything(groups) == before
    assert not journal.exists()


def test_a_cpu_with_a_recorder_does_not_remain_for_others(tmp_path: Path, journal: Path) -> None:
    groups = unified(tmp_path / "cgroup")
    three = frozenset({0, 1, 2})
    found = partition.make(journal, {0, 1}, spared={2}, find=lambda: groups, allowed=three)
    assert found.state == "not needed"
    assert partition.make(journal, {0, 1}, find=lambda: groups, allowed=three).state == "isolated"


def test_beside_another_lab_no_cpu_is_taken_away(tmp_path: Path, journal: Path) -> None:
    groups = unified(tmp_path / "cgroup")
    before = everything(groups)
    found = isolate(groups, journal, alone=False)
    assert found.state == "refused"
    assert "another lab" in found.words
    assert everything(groups) == before


def test_a_killed_owner_is_cleaned_up_after_from_the_journal_alone(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = unified(tmp_path / "cgroup")
    before = everything(groups)
    isolate(groups, journal)
    groups.path("weir-0123abcd", "cgroup.procs").write_text("")  # it was killed
    groups.path("weir-0123abcd", "cgroup.threads").write_text("")
    monkeypatch.setattr(partition, "_held", None)
    assert give_back(FakeGroups(groups.mount, 2, "/elsewhere"), journal)
    after = everything(groups)
    assert {name: after[name] for name in before} == before
    assert groups.children("/") == ["user.slice"]


def test_what_has_members_left_is_kept_in_the_journal_for_the_next_time(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.lab.isolation.unified._PATIENCE_S", 0.0)
    groups = unified(tmp_path / "cgroup")
    isolate(groups, journal)
    groups.refused["cgroup.procs", str(os.getpid())] = errno.ESRCH
    assert not give_back(groups, journal)
    assert journal.exists()
    inner = "weir-0123abcd/measuring"
    assert (inner, "cpuset.cpus.partition", "member") in groups.log, "its CPUs are free"
    groups.refused.clear()
    assert give_back(groups, journal)
    assert not groups.exists("weir-0123abcd")


def test_a_journal_that_was_cut_short_stands_for_nothing(journal: Path) -> None:
    journal.write_text('{"version": 2, "gro')
    assert partition.give_back(journal, lambda: pytest.fail("nothing was changed"))
    assert not journal.exists()


def test_a_kernel_thread_joins_the_partition_when_its_cpu_is_closed(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = unified(tmp_path / "cgroup")
    isolate(groups, journal)
    closed_to_others(groups, monkeypatch)
    partition.bind(4711, 2)
    assert groups.members("weir-0123abcd/measuring", "cgroup.threads") == [4711]


def test_the_binding_is_worth_more_than_the_partition(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = unified(tmp_path / "cgroup", refused={("cgroup.threads", "4711"): errno.EINVAL})
    found = isolate(groups, journal)
    closed_to_others(groups, monkeypatch)
    partition.bind(4711, 2)
    assert not groups.exists("weir-0123abcd")
    assert partition.as_it_stands(found, journal).state == "refused"


def closed_to_others(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the kernel refuse the CPUs of a partition to whoever is not in it."""

    def bind(thread: int, cpus: set[int]) -> None:
        inner = "weir-0123abcd/measuring"
        if groups.exists(inner) and thread not in groups.members(inner, "cgroup.threads"):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("os.sched_setaffinity", bind)


def test_in_version_1_what_can_be_moved_is_elsewhere_and_comes_back(tmp_path: Path) -> None:
    groups = legacy(tmp_path / "cpuset", (1, 2, 10, 11, 12), refused={("tasks", "12"): errno.EINVAL})
    what = LegacyGroup("weir-0123abcd")
    bound = {11: {3}}
    before = everything(groups)
    kind = version_1.make_legacy(groups, what, MEASURING, affinity=lambda task: bound.get(task, set(FOUR)))
    assert kind == "exclusive"
    assert groups.read("weir-0123abcd-rest", "cpuset.cpus") == "0,3"
    assert groups.read("weir-0123abcd", "cpuset.cpus") == "1,2"
    assert groups.read("weir-0123abcd", "cpuset.cpu_exclusive") == "1"
    assert groups.members("weir-0123abcd-rest", "tasks") == [1, 10]
    assert groups.members("/", "tasks") == [2, 11, 12], "kthreadd, bound on purpose, refused by the kernel"
    assert version_1.undo_legacy(groups, what)
    after = everything(groups)
    assert sorted(after.pop("tasks").split()) == sorted(before.pop("tasks").split())
    assert after == before


def test_in_version_1_this_process_keeps_all_cpus(tmp_path: Path) -> None:
    groups = legacy(tmp_path / "cpuset", (1, os.getpid()))
    version_1.make_legacy(groups, LegacyGroup("weir-0123abcd"), MEASURING, affinity=lambda task: set(FOUR))
    assert groups.members("/", "tasks") == [os.getpid()]


def test_in_version_1_groups_of_others_with_the_same_cpus_are_named(tmp_path: Path, journal: Path) -> None:
    groups = legacy(tmp_path / "cpuset", refused={("cpuset.cpu_exclusive", "1"): errno.EINVAL})
    groups.make("docker")
    found = isolate(groups, journal)
    assert found.state == "refused"
    assert "docker" in found.words
    assert groups.children("/") == ["docker"]


def test_in_version_1_a_process_that_is_confined_itself_moves_nobody(tmp_path: Path, journal: Path) -> None:
    found = isolate(legacy(tmp_path / "cpuset", (1,), home="/docker/x"), journal)
    assert found.state == "refused"
    assert "/docker/x" in found.words


V1 = "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n"
V2 = "cgroup2 {mount} cgroup2 rw 0 0\n"


def machine(tmp_path: Path, mounts: str, homes: str) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text(mounts)
    (tmp_path / "proc/self/cgroup").write_text(homes)
    return tmp_path / "proc"


def test_the_hierarchy_that_has_the_controller_counts(tmp_path: Path) -> None:
    mount = unified(tmp_path / "cgroup").mount
    both = machine(tmp_path / "both", V2.format(mount=mount) + V1, "3:cpuset:/\n0::/init.scope\n")
    assert find(both) == CgroupHierarchy(Path("/sys/fs/cgroup/cpuset"), 1, "/")
    one = machine(tmp_path / "one", V2.format(mount=mount), "0::/user.slice\n")
    assert find(one) == CgroupHierarchy(mount, 2, "/user.slice")


def test_a_machine_without_the_controller_says_so(tmp_path: Path) -> None:
    mount = unified(tmp_path / "cgroup").mount
    (mount / "cgroup.controllers").write_text("cpu memory")
    with pytest.raises(IsolationError, match="cpuset controller"):
        find(machine(tmp_path / "two", V2.format(mount=mount), "0::/\n"))
    with pytest.raises(IsolationError, match="no control groups"):
        find(machine(tmp_path / "none", "proc /proc proc rw 0 0\n", "0::/\n"))
