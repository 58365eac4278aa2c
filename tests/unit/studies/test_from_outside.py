"""A study in a package of its own, installed beside Weir, is one of Weir's as far as a user can see."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weirlab.cli.program import app
from weirlab.studies import registry

from ..conftest import Weir

HERE = Path(__file__).parent
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "add-a-study.md"


def install(folder: Path, name: str, entry_point: str) -> None:
    """What an installer leaves of a package's metadata."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[weirlab.studies]\n{entry_point}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path for packages; what is known of studies is forgotten before and after."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(HERE))
    caches = (registry._others, registry.entries, registry.studies, app.parts)
    for cache in caches:
        cache.cache_clear()
    yield folder
    for cache in caches:
        cache.cache_clear()
    sys.modules.pop("weir_flows", None)


@pytest.fixture
def flows(packages: Path) -> None:
    install(packages, "weir-flows", "flows = weir_flows:FlowsStudy")


@pytest.mark.usefixtures("flows")
def test_its_scenario_is_run_kept_and_reported(weir: Weir, tmp_path: Path) -> None:
    done = weir("run", "many-flows", "--json", "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert set(done.json["median_delay_ns"]) == {"1", "100", "10000"}
    assert done.json["kind"] == "flows"
    assert "With 10,000 flows the median delay is" in (tmp_path / "page.html").read_text()
    run_id = done.json["run_id"]
    assert run_id in weir("runs", "--kind", "flows").out
    assert weir("report", run_id, "--out", tmp_path / "again.html").code == 0
    again = weir("run", "--resume", run_id, "--json")
    assert again.code == 0, again.err
    assert again.json["median_delay_ns"] == done.json["median_delay_ns"]


@pytest.mark.usefixtures("flows")
def test_its_command_its_scenario_and_its_schema_are_there(weir: Weir) -> None:
    assert re.search(r"flows +Compare the delay of few flows", weir("--help").out)
    assert re.search(r"many-flows +whether a device minds", weir("run", "--help").out)
    told = weir("flows")
    assert told.code == 0, told.err
    assert re.search(r"\nSimulated, not measured\. Run \S+-flows-\S+\.\n", told.out)
    assert "With 10,000 flows the median delay is" in told.out
    schema = json.loads(weir("schema").out)
    assert {"$ref": "#/$defs/FlowsScenario"} in schema["oneOf"]


@pytest.mark.usefixtures("flows")
def test_the_test_that_the_document_shows_passes(tmp_path: Path) -> None:
    shown = re.search(r"```python\n(import weirlab\n.*?)```", DOCUMENT.read_text(), re.S)
    assert shown is not None
    names: dict[str, Any] = {}
    exec(shown[1], names)
    names["test_every_number_of_flows_is_measured"](tmp_path / "store")


@pytest.mark.usefixtures("flows")
def test_its_files_are_checked_like_any_other(weir: Weir, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nflows:\n  count: [1]\n")
    refused = weir("run", file)
    assert refused.code == 2
    assert f"{file}:3:3: flows.count: unknown key; did you mean 'counts'?" in refused.err


@pytest.mark.parametrize(
    ("entry_point", "why"),
    [
        ("gone = not_there_at_all:Study", "cannot be loaded: ModuleNotFoundError"),
        ("wrong = json:JSONDecoder", "json:JSONDecoder is not a class derived from weirlab.studies.Study"),
        ("failover = weir_flows:FlowsStudy", ""),
    ],
)
def test_a_package_that_is_broken_breaks_nothing_else(
    weir: Weir, packages: Path, entry_point: str, why: str
) -> None:
    install(packages, "bad", entry_point)
    assert weir("runs").code == 0
    told = " ".join(registry.broken())
    assert why in told
    assert "of bad" in told if why else not told


def test_two_packages_cannot_have_the_same_key(packages: Path) -> None:
    (packages / "copycat.py").write_text(
        "from weirlab.studies import Study\nclass Copy(Study):\n    key = 'failover'\n"
    )
    install(packages, "copycat", "copy = copycat:Copy")
    assert "failover" in registry.studies()
    (why,) = registry.broken()
    assert "is left out" in why
    assert "'failover'" in why


SMALL = """
from contextlib import nullcontext
import polars as pl
from weirlab.scenario.model import Root, Section
from weirlab.studies import Ground, Study, Summary

class Part(Section):
    pass

class Asked(Root):
    KEY = "small"
    small: Part = Part()

class Found:
    def document(self):
        return {}
    def problem(self, run):
        return None

class Small(Study):
    key = "small"
    ready = {"tiny": "the least of all"}
    commands = {"small_commands": ("small",)}
    def scenario(self):
        return Asked
    def open(self, asked, work):
        return nullcontext(Ground(None, {"lab": "netns", "dut": "none", "backend": "none"}))
    def measure(self, ground, asked, writer, work):
        writer.put_table("counts", pl.DataFrame({"count": [1]}))
        return Found()
    def summarize(self, outcome):
        return Summary("It was counted.")
"""
"""A study without trials, without a page, and with mistakes in what its package brings beside it."""


@pytest.fixture
def small(packages: Path, tmp_path: Path) -> Iterator[Path]:
    """A scenario of that study; the package lacks the module of its command, and its ready-made scenario."""
    (packages / "small.py").write_text(SMALL)
    install(packages, "small", "small = small:Small")
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nsmall: {}\n")
    yield file
    for name in ("small", "small_commands"):
        sys.modules.pop(name, None)


def test_a_study_without_trials_and_page_is_run_and_says_where_its_results_are(
    weir: Weir, small: Path
) -> None:
    done = weir("run", small)
    assert done.code == 0, done.err
    (run_id,) = re.findall(r"It was counted\.\nRun (\S+)\.\n", done.out)
    shown = weir("show", run_id)
    assert f"Small {run_id} is complete, with the table counts" in shown.out
    assert not (Path(weir("show", run_id, "--json").json["path"]) / "parts").exists()
    assert weir("runs", "--kind", "small").code == 0
    refused = weir("run", small, "--out", small.with_name("page.html"))
    assert refused.code == 2
    assert "--out: there is no report about runs of the kind 'small'" in refused.err


@pytest.mark.usefixtures("small")
def test_what_its_package_lacks_is_told_and_breaks_nothing_else(weir: Weir, packages: Path) -> None:
    assert weir("--help").code == 0
    assert "cannot be loaded: ModuleNotFoundError" in app.broken()[0]
    (packages / "small_commands.py").write_text("def add_to(app):\n    pass\n")
    assert app.broken() == ["small_commands does not add the commands that its study names: small"]
    assert weir("--help").code == 0
    missing = weir("run", "tiny")
    assert missing.code == 2
    assert "the ready-made scenario tiny is missing" in missing.err


def test_an_unknown_scenario_is_told_with_the_packages_that_cannot_be_loaded(
    weir: Weir, packages: Path
) -> None:
    install(packages, "bad", "gone = not_there_at_all:Study")
    assert "the study gone of bad cannot be loaded" in weir("run", "gone").err


def test_the_document_shows_it_whole() -> None:
    shown = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert shown is not None
    assert shown[1] == (HERE / "weir_flows" / "__init__.py").read_text()
