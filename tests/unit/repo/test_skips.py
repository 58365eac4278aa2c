"""What one folder of tests needs is no reason to skip those of another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NEEDY = ("tests/browser", "tests/netns", "tests/wheel")


def test_a_machine_without_any_tool_runs_the_unit_tests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_amounts"]
    done = subprocess.run(
        [*command, *NEEDY, "tests/unit/base/test_amounts.py"],
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, summary = done.stdout.strip().splitlines()
    assert " passed" in summary
    assert "skipped" not in summary
