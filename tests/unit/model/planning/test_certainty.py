from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from weirlab.base.errors import InputError, ModelError
from weirlab.model.base import Band
from weirlab.model.planning.judge import at_least, at_most, loss_at_most

from .conftest import Textbook

FOUND = Textbook().predict(3e5, 64, 100)


@given(st.floats(0.5, 0.995))
def test_between_the_levels_a_log_normal_error_is_answered_exactly(certainty: float) -> None:
    bound = float(at_most(FOUND, "delay_p99_ns", certainty))
    assert bound == pytest.approx(float(FOUND.delay_p99_ns) * np.exp(0.1 * ndtri(certainty)), rel=1e-4)


@given(st.floats(0.5, 0.995), st.floats(0.5, 0.995))
def test_more_certainty_never_gives_a_lower_bound(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert at_most(FOUND, "jitter_ns", low) <= at_most(FOUND, "jitter_ns", high)
    assert at_least(FOUND, "threshold_pps", low) >= at_least(FOUND, "threshold_pps", high)


def test_the_prediction_itself_stands_for_50_percent() -> None:
    assert at_most(FOUND, "delay_mean_ns", 0.5) == FOUND.delay_mean_ns


@pytest.mark.parametrize(("certainty", "level"), [(0.75, 50), (0.95, 90), (0.995, 99)])
def test_a_two_sided_level_answers_for_half_of_what_it_leaves_out(certainty: float, level: int) -> None:
    bound = at_most(FOUND, "delay_p50_ns", certainty)
    assert bound == pytest.approx(float(FOUND.intervals["delay_p50_ns"][level].high))


def test_loss_sets_in_at_the_lower_end_of_the_threshold() -> None:
    threshold = float(FOUND.threshold_pps)
    just_below = np.asarray(threshold * 0.99)
    found = Textbook().predict(just_below, 64, 100)
    assert loss_at_most(found, just_below, 0.5) == 0
    assert loss_at_most(found, just_below, 0.95) > 0
    well_below = np.asarray(threshold * 0.5)
    assert loss_at_most(Textbook().predict(well_below, 64, 100), well_below, 0.995) == 0


def test_a_wider_interval_that_is_narrower_does_not_lower_the_bound() -> None:
    one = np.asarray(1.0)
    odd = replace(FOUND, intervals={"jitter_ns": {50: Band(one, 3e6 * one), 90: Band(one, one)}})
    assert at_most(odd, "jitter_ns", 0.95) >= at_most(odd, "jitter_ns", 0.75)


def test_an_unbounded_interval_gives_an_unbounded_answer() -> None:
    one = np.asarray(1.0)
    endless = replace(FOUND, intervals={"jitter_ns": {50: Band(one, one), 90: Band(one, np.inf * one)}})
    assert at_most(endless, "jitter_ns", 0.9) == np.inf


def test_a_loss_of_zero_is_interpolated_too() -> None:
    zero, some = np.asarray(0.0), np.asarray(0.01)
    found = replace(FOUND, intervals={"loss_ratio": {50: Band(zero, zero), 90: Band(zero, some)}})
    assert 0 < at_most(found, "loss_ratio", 0.9) < 0.01


def test_a_certainty_beyond_the_intervals_is_refused() -> None:
    for certainty in (0.4, 0.999, 1.0):
        with pytest.raises(InputError, match=r"50 %.*99\.5 %"):
            at_most(FOUND, "jitter_ns", certainty)
    one = np.asarray(1.0)
    narrow = replace(FOUND, intervals={"jitter_ns": {50: Band(one, one)}})
    with pytest.raises(ModelError, match="at most 75 %"):
        at_most(narrow, "jitter_ns", 0.9)
