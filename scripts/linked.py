"""The crates that are linked into the engine; `scripts/licences` and `scripts/sbom` read them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def linked() -> dict[str, tuple[dict[str, Any], list[str]]]:
    """What Cargo says of packages, by their IDs, each with the IDs of what it links; the engine is the first.

    For Linux on this processor; crates that only run during the build are left out.
    """
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform"]
    about = json.loads(_output(*command, _host()))
    packages = {package["id"]: package for package in about["packages"]}
    nodes = {node["id"]: node for node in about["resolve"]["nodes"]}
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    todo = [next(id for id, package in packages.items() if package["name"] == "weir-python")]
    while todo:
        here = todo.pop()
        if here in found:
            continue
        links = [
            each["pkg"]
            for each in nodes[here]["deps"]
            if any(kind["kind"] is None for kind in each["dep_kinds"])
            and not any("proc-macro" in target["kind"] for target in packages[each["pkg"]]["targets"])
        ]
        found[here] = packages[here], links
        todo += links
    return found


def _host() -> str:
    match = re.search(r"^host: (.*)$", _output("rustc", "-vV"), re.MULTILINE)
    assert match is not None
    return match[1]


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
