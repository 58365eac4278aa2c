"""The documentation site: its pages, and the tutorial, whose commands print what it shows."""

from __future__ import annotations

import importlib.util
import json
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
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
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
    assert set(listed) == {page for page in there if not page.startswith("benchmarks/")}


def test_every_run_of_a_benchmark_is_a_page_with_its_data(site: ModuleType) -> None:
    runs = {path.parent.name for path in (ROOT / "bench/runs").glob("*/README.md")}
    pages = site.WORK / "pages"
    assert {path.parent.name for path in (pages / "benchmarks").glob("*/index.md")} == runs
    assert (pages / "benchmarks/esp-20261123-1/raw.json").exists()
    text = (pages / "benchmarks.md").read_text()
    linked = re.findall(r"\]\(benchmarks/([\w-]+)/index\.md\)", text)
    assert len(linked) > 15
    assert set(linked) <= runs


def test_links_have_the_titles_of_pages_and_no_names_of_files(site: ModuleType) -> None:
    text = (site.WORK / "pages/rules.md").read_text()
    assert "[Choose a device, and plan](planning.md)" in text
    pages = (site.WORK / "pages").glob("*.md")
    assert [path.name for path in pages if re.search(r"\.md\]\(\S+\.md[#)]", path.read_text())] == []


def test_the_page_of_reports_links_to_what_its_commands_write(site: ModuleType) -> None:
    rows = re.findall(
        r"^\| \[.+\]\(gallery/([a-z0-9-]+)\.html\) \| .+ \| `weir .+` \|$",
        (site.WORK / "pages/gallery.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == len(set(rows)) > 4


def test_an_abbreviation_is_explained_on_every_page(site: ModuleType) -> None:
    tip = re.compile(r"^\*\[XDP\]: .{20,}$", re.MULTILINE)
    pages = site.WORK / "pages"
    assert tip.search((pages / "index.md").read_text())
    assert tip.search((pages / "quality.md").read_text())
    assert not tip.search((pages / "abbreviations.md").read_text())


def test_the_reference_has_every_command_and_every_key_of_a_scenario(site: ModuleType) -> None:
    text = site.commands()
    assert {"weir trial", "weir tcp why", "weir voice manage users"} <= set(
        re.findall(r"^## (.*)$", text, re.MULTILINE)
    )
    assert "| 130 | interrupted" in text
    for schema in ("scenario", "voice"):
        assert json.loads((site.WORK / f"pages/{schema}.schema.json").read_text())["$defs"]
    keys = site.scenario_keys()
    assert "## profile.adaptive" in keys
    assert "| `repetitions` |" in keys


def test_links_to_nothing_are_found(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">b</a><a href="c.html">c</a><h2 id="x"></h2>'
        '<script src="https://example.com/a.js"></script><script src="b.js"></script>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#x">a</a><a href="https://example.com/">e</a>')
    assert list(site.broken_links(tmp_path)) == [
        "a.html: https://example.com/a.js is loaded from the network",
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
