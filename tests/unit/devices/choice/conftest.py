"""Two devices and a tunnel that were profiled, and the table of a choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.testing import queue


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two devices and a tunnel, which were profiled with frames of 64 to 298 B."""
    folder = tmp_path_factory.mktemp("models")
    old, new = queue.QueueDevice(), queue.QueueDevice(per_rule_ns=0.5)
    tunnel = queue.QueueDevice(fixed_ns=40_000.0, per_rule_ns=0.0)
    frames = (64.0, 298.0)
    for path, devices in (
        ("devices.json", {"old": (old, (0, 100, 400, 1000)), "new": (new, (0, 100, 400, 1000))}),
        ("tunnel.json", {"wireguard-go": (tunnel, (0,))}),
    ):
        save_devices(
            [
                DeviceModels(name, fit_all(queue.profile(device, places, frames, poisson=True, packets=500)))
                for name, (device, places) in devices.items()
            ],
            folder / path,
        )
    return folder


def rows(document: dict[str, Any]) -> dict[tuple[str, int, float], dict[str, Any]]:
    return {(row["device"], row["rules"], row["factor"]): row for row in document["rows"]}
