"""A study in a package of its own, installed beside Weir, is one of Weir's as far as a user can see."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weirlab.cli import app
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
    caches = (registry._others, registry.studies, app.parts)
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
    assert "With 10,000 flows the median delay is" in told.out
    schema = json.loads(weir("schema").out)
    assert {"$ref": "#/$defs/FlowsScenario"} in schema["oneOf"]


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


def test_the_document_shows_it_whole() -> None:
    shown = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert shown is not None
    assert shown[1] == (HERE / "weir_flows" / "__init__.py").read_text()
