"""Measured devices for the simulated lab and the emulated link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.base.errors import ModelError
from weirlab.base.files import HOST_FILES, Inputs
from weirlab.lab.sim import Axis, SimulatedModel
from weirlab.model.io import DeviceModels, load_devices, pick
from weirlab.model.process import BehaviourGrid
from weirlab.model.queueing import QueueingModel

_CARRIED_BYTES: Final = (64.0, 128.0, 256.0, 512.0, 1024.0, 1518.0)
"""Frame sizes of an emulated link whose behaviour is computed; between them it is interpolated."""


def queueing_model(path: Path, inputs: Inputs = HOST_FILES) -> tuple[DeviceModels, QueueingModel]:
    """The only device in a model file with its model of a queue.

    Raises
    ------
    InputError, ModelError
        It is no model file, or holds several devices or no such model.
    """
    device = pick(load_devices(path, inputs), None, str(path))
    model = device.models.get(QueueingModel.name)
    if not isinstance(model, QueueingModel):
        raise ModelError(
            f"{path} holds no {QueueingModel.name} model of {device.name}; fit again with weir fit"
        )
    return device, model


def simulated_model(path: Path, inputs: Inputs = HOST_FILES) -> SimulatedModel:
    """The device in a model file for the simulated lab; raises as :func:`queueing_model`."""
    device, model = queueing_model(path, inputs)

    def behaviour(positions: Axis, frames_bytes: Axis) -> Mapping[str, Any]:
        return BehaviourGrid.of(model, positions, frames_bytes).plain()

    return SimulatedModel(device.name, behaviour)


@dataclass(frozen=True)
class CrossedDevice:
    """A measured device that frames of an emulated link cross."""

    name: str
    position: int
    """Matching position of all frames."""
    seed: int
    behaviour: BehaviourGrid

    def plain(self) -> dict[str, Any]:
        """For the engine."""
        return {**self.behaviour.plain(), "position": float(self.position), "seed": self.seed}


def crossed_device(path: Path, position: int, seed: int) -> CrossedDevice:
    """The device in a model file for an emulated link; raises as :func:`queueing_model`."""
    device, model = queueing_model(path)
    return CrossedDevice(
        device.name, position, seed, BehaviourGrid.of(model, [float(position)], _CARRIED_BYTES)
    )
