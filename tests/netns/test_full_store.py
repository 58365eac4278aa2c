"""A store on a disk that really fills up, and on one that is really read-only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.netns

# In a mount namespace of its own, so that nothing stays mounted however the test ends.
FILL_UP = """
import subprocess, sys
from pathlib import Path
from weirlab.base.errors import StoreError
from weirlab.store import Store
from weirlab.testing import make_record, make_result, make_spec

root = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(root)], check=True)
store = Store(root)
writer = store.create("profile", {}, {})
spec = make_spec(1000, flows=2000, duration_s=0.1)
kept = 0
try:
    for index in range(100):
        result = make_result(1000 + index, flows=2000, duration_s=0.1)
        writer.add(make_record(result, spec, run_id=writer.run_id, index=index))
        kept += 1
except StoreError as error:
    print("add:", error)
try:
    writer.finish("failed")
except StoreError as error:
    print("finish:", error)
print("kept:", 0 < kept < 100, store.open("last").trials().height == kept)
print("left over:", [path.name for path in root.rglob(".*.tmp")])
subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
for attempt in (lambda: store.create("profile", {}, {}), lambda: store.resume("last")):
    try:
        attempt()
    except StoreError as error:
        print("read-only:", error)
print("readable:", store.open("last").trials().height == kept, store.runs()[0].status)
"""


def test_a_full_and_then_read_only_disk_is_named_and_keeps_what_is_complete(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", FILL_UP, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"add: cannot write {tmp_path}")
    assert lines[1].startswith(f"finish: cannot write {tmp_path}")
    for line in lines[:2]:
        assert "no space is left on the disk; free some space" in line
    assert "kept: True True" in lines
    assert "left over: []" in lines
    read_only = [line for line in lines if line.startswith("read-only:")]
    assert len(read_only) == 2
    assert all("the file system is read-only" in line for line in read_only)
    assert lines[-1].startswith("readable: True")
