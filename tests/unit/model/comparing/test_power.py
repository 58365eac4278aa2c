"""What comparisons are said to find is what they find on a made-up host."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weirlab.model.comparing.matching import ComparisonSetting, SettingMeasurement
from weirlab.model.comparing.paired import power
from weirlab.model.comparing.scatter import PUBLISHED
from weirlab.model.comparing.verdicts import ComparisonFinding, ComparisonTerms, compare

SETTINGS, RUNS = 12, 3


def run(rng: np.random.Generator, change: float = 0.0) -> dict[ComparisonSetting, SettingMeasurement]:
    """A profile of a host that scatters as published ones; every overload forwards ``change`` more."""
    scatter = PUBLISHED["rate"]
    level = math.log(1e6) + math.log1p(change) + rng.normal(0, scatter.run)
    nothing = np.zeros(0)
    return {
        ComparisonSetting(position, 64.0): SettingMeasurement(
            np.full(4, level + rng.normal(0, scatter.place)),
            {"mean": nothing, "p99": nothing},
            nothing,
            dict.fromkeys(("mean", "p99"), (nothing, nothing)),
        )
        for position in range(SETTINGS)
    }


def findings(change: float) -> list[ComparisonFinding]:
    rng = np.random.default_rng(7)
    found = []
    for _ in range(200):
        before, after = ([run(rng, shift) for _ in range(RUNS)] for shift in (0.0, change))
        (finding,) = compare(before, after, ComparisonTerms(), same_load=False)
        found.append(finding)
    return found


def test_a_change_as_small_as_said_is_found_in_four_of_five_comparisons() -> None:
    (rate, *_) = power(SETTINGS, RUNS, ComparisonTerms())
    share = np.mean([finding.verdict == "worse" for finding in findings(-rate.detectable)])
    assert 0.7 <= share <= 0.97


def test_more_profiles_and_settings_find_less_and_a_simulated_host_hides_nothing() -> None:
    few, more, wide = (power(*asked, ComparisonTerms()) for asked in ((6, 1), (6, 4), (24, 1)))
    for one, other, third in zip(few, more, wide, strict=True):
        assert other.detectable < one.detectable
        assert third.detectable < one.detectable
        assert one.provable < one.detectable
    simulated = power(6, 1, ComparisonTerms(simulated=True))
    assert [each.detectable for each in simulated] == pytest.approx([0.08, 0.08, 0.2])
    (given, *_) = power(6, 2, ComparisonTerms(given={"rate": 0.1}))
    assert given.detectable == pytest.approx(math.expm1(0.1 * (2.807 + 0.8416)), rel=0.01)
