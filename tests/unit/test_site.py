"""The documentation site: its pages, and the tutorial, whose commands print what it shows."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^```console\n(.*?)^```", (ROOT / "docs/tutorial.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / "docs/site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.WORK = tmp_path_factory.mktemp("site")  # type: ignore[attr-defined]
    module.assemble()
    return module


def test_every_page_is_in_the_list_of_pages_and_every_listed_page_is_there(site: ModuleType) -> None:
    listed = re.findall(r'"([\w/-]+)\.md"', (site.WORK / "zensical.toml").read_text())
    there = {
        path.relative_to(site.WORK / "pages").with_suffix("").as_posix()
        for path in (site.WORK / "pages").rglob("*.md")
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == there


def test_the_reference_has_every_command_and_every_key_of_a_scenario(site: ModuleType) -> None:
    text = site.commands()
    assert {"weir trial", "weir tcp why", "weir voice manage users"} <= set(
        re.findall(r"^## (.*)$", text, re.MULTILINE)
    )
    assert "| 130 | interrupted" in text
    keys = site.scenario_keys()
    assert "## profile.adaptive" in keys
    assert "| `repetitions` |" in keys


def test_links_to_nothing_are_found(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">b</a><a href="c.html">c</a><h2 id="x"></h2>')
    (tmp_path / "b.html").write_text('<a href="a.html#x">a</a><a href="https://example.com/">e</a>')
    assert list(site.broken_links(tmp_path)) == [
        "a.html: b.html#there is no place on that page",
        "a.html: c.html does not exist",
    ]


def test_the_commands_of_the_tutorial_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert len(BLOCKS) == 5
    for block in BLOCKS:
        command, *shown = block.splitlines()
        result = CliRunner().invoke(app, shlex.split(command.removeprefix("$ weir ")))
        assert result.exit_code == 0, result.stderr
        at = 0
        for line in filter(lambda line: line != "...", shown):
            pattern = ".*".join(map(re.escape, line.split("...")))
            found = re.compile(f"^{pattern}$", re.MULTILINE).search(result.stdout, at)
            assert found, f"{command}: {line}"
            at = found.end()
