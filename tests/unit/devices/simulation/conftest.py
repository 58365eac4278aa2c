"""A fitted device, and the points of a sweep; a cluster on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.testing import queue

from ...campaigns.conftest import cluster  # noqa: F401
from ...conftest import Weir


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A device that takes 1 µs and 2.7 ns per rule."""
    path = tmp_path_factory.mktemp("model") / "edge.model.json"
    trials = queue.profile(queue.QueueDevice(), (0, 100, 400), (64.0, 512.0), packets=500)
    save_devices([DeviceModels("edge", fit_all(trials, calibrate=False), {"lab": "netns"})], path)
    return path


def swept(weir: Weir, *words: str | Path) -> list[dict[str, float]]:
    """The points of a sweep, without the time that each took."""
    answer = weir("simulate", *words, "--json")
    assert answer.code == 0, answer.err
    points: list[dict[str, float]] = answer.json["simulations"]
    return [{name: value for name, value in point.items() if name != "wall_s"} for point in points]
