"""What Weir is built from and checked with is installed by its hash, and handed on by its name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = (
    *("Makefile", ".ci/run", "CONTRIBUTING.md"),
    *(f"scripts/{path.name}" for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()),
)
UNLOCKED = re.compile(
    r"pip install(?!.*(--require-hashes|--no-index|--editable))"
    r"|npm (install|update|i)\b"
    r"|cargo install(?! --locked [\w-]+@\d)"
    r"|cargo (build|test|run|clippy|metadata|bench)\b(?!.*--locked)(?!.*-- --ignored)"
)


def commands() -> Iterator[str]:
    """Command lines as a shell sees them, each behind the file that it is in."""
    for name in COMMANDS:
        text = (ROOT / name).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if not line.lstrip().startswith(("#", "`")):
                yield f"{name}: {line.strip()}"


def test_packages_are_installed_by_locked_hashes() -> None:
    assert [line for line in commands() if UNLOCKED.search(line)] == []


@pytest.mark.parametrize("name", ["dev", "run", "fuzz", "tools"])
def test_every_locked_python_package_has_a_hash(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / f"requirements/{name}.txt").read_text())
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert packages
    assert [entry for entry in packages if not re.match(r"[\w.-]+==\S+.*\\\n +--hash=sha256:", entry)] == []


def test_every_locked_package_of_npm_has_a_hash_and_no_address() -> None:
    packages = json.loads((ROOT / "webui/package-lock.json").read_text())["packages"]
    own, others = packages.pop(""), packages
    assert {*own["dependencies"], *own["devDependencies"]} <= {name.split("/", 1)[1] for name in others}
    assert [
        name for name, entry in others.items() if not entry.get("integrity", "").startswith("sha512-")
    ] == []
    assert [name for name, entry in others.items() if "resolved" in entry] == []
    # npm ci refuses a lock file that lacks what a package may need on another system.
    needed = {each for entry in others.values() for each in entry.get("optionalDependencies", {})}
    assert {f"node_modules/{each}" for each in needed} <= set(others)


def test_weirs_crates_cannot_be_published_by_mistake() -> None:
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    manifests = [tomllib.loads((ROOT / name / "Cargo.toml").read_text())["package"] for name in members]
    assert [each["name"] for each in manifests if each.get("publish") != {"workspace": True}] == []
    assert tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["publish"] is False


@pytest.mark.parametrize("script", ["licences", "sbom"])
def test_licences_and_bill_of_materials_name_everything_that_is_handed_on(script: str) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo")
    command = [sys.executable, ROOT / "scripts" / script, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
