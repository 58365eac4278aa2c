"""Why real-time priority is refused, from what the kernel shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.lab.linux import scheduling

ALL = "000001ffffffffff"
NONE = "0000000000000000"


def machine(tmp_path: Path, capabilities: str, groups: str = "0::/\n", mounts: str = "") -> Path:
    (tmp_path / "self").mkdir()
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    (tmp_path / "self/cgroup").write_text(groups)
    (tmp_path / "self/mounts").write_text(mounts)
    return tmp_path


def test_a_container_without_the_capability_is_told_to_add_it(tmp_path: Path) -> None:
    why, remedy = scheduling.why_refused(machine(tmp_path, NONE))
    assert "lacks CAP_SYS_NICE" in why
    assert "--cap-add SYS_NICE" in remedy


@pytest.mark.parametrize(("budget_us", "told"), [(0, True), (950_000, False)])
def test_a_group_without_a_budget_is_named_with_its_file(tmp_path: Path, budget_us: int, told: bool) -> None:
    group = tmp_path / "cpu/jobs"
    group.mkdir(parents=True)
    (group / "cpu.rt_runtime_us").write_text(f"{budget_us}\n")
    mounts = f"cgroup {tmp_path / 'cpu'} cgroup rw,cpu,cpuacct 0 0\n"
    proc = machine(tmp_path, ALL, "2:cpu,cpuacct:/jobs\n", mounts)
    why, remedy = scheduling.why_refused(proc)
    assert ("/jobs has no budget" in why) is told
    assert (str(group / "cpu.rt_runtime_us") in remedy) is told


def test_in_version_2_the_root_group_alone_has_real_time(tmp_path: Path) -> None:
    why, remedy = scheduling.why_refused(machine(tmp_path, ALL, "0::/user.slice\n"))
    assert "CONFIG_RT_GROUP_SCHED" in why
    assert "rt_group_sched=0" in remedy


def test_where_nothing_tells_no_reason_is_made_up(tmp_path: Path) -> None:
    assert scheduling.why_refused(machine(tmp_path, ALL))[0] == ""


@pytest.mark.parametrize(
    ("limit_us", "longest_s"), [("950000", 0.9), ("500000", 0.475), ("0", 0.0), ("-1", 0.9), ("", 0.9)]
)
def test_the_kernels_limit_bounds_the_trials(tmp_path: Path, limit_us: str, longest_s: float) -> None:
    proc = machine(tmp_path, ALL)
    (proc / "sys/kernel/sched_rt_runtime_us").write_text(limit_us)
    assert scheduling.longest_s(proc) == pytest.approx(longest_s)
