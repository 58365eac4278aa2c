"""Modules for simulators: what is written, and that it builds and agrees with the model."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pytest

from weirlab.base.errors import InputError, ModelError
from weirlab.model import DeviceModels, QueueingModel, load_devices
from weirlab.simulators import write_module

NS3 = Path("/usr/include/ns3/core-module.h")


@pytest.fixture(scope="module")
def module(device_model: QueueingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("modules") / "ns3"
    write_module(DeviceModels("old/firewall 2", {"queueing": device_model}), "ns3", out)
    return out


def test_a_module_has_the_core_and_the_model_and_nothing_that_was_built(module: Path) -> None:
    names = {str(path.relative_to(module)) for path in module.rglob("*") if path.is_file()}
    assert {"Makefile", "CMakeLists.txt", "ramp.plt", "model/weir_device.hpp", "doc/weir.rst"} <= names
    assert "firewall.model.json" in names
    assert not [name for name in names if name.endswith((".o", ".pyc"))]


def test_the_model_of_a_module_predicts_as_before(module: Path, device_model: QueueingModel) -> None:
    (device,) = load_devices(module / "firewall.model.json")
    model = device.models["queueing"]
    assert isinstance(model, QueueingModel)
    assert float(model.predict(3e5, 64, 100).delay_p99_ns) == pytest.approx(
        float(device_model.predict(3e5, 64, 100).delay_p99_ns)
    )


def test_a_folder_with_something_in_it_is_left_alone(device_model: QueueingModel, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="not empty"):
        write_module(DeviceModels("a", {"queueing": device_model}), "ns3", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_device_without_a_queueing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no queueing model"):
        write_module(DeviceModels("a", {}), "ns3", tmp_path / "out")


@pytest.mark.skipif(not NS3.is_file(), reason="ns-3 is missing: install libns3-dev")
@pytest.mark.skipif(shutil.which("make") is None, reason="make is missing")
def test_the_module_for_ns3_builds_and_passes_its_tests_and_its_example_follows_the_model(
    module: Path, device_model: QueueingModel
) -> None:
    words = ["make", "-C", module, "--no-print-directory", "CXXFLAGS=-O1 -Werror", "check", "weir-example"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS weir" in done.stdout
    rate = 0.8 * float(device_model.threshold_pps(100, 64))
    command = ["./weir-example", "--Position=100", f"--Rate={rate}", "--Seconds=0.1"]
    shown = subprocess.run(command, cwd=module, capture_output=True, text=True, check=True).stdout
    (row,) = csv.DictReader(io.StringIO(shown))
    expected = device_model.predict(rate, 64, 100)
    assert float(row["predicted_mean_us"]) == pytest.approx(float(expected.delay_mean_ns) / 1e3, rel=1e-4)
    assert float(row["delay_mean_us"]) == pytest.approx(float(row["predicted_mean_us"]), rel=0.03)
    assert float(row["load"]) == pytest.approx(0.8, rel=1e-4)
    # Packets count by their arrival: those that filled the queue before the end of the warm-up do not.
    rate = 1.5 * float(device_model.threshold_pps(100, 64))
    command = ["./weir-example", "--Position=100", f"--Rate={rate}", f"--Seconds={20_000 / rate}"]
    shown = subprocess.run(command, cwd=module, capture_output=True, text=True, check=True).stdout
    (row,) = csv.DictReader(io.StringIO(shown))
    assert float(row["loss_ratio"]) == pytest.approx(1 - 1 / 1.5, abs=0.001)
    for words, code, problem in (
        (["--FrameBytes=10"], 2, "--FrameBytes must be from 64"),
        (["--Model=none"], 1, "cannot read the model file none"),
        (["--Rate=1", "--Seconds=0.1"], 1, "raise --Seconds or --Rate"),
    ):
        failed = subprocess.run(
            ["./weir-example", *words], cwd=module, capture_output=True, text=True, check=False
        )
        assert failed.returncode == code
        assert failed.stderr.count("\n") == 1
        assert problem in failed.stderr
