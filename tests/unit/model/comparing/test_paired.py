"""Pairs of trials: the median and its error, verdicts at and around the margin, and what too few can say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weirlab.model.comparing import paired
from weirlab.model.comparing.matching import ComparisonSetting
from weirlab.model.comparing.verdicts import ComparisonTerms

PLACE, OTHER = ComparisonSetting(0, 64), ComparisonSetting(400, 64)
EXACT = ComparisonTerms(paired.MARGINS, simulated=True)


def spread(change: float, pairs: int = 60, scatter: float = 0.05, seed: int = 0) -> np.ndarray:
    """Differences of pairs, of which a fifth was disturbed on one side."""
    random = np.random.default_rng(seed)
    found = math.log1p(change) + random.normal(0, scatter, pairs)
    return found + np.where(random.random(pairs) < 0.2, random.normal(0, 10 * scatter, pairs), 0)


def test_the_error_of_a_median_is_that_of_many_medians_drawn() -> None:
    random = np.random.default_rng(1)
    drawn = random.standard_t(3, (2000, 60))
    errors = [paired.median_stderr(values) for values in drawn]
    assert np.mean(errors) == pytest.approx(float(np.median(drawn, axis=1).std()), rel=0.1)


@pytest.mark.parametrize(("change", "verdict"), [(0, "unchanged"), (-0.1, "worse"), (0.1, "better")])
def test_a_tenth_is_found_and_nothing_is_found_where_nothing_changed(change: float, verdict: str) -> None:
    found = [
        paired.compare_pairs({PLACE: {"rate": spread(change, seed=seed)}}, EXACT)[0] for seed in range(100)
    ]
    assert sum(one.verdict == verdict for one in found) >= 98


def test_changes_of_settings_are_averaged_and_each_is_kept() -> None:
    settings = {PLACE: {"rate": spread(0, scatter=0.001)}, OTHER: {"rate": spread(-0.2, scatter=0.001)}}
    (found,) = paired.compare_pairs(settings, EXACT)
    assert found.change == pytest.approx(math.sqrt(0.8) - 1, abs=0.002)
    assert {match.place: round(math.expm1(match.difference), 2) for match in found.matches} == {
        PLACE: 0.0,
        OTHER: -0.2,
    }


def test_loss_is_compared_in_points() -> None:
    (none,) = paired.compare_pairs({PLACE: {"loss": np.zeros(60)}}, EXACT)
    assert (none.verdict, none.change) == ("unchanged", 0)
    (more,) = paired.compare_pairs({PLACE: {"loss": np.full(60, 0.01)}}, EXACT)
    assert (more.verdict, more.change) == ("worse", 0.01)


def test_too_few_pairs_decide_nothing_and_the_number_that_would_is_named() -> None:
    (few,) = paired.compare_pairs({PLACE: {"rate": spread(-0.3, pairs=5)}}, EXACT)
    assert (few.verdict, few.why) == ("cannot tell", paired.TOO_FEW)
    (none,) = paired.compare_pairs({PLACE: {"mean": np.empty(0)}}, EXACT)
    assert (none.verdict, none.why) == ("cannot tell", paired.TOO_FEW), "a quantity without pairs is no less"
    (wide,) = paired.compare_pairs({PLACE: {"rate": spread(0, pairs=20, scatter=0.2)}}, EXACT)
    assert wide.verdict == "cannot tell"
    assert wide.runs_needed is not None
    enough = spread(0, pairs=2 * wide.runs_needed, scatter=0.2)
    assert paired.compare_pairs({PLACE: {"rate": enough}}, EXACT)[0].verdict == "unchanged"


def test_what_differs_between_beds_stays_however_many_pairs_there_are() -> None:
    many = {PLACE: {"rate": spread(0, pairs=10_000)}}
    real, exact = (
        paired.compare_pairs(many, ComparisonTerms(paired.MARGINS, simulated=simulated))[0]
        for simulated in (False, True)
    )
    assert real.provable > exact.provable
    assert real.provable == pytest.approx(1.645 * paired.BEDS["rate"], rel=0.3)


def test_more_pairs_find_smaller_changes() -> None:
    few, many = (paired.power_of_pairs(1, pairs, EXACT)[0] for pairs in (10, 160))
    assert many.provable < few.provable
    assert many.detectable <= few.detectable
