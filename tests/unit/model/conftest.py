from __future__ import annotations

import pytest

from weirlab.model import QueueingModel
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile


@pytest.fixture(scope="session")
def regular() -> list[Observation]:
    """Profile of the default device under constant gaps (D/D/1/K)."""
    return profile(QueueDevice())


@pytest.fixture(scope="session")
def random() -> list[Observation]:
    """Profile of the default device under Poisson arrivals (M/D/1/K)."""
    return profile(QueueDevice(), poisson=True, packets=6000)


@pytest.fixture(scope="session")
def fitted(random: list[Observation]) -> QueueingModel:
    """The queueing model of the default device under Poisson arrivals."""
    return QueueingModel.fit(random)
