"""Control groups of version 2, wherever they are mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.lab.isolation.groups import IsolationError, unified

MIXED = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""


def _proc(folder: Path, mounts: str, groups: str) -> Path:
    (folder / "self").mkdir()
    (folder / "self/mounts").write_text(mounts)
    (folder / "self/cgroup").write_text(groups)
    return folder


def test_version_2_is_found_beside_version_1(tmp_path: Path) -> None:
    found = unified(_proc(tmp_path, MIXED, "3:cpuset:/other\n0::/user.slice\n"))
    assert (found.mount, found.version, found.home) == (Path("/sys/fs/cgroup/unified"), 2, "/user.slice")


def test_where_there_is_only_version_1_the_way_out_is_said(tmp_path: Path) -> None:
    with pytest.raises(IsolationError, match="no control groups of version 2") as caught:
        unified(_proc(tmp_path, MIXED.partition("cgroup2 ")[0], "3:cpuset:/other\n"))
    assert "nsenter" in caught.value.remedy
