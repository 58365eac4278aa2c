from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import weirlab.studies
from weirlab.cli.program import failures
from weirlab.cli.program.app import _summaries, commands_of, parts
from weirlab.store import Store

from ..conftest import Weir

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = [
    "doctor", "calibrate", "trial", "profile", "search", "rfc2544", "calls", "failover", "quality",
    "tap", "log", "link", "trace", "ipsec bytes", "ipsec cost", "ipsec endpoints", "capacity", "tcp list",
    "tcp why", "tcp watch", "tcp send", "tcp serve",
    "fit", "predict", "plan", "choose", "verify", "transients", "report", "runs", "label", "show", "export",
    "compare", "ask", "library list", "library show", "library add", "library verify", "library compare",
    "simulate", "worker",
    "run", "campaign", "demo", "reproduce", "schema", "ports", "check", "cable", "lab clean", "lab build",
    "voice route", "voice check", "voice zones", "voice import", "voice diff", "voice configs",
    "voice example", "voice schema", "voice lab", "voice prove", "voice install", "voice load", "completion",
    "voice manage import", "voice manage export", "voice manage add-user", "voice manage remove-user",
    "voice manage users", "voice manage log",
    "tcp measure", "web", "psock send", "psock serve", "psock run", "psock proxy", "psock cat",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples_and_json(weir: Weir, command: str) -> None:
    answer = weir(*command.split(), "--help")
    assert answer.code == 0
    assert f"  weir {command}" in answer.out
    assert "Examples:" in answer.out
    assert "--json" in answer.out


def test_the_overview_lists_every_command_and_every_exit_code(weir: Weir) -> None:
    text = weir("--help").out
    assert all(f" {command.split()[0]} " in text for command in COMMANDS)
    assert all(f"{code}  " in text for code in failures.EXIT_CODES)


def test_no_help_line_is_broken_by_a_terminal_of_80_columns(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("", *COMMANDS):
        prose = weir(*command.split(), "--help").out.split("╭")[0]
        for line in prose.splitlines():
            assert len(line) <= 80


@pytest.mark.parametrize("part", parts())
def test_prose_of_the_help_is_wrapped_at_78_columns(part: str) -> None:
    def lines(name: str, command: Any) -> Iterator[str]:
        yield from (f"{name}: {line}" for line in (command.help or "").splitlines() if len(line) > 78)
        for inner, one in getattr(command, "commands", {}).items():
            yield from lines(f"{name} {inner}", one)

    assert [line for name, command in commands_of(part).items() for line in lines(name, command)] == []


def test_without_a_command_there_are_three_things_to_try_and_those_of_a_group_are_listed(weir: Weir) -> None:
    first = weir()
    assert (first.code, first.err) == (0, "")
    named = [line.split()[1] for line in first.out.splitlines() if line.startswith("  weir ")]
    assert named == ["demo", "doctor", "trace"]
    group = weir("lab")
    assert group.code == 2
    assert "Usage: weir" in group.out + group.err
    assert "weir: " not in group.err


def test_the_version_is_shown(weir: Weir) -> None:
    assert weir("--version").out.startswith("weir ")


def test_the_schema_is_printed_as_published(weir: Weir) -> None:
    published = json.loads(Path(weirlab.studies.__file__).with_name("scenario.schema.json").read_text())
    assert json.loads(weir("schema").out) == published
    assert json.loads(weir("schema", "--json").out) == published


def test_the_overview_makes_no_command_and_the_help_of_a_command_does(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def noted(part: str) -> dict[str, Any]:
        made.append(part)
        return commands_of(part)

    monkeypatch.setattr("weirlab.cli.program.app.commands_of", noted)
    assert weir("--help").code == 0
    assert made == []
    assert "--rules" in weir("trial", "--help").out
    assert made == [part for part, names in parts().items() if "trial" in names]


def test_the_overview_shows_every_command_and_no_hidden_one() -> None:
    commands = {name: command for part in parts() for name, command in commands_of(part).items()}
    assert _summaries().keys() == {name for name, command in commands.items() if not command.hidden}
    assert not any(command.deprecated for command in commands.values())


def imported(names: Sequence[str], *arguments: str) -> list[str]:
    """Those of the modules ``names`` that a command has imported when it ends."""
    code = (
        f"import sys; sys.argv = ['weir', *{arguments!r}]\n"
        "from weirlab.cli import main\n"
        "try: main()\n"
        f"finally: print(*[name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()[-1].split()


def test_help_needs_none_of_the_heavy_packages() -> None:
    heavy = (
        "numpy", "polars", "scipy", "altair", "pydantic", "pyroute2", "jinja2", "yaml", "weirlab._engine",
        "hashlib", "secrets", "xml.etree.ElementTree", "asyncio", "markdown_it", "pygments", "rich.markdown",
    )  # fmt: skip
    assert imported((*heavy, "weirlab.cli.program.app"), "--help") == ["weirlab.cli.program.app"]


def test_a_list_of_runs_needs_none_of_the_heavy_packages(tmp_path: Path) -> None:
    with Store(tmp_path).create("trial", {}, {}):
        pass
    heavy = ("numpy", "polars", "scipy", "pydantic", "weirlab._engine", "importlib.metadata", "sqlite3")
    for shown in ((), ("--json",), ("--kind", "trial")):
        assert imported(heavy, "--store", str(tmp_path), "runs", *shown) == ["sqlite3"]


def test_what_fits_nothing_needs_no_solver(tmp_path: Path) -> None:
    solving = ("scipy.optimize", "scipy.linalg", "scipy.stats", "scipy.signal", "weirlab.model.queueing")
    shown = imported((*solving, "weirlab.store"), "show", "nope", "--store", str(tmp_path))
    assert shown == ["weirlab.store"]
