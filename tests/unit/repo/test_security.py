"""The page on security and the units of systemd name what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from weirlab.base.confinement import MEASURES
from weirlab.cli.program.app import app
from weirlab.lab import doctor
from weirlab.web.launching import jobs, separation

ROOT = Path(__file__).resolve().parents[3]
SECURITY = (ROOT / "docs/security.md").read_text()
UNITS = ROOT / "packaging/systemd"


def leaves(command: Any, *names: str) -> Iterator[str]:
    """Every command that does something, by its words."""
    if not hasattr(command, "list_commands"):
        yield " ".join(names)
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), *names, name)


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so."""
    lines = SECURITY[SECURITY.index(head) :].splitlines()
    table = [line for line in lines[: lines.index("")] if not line.startswith("|---")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def settings(name: str) -> dict[str, list[str]]:
    """The settings of a unit: words of all lines of a name."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).extend(value.split())
    return found


def test_every_command_is_on_the_page_of_privileges_once() -> None:
    named = [name for row in rows("| command | needs |") for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(named) == sorted(leaves(typer.main.get_command(app)))


def test_every_capability_of_the_page_is_one_that_the_doctor_tries() -> None:
    text = SECURITY[: SECURITY.index("## weir web")]
    assert set(re.findall(r"CAP_\w+", text)) == set(doctor._CAPABILITIES)


def test_every_kind_of_process_and_every_measure_is_on_the_page() -> None:
    processes = [row[0] for row in rows("| process | user |")]
    # The page and its helper are no jobs, and one reader reads captures and tests.
    assert len(processes) == len(jobs._KINDS) + 1
    assert len(rows("| measure | needs |")) == len(MEASURES) - 1


def test_the_unit_starts_a_command_with_options_that_there_are() -> None:
    words = settings("weir-web.service")["ExecStart"]
    command = typer.main.get_command(app)
    context = typer.Context(command)
    web: Any = command.get_command(context, "web")  # type: ignore[attr-defined]
    known = {option for part in (command, web) for each in part.get_params(context) for option in each.opts}
    assert words[3] == "web"
    assert {word for word in words if word.startswith("--")} <= known


def test_the_unit_has_no_privileges_and_the_user_that_is_made_for_it() -> None:
    unit, (line,) = (
        settings("weir-web.service"),
        re.findall(r"^u .*", (UNITS / "weir.sysusers").read_text(), re.M),
    )
    assert unit["User"] == [line.split()[1]] == [separation.USER]
    assert unit["CapabilityBoundingSet"] == unit["AmbientCapabilities"] == []
    assert unit["NoNewPrivileges"] == ["yes"]


@pytest.mark.parametrize("name", ["weir-web.service", "weir-web-root.conf"])
def test_a_unit_leaves_what_confines_processes(name: str) -> None:
    unit = settings("weir-web.service")
    for key, words in settings(name).items():
        unit[key] = [*unit[key], *words] if name.endswith(".conf") else words
    assert {"user", "net"} <= {*unit["RestrictNamespaces"]}
    landlock = {f"landlock_{call}" for call in ("create_ruleset", "add_rule", "restrict_self")}
    assert {"@system-service", "unshare", "seccomp", *landlock} <= {*unit["SystemCallFilter"]}
    if name.endswith(".conf"):
        assert {"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_NET_RAW"} <= {*unit["CapabilityBoundingSet"]}
        assert "@mount" in unit["SystemCallFilter"]
