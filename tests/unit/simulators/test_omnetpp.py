"""The module for OMNeT++, which is in no package registry: what can be checked without it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from weirlab.model import DeviceModels, QueueingModel, load_devices
from weirlab.simulators import write_module


@pytest.fixture(scope="module")
def module(device_model: QueueingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("modules") / "omnetpp"
    write_module(DeviceModels("firewall", {"queueing": device_model}), "omnetpp", out)
    return out


def test_its_sources_compile_against_the_declarations_of_omnetpp(module: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: install g++")
    sources = sorted(module.rglob("*.cc"))
    assert [source.name for source in sources] == ["traffic.cc", "WeirDevice.cc"]
    words = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    stub = Path(__file__).with_name("stub")
    done = subprocess.run(
        [compiler, *words, f"-I{stub}", *sources], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_parameter_and_signal_of_its_code_is_declared_and_the_other_way_round(module: Path) -> None:
    ned = (module / "src" / "WeirDevice.ned").read_text()
    code = (module / "src" / "WeirDevice.cc").read_text()
    parameters = set(re.findall(r"^ +(?:string|int|double) (\w+)", ned, re.MULTILINE))
    assert set(re.findall(r'par\("(\w+)"\)', code)) == parameters
    assert set(re.findall(r'registerSignal\("(\w+)"\)', code)) == set(re.findall(r"@signal\[(\w+)\]", ned))


def test_its_ned_files_are_balanced_and_its_example_names_the_model(module: Path) -> None:
    for ned in module.rglob("*.ned"):
        text = re.sub(r"//.*|\"[^\"]*\"", "", ned.read_text())
        assert all(text.count(a) == text.count(b) for a, b in ("{}", "()", "[]")), ned
    for folder in ("example", "inet"):
        named = re.search(r'modelFile = "(.+)"', (module / folder / "omnetpp.ini").read_text())
        assert named is not None
        assert (module / folder / named[1]).is_file()


def test_every_parameter_that_the_example_for_inet_sets_in_the_device_is_one_of_it(module: Path) -> None:
    settings = (module / "inet" / "omnetpp.ini").read_text()
    declared = (module / "src" / "WeirDevice.ned").read_text()
    for name in re.findall(r"^\*\.firewall\.(\w+)", settings, re.MULTILINE):
        assert re.search(rf"^ +(?:string|int|double) {name}\b", declared, re.MULTILINE), name
    for name in re.findall(r"module='firewall' par='(\w+)'", settings):
        assert re.search(rf"^ +(?:string|int|double) {name}\b.*@mutable", declared, re.MULTILINE), name
    assert "package weir.inet;" in (module / "inet" / "package.ned").read_text()


def test_the_model_of_the_fingerprint_is_a_model_file(module: Path, tmp_path: Path) -> None:
    text = (module / "test" / "fingerprint.test").read_text()
    (tmp_path / "small.model.json").write_text(
        text.partition("%file: small.model.json\n")[2].partition("\n%")[0]
    )
    (device,) = load_devices(tmp_path / "small.model.json")
    model = device.models["queueing"]
    # In ns: 1,000, 2 for each of 75 rules, and 0.5 for each of 594 bytes.
    assert float(model.threshold_pps(75, 594)) == pytest.approx(1e9 / 1447)
