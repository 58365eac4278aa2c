from __future__ import annotations

import errno
import os

import pytest

from weirlab.lab.linux.privilege import way_out


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
