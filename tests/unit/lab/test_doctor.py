"""The doctor must work where nothing else does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from weirlab.base.errors import MissingCapability
from weirlab.lab import clean, doctor, steadiness
from weirlab.lab.isolation.partition import Isolation
from weirlab.lab.linux import syscalls


@pytest.fixture(autouse=True)
def no_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(1, "cannot unshare a network namespace: Operation not permitted")

    monkeypatch.setattr(syscalls, "unshare_net", refuse)
    # A root user's machine is not to be changed by a unit test.
    isolate(monkeypatch, Isolation("not needed", "no: of 2 CPUs none would remain for other work"))


def isolate(monkeypatch: pytest.MonkeyPatch, found: Isolation) -> None:
    """Has trying to isolate CPUs come to this."""

    class Claim:
        isolation = found

        def isolate(self, cpus: set[int]) -> None:
            assert len(cpus) == 2

        def release(self) -> None:
            pass

    monkeypatch.setattr(clean, "LabOwnership", Claim)


def find(name: str, store: Path | None = None) -> doctor.Finding:
    return next(finding for finding in doctor.diagnose(store) if finding.name == name)


def test_without_privileges_it_names_the_way_out_and_goes_on() -> None:
    findings = {finding.name: finding for finding in doctor.diagnose()}
    assert not findings["network namespaces"].ok
    assert "run as root" in findings["network namespaces"].remedy
    assert not findings["device nftables"].ok
    assert "clock" in findings


@pytest.mark.parametrize(("mask", "lacking"), [(0x00A03000, ""), (0xC0_00803000, "CAP_SYS_ADMIN")])
def test_the_administrator_may_load_programs_without_further_capabilities(
    mask: int, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"CapEff:\t{mask:016x}\n")
    found = doctor._capabilities()
    assert found.ok == (not lacking)
    assert found.detail.removeprefix("missing ") == lacking or found.ok


def test_every_failure_has_a_remedy() -> None:
    assert all(finding.remedy for finding in doctor.diagnose() if not finding.ok)


def test_names_are_unique() -> None:
    names = [finding.name for finding in doctor.diagnose()]
    assert len(names) == len(set(names))


def test_what_confines_processes_is_told_with_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    measures = dict.fromkeys(doctor.confinement.MEASURES, "")
    monkeypatch.setattr(doctor.confinement, "tried", lambda: measures)
    found = doctor._confinement()
    assert (found.ok, found.essential, found.remedy) == (True, False, "")
    assert "no other files (Landlock), few system calls (seccomp)" in found.detail
    measures["files"] = "this kernel has no Landlock (Linux 5.13)"
    found = doctor._confinement()
    assert (found.ok, found.essential) == (False, False)
    assert "missing: no other files (Landlock) (this kernel has no Landlock (Linux 5.13))" in found.detail
    assert "the rest is in force" in found.remedy


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (0, "", "the kernel can emulate links (weir link --by netem)"),
        (
            2,
            "Error: Specified qdisc kind is unknown.\n",
            "not here (Specified qdisc kind is unknown.); weir link works without --by netem",
        ),
    ],
)
def test_netem_is_told_and_missed_by_nobody(
    code: int, said: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: subprocess.CompletedProcess[str] = subprocess.CompletedProcess([], code, "", said)
    monkeypatch.setattr(doctor, "_try_netem", lambda: done)
    assert doctor._netem() == doctor.Finding("netem", True, told)


def test_old_kernels_are_told_what_they_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.platform, "release", lambda: "5.10.0-33-amd64")
    kernel = find("kernel")
    assert not kernel.ok
    assert not kernel.essential
    assert "5.18" in kernel.detail


@pytest.mark.parametrize(("release", "ok"), [("5.18.0", True), ("5.4.300", False), ("6.1.0-38-amd64", True)])
def test_kernel_versions_compare_as_numbers(release: str, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.platform, "release", lambda: release)
    assert find("kernel").ok is ok


def test_a_refused_real_time_priority_is_told_and_not_essential(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_setscheduler", refuse)
    finding = find("real-time priority")
    assert (finding.ok, finding.essential) == (False, False)
    assert "Operation not permitted" in finding.detail
    assert "CAP_SYS_NICE" in finding.remedy


@pytest.mark.parametrize(
    ("native", "zero_copy", "told"),
    [
        (True, False, "in copy mode; their XDP program runs in the driver"),
        (False, True, "in zero-copy mode; their XDP program runs in generic mode"),
    ],
)
def test_the_modes_of_af_xdp_are_told(
    native: bool, zero_copy: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_try_af_xdp", lambda: (native, zero_copy))
    finding = find("AF_XDP")
    assert finding.ok
    assert told in finding.detail


def test_refused_af_xdp_is_told_with_what_works_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> tuple[bool, bool]:
        raise MissingCapability("cannot bypass the system on probe0: open an AF_XDP socket: denied")

    monkeypatch.setattr(doctor, "_try_af_xdp", refuse)
    finding = find("AF_XDP")
    assert (finding.ok, finding.essential) == (False, False)
    assert "open an AF_XDP socket: denied" in finding.detail
    assert "CONFIG_XDP_SOCKETS" in finding.remedy
    assert "--arms sockets,sockets-real-time" in finding.remedy


def test_cpus_that_cannot_be_isolated_are_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    isolate(monkeypatch, Isolation("refused", "cpuset is not delegated", "delegate it"))
    finding = find("isolated CPUs")
    assert (finding.ok, finding.essential, finding.remedy) == (False, False, "delegate it")
    assert finding.detail.startswith("refused: cpuset is not delegated")


def test_cpus_that_need_no_isolation_are_no_fault() -> None:
    finding = find("isolated CPUs")
    assert finding.ok
    assert "none would remain" in finding.detail


def test_no_real_time_at_all_is_told_although_the_policy_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steadiness.scheduling, "attempt", lambda: None)
    monkeypatch.setattr(steadiness.scheduling, "longest_s", lambda: 0.0)
    finding = find("real-time priority")
    assert not finding.ok
    assert "sched_rt_runtime_us" in finding.remedy


def test_one_cpu_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert not find("CPUs").ok


def test_store_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("run store", tmp_path / "not" / "yet" / "made").ok
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10_000_000})())
    finding = find("run store", tmp_path)
    assert not finding.ok
    assert "--store DIR" in finding.remedy


def test_left_over_namespaces_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "leftovers", lambda: ["weir-0123abcd-tx"])
    finding = find("left-overs")
    assert not finding.ok
    assert not finding.essential
    assert "weir-0123abcd-tx" in finding.detail
