"""Measured devices in other simulators: a C++ core without dependencies, and the modules built on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from weirlab.base import files
from weirlab.base.errors import InputError, ModelError
from weirlab.model.io import DeviceModels, to_document
from weirlab.model.queueing import QueueingModel

SimulatorName = Literal["ns3", "omnetpp"]

_HERE: Final = Path(__file__).parent
_CORE: Final = ("weir_json.hpp", "weir_model.hpp", "weir_device.hpp")
_SOURCES: Final = (".h", ".hpp", ".cc", ".ned", ".ini", ".test", ".txt", ".rst", ".plt")


@dataclass(frozen=True)
class SimulatorModule:
    """A module of a simulator."""

    core: str
    """Its folder that gets the C++ core."""
    model: str
    """Its model file."""
    further: str
    """What to do next in it."""


SIMULATORS: Final[Mapping[SimulatorName, SimulatorModule]] = {
    "ns3": SimulatorModule(
        "model", "firewall.model.json", "make && ./weir-example > ramp.csv && gnuplot ramp.plt"
    ),
    "omnetpp": SimulatorModule(
        "src", "example/firewall.model.json", "make && cd example && ../src/weir -u Cmdenv"
    ),
}


def write_module(device: DeviceModels, to: SimulatorName, out: Path) -> list[Path]:
    """Write the module for a simulator with the queueing model of ``device`` into the new folder ``out``.

    Returns the files.

    Raises
    ------
    InputError
        There is something in ``out``.
    ModelError
        The device has no queueing model.
    StoreError
        The folder cannot be written.
    """
    model = device.models.get(QueueingModel.name)
    if not isinstance(model, QueueingModel):
        raise ModelError(f"{device.name} has no {QueueingModel.name} model; fit again with weir fit")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not empty; name a new folder with --out")
    made = SIMULATORS[to]
    root = _HERE / to / "weir"
    sources = {path.relative_to(root): path for path in sorted(root.rglob("*")) if _is_source(path)}
    sources |= {Path(made.core) / name: _HERE / "core" / name for name in _CORE}
    # Simulations do not need intervals, which are the larger part of a model.
    plain = replace(device, models={QueueingModel.name: replace(model, calibration=None)})
    data = json.dumps(to_document([plain]), allow_nan=False) + "\n"
    contents = {name: path.read_bytes() for name, path in sources.items()}
    contents[Path(made.model)] = data.encode()
    for name, content in contents.items():
        files.make_folder((out / name).parent)
        files.write_bytes(out / name, content)
    return [out / name for name in sorted(contents)]


def _is_source(path: Path) -> bool:
    return path.is_file() and (path.suffix in _SOURCES or path.name == "Makefile")


__all__ = ["SIMULATORS", "SimulatorName", "write_module"]
