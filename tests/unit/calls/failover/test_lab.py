"""What the doctor says of redundant pairs."""

from __future__ import annotations

import pytest

from weirlab.base import programs
from weirlab.calls.failover import lab
from weirlab.calls.failover.lab import finding
from weirlab.lab.dut import tool
from weirlab.lab.linux import syscalls


def test_missing_daemons_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    found = finding()
    assert not found.ok
    assert not found.essential
    for package in ("keepalived", "ucarp", "conntrackd", "nftables"):
        assert f"apt install {package}" in found.detail


def test_without_privileges_the_kernel_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(1, "cannot unshare a network namespace: Operation not permitted")

    monkeypatch.setattr(syscalls, "unshare_net", refuse)
    assert "run as root" in " ".join(lab.missing())
    assert "modprobe" not in " ".join(lab.missing())


def test_a_kernel_without_bridges_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(side: str) -> None:
        raise OSError(95, "Operation not supported")

    # Nothing may be tried in this machine's own namespace.
    monkeypatch.setattr(tool, "probe", lambda *arguments: [])
    monkeypatch.setattr(syscalls, "unshare_net", lambda: None)
    monkeypatch.setattr(lab.wiring, "make_bridge", unsupported)
    assert "modprobe bridge nf_conntrack_netlink" in " ".join(lab.missing())
