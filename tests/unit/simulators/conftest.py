from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import weirlab
from weirlab.model import QueueingModel, save
from weirlab.testing.queue import QueueDevice, profile

SOURCES = Path(weirlab.__file__).parent / "simulators"
RUNS = Path(__file__).resolve().parents[3] / "bench" / "runs"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Compiles a program of one source file."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: install g++")
    folder = tmp_path_factory.mktemp("programs")

    def build(source: Path) -> Path:
        program = folder / source.stem
        words = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{SOURCES / 'core'}"]
        done = subprocess.run(
            [compiler, *words, source, "-o", program], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return program

    return build


@pytest.fixture(scope="session")
def device_model() -> QueueingModel:
    """Of a device that obeys the law, with wake-up and two frame sizes."""
    device = QueueDevice(per_byte_ns=0.3, wake_ns=4000.0)
    return QueueingModel.fit(profile(device, (0, 100, 400, 1000), (64.0, 1518.0), packets=1500))


@pytest.fixture(scope="session")
def model_file(device_model: QueueingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file."""
    path = tmp_path_factory.mktemp("model") / "device.model.json"
    save({"queueing": device_model}, path)
    return path
