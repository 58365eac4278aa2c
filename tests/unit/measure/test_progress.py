from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.measure.progress import OVERHEAD_S, Meter, Progress, estimate_s, left_s
from weirlab.testing import FakeClock, make_record, make_spec

seconds = st.floats(0, 1e6)


def test_the_estimate_is_traffic_and_overhead() -> None:
    assert estimate_s([make_spec(duration_s=0.5, warmup_s=0.2)] * 10) == pytest.approx(
        10 * (0.7 + OVERHEAD_S)
    )
    assert estimate_s([]) == 0


def test_without_experience_the_rest_takes_what_was_expected() -> None:
    assert left_s(60, 0, 0) == 60


@given(seconds, st.floats(1e-3, 1e6), seconds)
def test_experience_scales_the_rest(rest: float, done: float, elapsed: float) -> None:
    assert left_s(rest, done, elapsed) == rest * (elapsed / done)


def test_skipped_trials_do_not_make_the_rest_look_fast() -> None:
    clock = FakeClock()
    told: list[Progress] = []
    meter = Meter([1.0] * 10, clock, told.append)
    for _ in range(5):
        meter.skip()
    clock.advance(2.0)
    meter.count("slow", make_record())
    assert (told[-1].done, told[-1].total, told[-1].elapsed_s, told[-1].left_s) == (6, 10, 2.0, 8.0)


def test_more_trials_than_expected_do_no_harm() -> None:
    told: list[Progress] = []
    meter = Meter([1.0], FakeClock(), told.append)
    for _ in range(3):
        meter.count("more", make_record())
    assert told[-1].left_s == 0


def test_a_plan_can_replace_what_was_expected() -> None:
    told: list[Progress] = []
    meter = Meter([1.0] * 5, FakeClock(), told.append)
    meter.skip()
    meter.replace_rest([3.0, 3.0])
    meter.tell("planned")
    assert (told[-1].total, told[-1].left_s) == (3, 6.0)
