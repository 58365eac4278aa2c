from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.model.regimes import evidence
from weirlab.records import Observation
from weirlab.testing.bed import HostNoise
from weirlab.testing.queue import QueueDevice, profile

QUIET = HostNoise(scatter=0.01, outliers=0.0, drift=0.0, single=0.0)


@pytest.fixture(scope="module")
def truths() -> list[Observation]:
    return profile(QueueDevice(), loads=(0.1, 0.4, 0.8, 1.2, 1.5), packets=300)


def test_a_quiet_profile_with_repetitions_is_enough(truths: list[Observation]) -> None:
    found = evidence(QUIET.trials(truths, 1))
    assert found.enough
    assert (found.settings, found.repeated) == (25, 25)


def test_single_trials_are_too_little_however_quiet(truths: list[Observation]) -> None:
    found = evidence(replace(QUIET, single=1.0).trials(truths, 1))
    assert not found.enough
    assert "only 0 of 25 settings and loads have more than one valid trial" in found.too_little[0]


def test_a_forwarding_rate_that_rises_within_the_scatter_is_no_evidence(truths: list[Observation]) -> None:
    flat = profile(QueueDevice(per_rule_ns=0.0), loads=(0.4, 1.5), packets=300)
    found = evidence(replace(HostNoise(), scatter=0.15, single=0.0).trials(flat, 1))
    assert any("seems to forward more at matching position" in reason for reason in found.too_little)


def test_a_rise_that_repetitions_prove_is_the_devices_own(truths: list[Observation]) -> None:
    rng = np.random.default_rng(3)
    trials = [
        replace(
            o, forwarding_pps=o.forwarding_pps * (1.3 if o.position == 100 else 1.0) * rng.normal(1, 0.01)
        )
        for o in truths
        for _ in range(4)
    ]
    assert evidence(trials).enough


def test_no_trial_at_all_is_too_little() -> None:
    assert not evidence([]).enough
