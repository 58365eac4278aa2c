"""CPUs that this machine's kernel really isolates, where it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weirlab.base import programs
from weirlab.lab import clean, dut
from weirlab.lab.cores import choose
from weirlab.lab.isolation import groups as control_groups
from weirlab.lab.isolation import partition
from weirlab.lab.isolation.groups import CgroupHierarchy, IsolationError, LegacyGroup
from weirlab.lab.netns import NetnsLab
from weirlab.traffic.spec import Rate, Traffic

pytestmark = pytest.mark.netns

HOLDER = """
import sys
from weirlab.lab import clean
claim = clean.LabOwnership()
claim.isolate(map(int, sys.argv[1:]))
print(claim.identifier, claim.isolation.state, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hierarchy() -> CgroupHierarchy:
    try:
        return control_groups.find()
    except IsolationError as error:
        pytest.skip(error.why)


def state(groups: CgroupHierarchy) -> tuple[list[str], str, str, set[int]]:
    """What a partition must not change for good."""
    control = groups.read("/", "cgroup.subtree_control") if groups.version == 2 else ""
    own = Path("/proc/self/cgroup").read_text()
    return groups.children("/"), control, own, os.sched_getaffinity(0)


def test_a_lab_has_its_cpus_to_itself_and_gives_them_back(made: Any, hierarchy: CgroupHierarchy) -> None:
    before = state(hierarchy)
    with NetnsLab(dut.make("forward")) as lab:
        said = str(lab.facts["isolation"])
        chosen = {int(str(lab.facts["sender_cpu"])), int(str(lab.facts["dut_cpu"]))}
        assert all(os.sched_getaffinity(thread) == {lab.facts["dut_cpu"]} for thread in made.napi_threads)
        result = lab.run(Traffic(Rate(1000), warmup_s=0.0, duration_s=0.05))
        assert result.sent == result.received + result.lost > 0
        if not said.startswith("CPUs"):
            pytest.skip(f"no CPUs are isolated here: {said}")
        with programs.start(["cat"], stdin=subprocess.PIPE) as child:
            assert hierarchy.version == 1 or not os.sched_getaffinity(child.pid) & chosen
            child.communicate()
    assert state(hierarchy) == before
    assert made.left() == []


def test_after_kill_9_cleaning_gives_the_cpus_back(hierarchy: CgroupHierarchy) -> None:
    before = state(hierarchy)
    cpus = [choose().sender, choose().dut]
    if len(before[-1]) == 2 and hierarchy.version == 2:
        # With one of two CPUs a lab has no use for it, but the kernel can be asked.
        cpus.pop()
    command = [sys.executable, "-c", HOLDER, *map(str, cpus)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    identifier, found = holder.stdout.readline().split(maxsplit=1)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    clean.clean()
    assert not (clean.LOCKS / f"{identifier}{partition.JOURNAL}").exists()
    assert not (clean.LOCKS / f"{identifier}.lock").exists()
    assert state(hierarchy) == before
    if found.strip() != "isolated":
        pytest.skip(f"no CPUs are isolated here: {found.strip()}")


@pytest.fixture
def confined(hierarchy: CgroupHierarchy) -> Iterator[CgroupHierarchy]:
    """A cpuset of version 1 that plays the root, so that nobody else's processes move."""
    if hierarchy.version != 1:
        pytest.skip("the cpuset controller is not one of version 1")
    root = CgroupHierarchy(hierarchy.mount / f"weir-test-{os.getpid()}", 1, "/")
    hierarchy.make(root.mount.name)
    try:
        for file in ("cpuset.mems", "cpuset.cpus"):
            root.write("/", file, hierarchy.read("/", file))
        try:
            root.write("/", "cpuset.cpu_exclusive", 1)
        except OSError as error:
            pytest.skip(f"another cpuset has these CPUs: {error}")
        yield root
    finally:
        hierarchy.remove(root.mount.name)


@pytest.fixture
def idle(confined: CgroupHierarchy) -> Iterator[Callable[[], int]]:
    """Starts processes in the cpuset that wait for their end."""
    children: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        children.append(child)
        confined.write("/", "tasks", child.pid)
        return child.pid

    yield start
    for child in children:
        child.communicate()


def test_in_version_1_the_kernel_moves_what_it_may_and_takes_it_back(
    confined: CgroupHierarchy, idle: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The processes of this test are its children, which would stay.
    monkeypatch.setattr(control_groups, "descendants", lambda process, proc: [])
    both = os.sched_getaffinity(0)
    measuring = frozenset({choose().dut})
    free, bound = idle(), idle()
    os.sched_setaffinity(bound, measuring)
    what = LegacyGroup("weir-0123abcd")
    try:
        control_groups.make_legacy(confined, what, measuring)
        assert os.sched_getaffinity(free) == both - measuring
        assert os.sched_getaffinity(bound) == set(measuring)
    finally:
        assert control_groups.undo_legacy(confined, what)
    assert os.sched_getaffinity(free) == both
    assert os.sched_getaffinity(bound) == set(measuring)
    assert confined.children("/") == []
    assert {free, bound} == set(confined.members("/", "tasks"))
