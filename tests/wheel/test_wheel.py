"""What `pip install weirlab` gives: the wheel in a fresh environment, away from the repository."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement

import weirlab
from weirlab.studies import ready

from .conftest import Installed

MOST_ENGINE_BYTES = 12_000_000
"""Above the size of the code, far below what line tables make of it."""


@pytest.fixture(scope="module")
def archive(wheel: Path) -> ZipFile:
    return ZipFile(wheel)


@pytest.fixture(scope="module")
def metadata(archive: ZipFile) -> Message:
    (name,) = [entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA")]
    return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def bare(install: Callable[..., Installed]) -> Installed:
    """As ``pip install weirlab``."""
    return install()


@pytest.fixture(scope="module")
def full(install: Callable[..., Installed]) -> Installed:
    """As ``pip install weirlab[report]``."""
    return install("report")


def test_one_wheel_serves_every_python_and_every_distribution(wheel: Path) -> None:
    assert re.fullmatch(r"weirlab-[\d.]+-cp311-abi3-manylinux_2_\d+_\w+\.whl", wheel.name), wheel.name


def test_the_engine_is_there_once_and_without_debug_information(archive: ZipFile) -> None:
    engines = [entry for entry in archive.infolist() if entry.filename.endswith(".so")]
    assert [entry.filename for entry in engines] == ["weirlab/_engine.abi3.so"]
    assert engines[0].file_size < MOST_ENGINE_BYTES


def test_the_wheel_carries_the_licences_of_what_it_contains(archive: ZipFile, metadata: Message) -> None:
    (info,) = {entry.split("/")[0] for entry in archive.namelist() if ".dist-info/" in entry}
    told = [archive.read(f"{info}/licenses/{name}") for name in metadata.get_all("License-File", [])]
    for holder in (b"Apache License", b"zstd-sys", b"vega-lite", b"Leon Sorokin"):
        assert any(holder in text for text in told), holder


def test_the_wheel_carries_a_bill_of_what_it_contains_and_needs(archive: ZipFile, metadata: Message) -> None:
    (name,) = [entry for entry in archive.namelist() if "/sboms/" in entry]
    assert name.endswith(".dist-info/sboms/weirlab.cyclonedx.json")
    bill = json.loads(archive.read(name))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.7")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/weirlab@{metadata['Version']}"
    parts = {part["purl"]: part for part in bill["components"]}
    contained = {purl for purl, part in parts.items() if not part.get("isExternal")}
    (info,) = {entry.split("/")[0] for entry in archive.namelist() if ".dist-info/" in entry}
    assert contained == {
        *named(archive, f"{info}/licenses/crates/python/LICENSES.txt", "cargo"),
        *named(archive, "weirlab/web/static/LICENSES.txt", "npm"),
    }
    for purl in contained:
        assert parts[purl]["licenses"], purl
        assert len(parts[purl]["hashes"][0]["content"]) in (64, 128), purl
    required = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    external = {
        purl: set(part["versionRange"].removeprefix("vers:pypi/").split("|"))
        for purl, part in parts.items()
        if purl not in contained
    }
    assert external == {
        f"pkg:pypi/{each.name}": {f"{one.operator}{one.version}".removeprefix("==") for one in each.specifier}
        for each in required
    }
    references = {part["bom-ref"] for part in (bill["metadata"]["component"], *bill["components"])}
    assert {each["ref"] for each in bill["dependencies"]} <= references
    assert {on for each in bill["dependencies"] for on in each["dependsOn"]} <= references


def named(archive: ZipFile, file: str, kind: str) -> set[str]:
    """Package URLs of what a file of licences names."""
    heads = re.findall(r"^={78}\n((?:.|\n)*?)\n(?:={78}|-{78})$", archive.read(file).decode(), re.MULTILINE)
    text = " ".join(heads)
    return {f"pkg:{kind}/{name}@{version}" for name, version in re.findall(r"([\w.-]+)\s(\d[\w.+-]*)", text)}


def test_the_manual_page_comes_with_the_wheel(archive: ZipFile, full: Installed) -> None:
    (name,) = [entry for entry in archive.namelist() if entry.endswith(".data/data/share/man/man1/weir.1")]
    installed = full.environment / "share/man/man1/weir.1"
    assert installed.read_bytes() == archive.read(name)


def test_the_wheel_says_what_it_is_for(metadata: Message) -> None:
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["cluster", "manage", "report", "voice", "web"]
    assert "Programming Language :: Python :: 3.13" in metadata.get_all("Classifier", [])


def test_the_doctor_finds_the_engine_and_the_charts(full: Installed, bare: Installed) -> None:
    for installed, charts in ((full, True), (bare, False)):
        done = installed.weir("doctor", "--json")
        assert done.returncode in (0, 3), done.stderr
        findings = {found["name"]: found for found in json.loads(done.stdout)["findings"]}
        assert findings["engine"]["ok"]
        assert findings["reports"]["ok"] == charts


def test_a_simulated_trial_runs_without_the_charts(bare: Installed) -> None:
    assert bare.answer("trial", "--lab", "sim", "--rate", "1kpps", "--duration", "0.05")["kind"] == "trial"


def test_the_ready_made_scenarios_are_there_and_found_by_name(archive: ZipFile, bare: Installed) -> None:
    package = Path(weirlab.__file__).parent
    wanted = {f"weirlab/{path.relative_to(package)}" for path in ready.paths().values()}
    assert wanted <= set(archive.namelist())
    assert len(wanted) == len(ready.names()) > 0
    assert bare.answer("run", "failover", "--print")["text"] == (ready.paths()["failover"]).read_text()


def test_a_report_without_the_charts_is_refused_with_the_way_to_them(bare: Installed) -> None:
    refused = bare.weir("run", "firewall-rules", "--lab", "sim")
    assert refused.returncode == 3
    assert "pip install 'altair>=" in refused.stderr


def test_a_scenario_goes_to_its_report_from_an_empty_folder(full: Installed) -> None:
    scenario = yaml.safe_load(full.answer("run", "firewall-rules", "--print")["text"])
    scenario |= {"profile": {"positions": [0, 400, 1000], "sizes": [64], "repetitions": 1}, "verify": []}
    (full.folder / "small.yaml").write_text(yaml.safe_dump(scenario))
    done = full.weir("run", "small.yaml", "--lab", "sim", "--out", "report.html")
    assert done.returncode == 0, done.stderr
    assert "University of Washington Interactive Data Lab" in (full.folder / "report.html").read_text()
