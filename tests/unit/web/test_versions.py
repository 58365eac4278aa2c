"""The lowest versions that are allowed of what the service rests on; scripts/lowest tests it with them."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOWEST = ROOT / "requirements" / "lowest.txt"


def test_the_lowest_versions_are_those_that_the_package_allows() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    wanted = (*extras["web"], *extras["manage"])
    allowed = dict(re.sub(r"\[.*?\]", "", entry).partition(",")[0].split(">=") for entry in wanted)
    locked = dict(re.findall(r"^([\w-]+)==([\w.]+)", LOWEST.read_text(), re.MULTILINE))
    assert {name: locked[name].removesuffix(".0") for name in allowed} == {
        name: each.removesuffix(".0") for name, each in allowed.items()
    }
    # With these the service was open to anyone who sent a malformed host or chunk.
    assert tuple(map(int, allowed["starlette"].split("."))) >= (1, 0, 1)
    assert tuple(map(int, allowed["h11"].split("."))) >= (0, 16)
    if str(ROOT / "build" / "lowest") in sys.path:
        assert {name: version(name) for name in allowed} == {name: locked[name] for name in allowed}
