"""The jobs for CI systems in the documents are YAML that these systems take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/ci.md").read_text(), re.MULTILINE | re.DOTALL)
GITLAB, GITHUB = BLOCKS


def lines(job: dict[str, Any]) -> list[str]:
    """The commands of a job."""
    return [*job.get("script", []), *(step["run"] for step in job.get("steps", []) if "run" in step)]


def jobs() -> list[tuple[str, dict[str, Any]]]:
    gitlab, github = yaml.safe_load(GITLAB), yaml.safe_load(GITHUB)
    return [
        *((f"gitlab {name}", job) for name, job in gitlab.items()),
        *((f"github {name}", job) for name, job in github["jobs"].items()),
    ]


@pytest.mark.parametrize(("name", "job"), jobs())
def test_no_job_passes_what_it_cannot_tell(name: str, job: dict[str, Any]) -> None:
    assert not any(re.search(r"\|\||; *true|exit 0|case ", line) for line in lines(job))
    assert "allow_failure" not in job
    assert not job.get("continue-on-error")


def test_jobs_have_the_keys_that_their_systems_demand() -> None:
    assert all({"script"} <= job.keys() for job in yaml.safe_load(GITLAB).values())
    github = yaml.safe_load(GITHUB)
    # YAML 1.1 reads the key "on" as true.
    assert {"name", True, "env", "jobs"} == github.keys()
    assert all({"runs-on", "steps"} == job.keys() for job in github["jobs"].values())
    assert all("uses" in step or "run" in step for job in github["jobs"].values() for step in job["steps"])


def test_both_systems_run_the_same_commands() -> None:
    found: dict[str, set[str]] = {}
    for name, job in jobs():
        found.setdefault(name.split()[0], set()).update(lines(job))
    assert found["gitlab"] == found["github"]
