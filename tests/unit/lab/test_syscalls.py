from __future__ import annotations

import errno
import os

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import LabError, MissingCapability
from weirlab.lab.linux.syscalls import explained, way_out


@pytest.mark.parametrize("user", [0, 1000])
def test_a_read_only_file_system_is_no_matter_of_being_root(
    user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert "read-write" in way_out(OSError(errno.EROFS, "Read-only file system"))


def test_only_who_is_not_root_is_told_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionError(errno.EPERM, "Operation not permitted")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert way_out(refused) == "run as root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "weir doctor" in way_out(refused)


@pytest.mark.parametrize("refused", [PermissionError(errno.EPERM, "no"), NetlinkError(errno.EPERM)])
def test_who_has_no_right_to_build_is_told_the_way_out(
    refused: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with (
        pytest.raises(MissingCapability, match=r"the lab cannot be built: .*; run as root"),
        explained("the lab"),
    ):
        raise refused


@pytest.mark.parametrize("refused", [FileNotFoundError(errno.ENOENT, "no"), NetlinkError(errno.EOPNOTSUPP)])
def test_what_else_the_kernel_refuses_is_told_with_what_was_built(refused: Exception) -> None:
    with pytest.raises(LabError, match=r"the lab cannot be built: .*; see weir doctor"), explained("the lab"):
        raise refused
