"""Devices to plan with: their models are fitted to made-up profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.testing import queue

OLD, NEW = queue.QueueDevice(), queue.QueueDevice(fixed_ns=800.0, per_rule_ns=1.0)


@pytest.fixture(scope="session")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an old and a new device."""
    path = tmp_path_factory.mktemp("models") / "devices.json"
    fitted = {
        name: fit_all(queue.profile(device, packets=1500), calibrate=False)
        for name, device in (("old", OLD), ("new", NEW))
    }
    save_devices([DeviceModels(name, models) for name, models in fitted.items()], path)
    return path
