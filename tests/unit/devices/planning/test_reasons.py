"""Why a device misses a limit."""

from __future__ import annotations

import pytest

from weirlab.devices.planning.reasons import missing
from weirlab.model.planning.planner import PlanForecast, PlanningQuestion
from weirlab.model.planning.requirements import NO_LOSS, QuantityLimit

LIMIT = QuantityLimit("loss_ratio", NO_LOSS)


@pytest.mark.parametrize(("rate_pps", "near"), [(950.0, True), (800.0, False)])
def test_only_a_load_within_a_tenth_of_the_threshold_is_said_to_be_there(rate_pps: float, near: bool) -> None:
    look = PlanForecast(
        rate_pps,
        64.0,
        0.0,
        predicted={"loss_ratio": 0.0, "threshold_pps": 1000.0},
        bounds={"loss_ratio": 0.05},
        floors={"loss_ratio": 0.0},
        decisions={"loss_ratio": "misses"},
        decision="misses",
        binding=LIMIT,
        used=2.0,
        why_extrapolated=(),
    )
    assert ("threshold" in missing(look, PlanningQuestion("rate", (LIMIT,), None, 64.0, 0.0))) == near
