"""A signed-off profile of a device that is known exactly."""

from __future__ import annotations

import pytest

from weirlab.devices.library.bundling import of_trials
from weirlab.library import BundleManifest, ProfileBundle
from weirlab.model import DeviceModels, fit_all
from weirlab.testing import queue


def make(name: str, device: queue.QueueDevice, measured: str = "2026-11-29T10:00:00+00:00") -> ProfileBundle:
    """A bundle of ``device``."""
    trials = queue.profile(device, (0, 100, 400), (64.0, 512.0), poisson=True, packets=500)
    models = fit_all(trials, calibrate=False)
    terms = BundleManifest(name, "CC0-1.0", measured, "a fake", conditions={"lab": "netns", "dut": name})
    return of_trials(terms, DeviceModels(name, models), trials)


@pytest.fixture(scope="session")
def bundle() -> ProfileBundle:
    """A bundle of a device that takes 1 µs and 1 ns per rule."""
    return make("edge", queue.QueueDevice())
