"""What the profiles that come with Weir must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.jobs.profiles import to_measure
from weirlab.measure.profile import expected
from weirlab.scenario import QUICK, Scenario, from_plain
from weirlab.studies import ready
from weirlab.studies.scenarios import load


def demo() -> Scenario:
    scenario = load(ready.find(Path("firewall-rules")))
    assert isinstance(scenario, Scenario)
    return scenario


@pytest.mark.parametrize("name", ["demo", "quick"])
def test_every_position_is_profiled_with_random_arrivals_too_since_calls_come_so(name: str) -> None:
    scenario = demo() if name == "demo" else from_plain({"name": "t", "profile": QUICK}, "the test")
    specs = expected(to_measure(scenario))
    random = [spec for spec in specs if spec.traffic.arrivals == "poisson"]
    assert {spec.rules.position for spec in random} == set(scenario.profile.positions)
    assert len(random) < 0.15 * len(specs)
