from __future__ import annotations

import pytest

from weirlab.model import Queueing
from weirlab.records import Observation
from weirlab.testing.queue import Device, profile


@pytest.fixture(scope="session")
def regular() -> list[Observation]:
    """Profile of the default device under constant gaps (D/D/1/K)."""
    return profile(Device())


@pytest.fixture(scope="session")
def random() -> list[Observation]:
    """Profile of the default device under Poisson arrivals (M/D/1/K)."""
    return profile(Device(), poisson=True, packets=6000)


@pytest.fixture(scope="session")
def fitted(random: list[Observation]) -> Queueing:
    """The queueing model of the default device under Poisson arrivals."""
    return Queueing.fit(random)
