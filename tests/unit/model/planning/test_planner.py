from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from weirlab.base.errors import InputError
from weirlab.model import QueueingModel
from weirlab.model.planning.judge import Judge, OperatingPoints
from weirlab.model.planning.planner import OfferedLoad, PlanningQuestion, answer, best
from weirlab.model.planning.reach import reach
from weirlab.model.planning.requirements import parse_limit
from weirlab.records import Observation

from .conftest import Textbook

LOSSLESS = (parse_limit("loss=0"),)


def question(find: str, *required: str, **given: Any) -> PlanningQuestion:
    wanted = tuple(parse_limit(text) for text in required) or LOSSLESS
    settings: dict[str, Any] = {"load": None, "frame_bytes": 64.0, "position": 400.0, "certainty": 0.5}
    return PlanningQuestion(find=find, limits=wanted, **{**settings, **given})  # type: ignore[arg-type]


def test_without_loss_the_capacity_is_the_threshold(exact: Textbook) -> None:
    found = answer("d", exact, question("rate"))
    assert found.reach is not None
    assert found.reach.value == pytest.approx(float(exact.threshold_pps(400, 64)), rel=1e-5)
    assert found.reach.ended == "limit"
    assert found.reach.binding == LOSSLESS[0]
    assert found.met


def test_the_capacity_is_where_the_models_own_delay_crosses_the_limit(exact: Textbook) -> None:
    limit_ns = 60_000.0
    boundary = brentq(
        lambda rate: float(exact.predict(rate, 64, 400, 1.0).delay_p99_ns) - limit_ns, 1e3, 5.5e5
    )
    found = answer("d", exact, question("rate", "p99<60us", "loss=0", gap_scv=1.0))
    assert found.reach is not None
    assert found.reach.value == pytest.approx(boundary, rel=1e-5)
    assert found.reach.binding is not None
    assert found.reach.binding.quantity == "delay_p99_ns"


@given(st.integers(1, 999))
def test_rules_found_for_the_rate_found_for_rules_are_those_rules(rules: int) -> None:
    exact = Textbook(sigma=0.0)
    rate = answer("d", exact, question("rate", position=float(rules))).reach
    assert rate is not None
    assert rate.value is not None
    back = answer(
        "d", exact, question("rules", load=OfferedLoad(rate.value * (1 - 1e-7)), position=None)
    ).reach
    assert back is not None
    assert back.value == rules


@given(st.floats(0.5, 0.995), st.floats(0.5, 0.995))
def test_more_certainty_never_finds_more_capacity(a: float, b: float) -> None:
    low, high = sorted((a, b))
    wanted = ("p99<50us", "loss=0")
    found = [
        answer("d", Textbook(), question("rate", *wanted, gap_scv=1.0, certainty=c)).score
        for c in (low, high)
    ]
    assert found[0] >= found[1] > 0


def test_where_the_profile_ends_the_answer_says_at_least_and_why() -> None:
    fast = Textbook(fixed_ns=100.0, per_rule_ns=0.1, sigma=0.0)
    found = answer("d", fast, question("rate")).reach
    assert found is not None
    assert found.ended == "profile"
    assert found.value == pytest.approx(2e6, rel=1e-5)
    assert found.why == ("load outside the profiled 1 to 2000 kpps",)
    rules = answer("d", fast, question("rules", load=OfferedLoad(1e5), position=None)).reach
    assert rules is not None
    assert (rules.value, rules.ended) == (1000, "profile")


def test_extrapolation_goes_on_to_the_limit_when_allowed() -> None:
    fast = Textbook(fixed_ns=100.0, per_rule_ns=0.1, sigma=0.0)
    found = answer("d", fast, question("rate", extrapolate=True))
    assert found.reach is not None
    assert found.reach.value == pytest.approx(float(fast.threshold_pps(400, 64)), rel=1e-5)
    assert found.outlook is not None
    assert found.outlook.why_extrapolated


def test_a_setting_that_was_not_profiled_is_refused_with_the_reason(exact: Textbook) -> None:
    for asked in (
        question("rate", position=5000.0),
        question("device", position=5000.0, load=OfferedLoad(1e5)),
        question("frame", position=5000.0, load=OfferedLoad(1e5), frame_bytes=None),
    ):
        found = answer("d", exact, asked)
        assert "matching position outside the profiled 0 to 1000" in found.refused
        assert not found.met


def test_a_limit_that_the_lowest_load_misses_finds_nothing(exact: Textbook) -> None:
    found = answer("d", exact, question("rate", "p99<5us"))
    assert found.reach is not None
    assert (found.reach.value, found.reach.ended) == (None, "limit")
    assert not found.met


def test_headroom_is_what_is_left_up_to_the_limit(exact: Textbook) -> None:
    found = answer("d", exact, question("device", load=OfferedLoad(1e5))).headroom
    assert found is not None
    capacity = float(exact.threshold_pps(400, 64))
    assert found.ratio == pytest.approx(capacity / 1e5, rel=1e-5)
    assert found.left_pps == pytest.approx(capacity - 1e5, rel=1e-5)
    over = answer("d", exact, question("device", load=OfferedLoad(capacity * 1.25)))
    assert not over.met
    assert over.headroom is not None
    assert over.headroom.ratio == pytest.approx(0.8, rel=1e-4)


def test_frames_that_will_do_are_those_at_whose_packet_rate_nothing_is_lost(exact: Textbook) -> None:
    asked = question("frame", load=OfferedLoad(5e8, "bps"), frame_bytes=None, position=400.0)
    found = answer("d", exact, asked)
    sizes = np.arange(64, 1519)
    good = sizes[5e8 / ((sizes + 20) * 8) <= exact.threshold_pps(400, sizes) * (1 + 1e-6)]
    assert found.frames == ((int(good[0]), 1518),)
    assert 64 < good[0] < 1518


def test_calls_are_whole_and_count_both_directions(exact: Textbook) -> None:
    capacity = float(exact.threshold_pps(400, 218))
    found = answer("d", exact, question("calls", frame_bytes=218.0, call_pps=100.0))
    assert found.calls == int(capacity // 100)


def test_the_best_device_carries_most(exact: Textbook, slow: Textbook) -> None:
    answers = [answer(name, model, question("rate")) for name, model in (("slow", slow), ("exact", exact))]
    chosen = best(answers)
    assert chosen is not None
    assert chosen.device == "exact"
    assert best([answer("d", slow, question("rate", "p99<5us"))]) is None


def test_a_model_without_intervals_is_answered_by_its_prediction_and_says_so(exact: Textbook) -> None:
    sure = answer("d", exact, question("rate", "p99<60us", "loss=0", certainty=0.95))
    assert set(sure.uncertain) == {"delay_p99_ns", "loss_ratio"}
    assert sure.score == answer("d", exact, question("rate", "p99<60us", "loss=0")).score
    assert answer("d", exact, question("rate")).uncertain == ()


def test_the_first_violation_counts_even_if_larger_loads_would_do_again(exact: Textbook) -> None:
    class Bumpy(Textbook):
        def predict(self, *arguments: Any) -> Any:
            found = super().predict(*arguments)
            rate = np.asarray(arguments[0], float)
            bump = np.where((rate > 1e5) & (rate < 1.2e5), 1e9, 0.0)
            return replace(found, jitter_ns=found.jitter_ns + bump)

    found = answer("d", Bumpy(sigma=0.0), question("rate", "jitter<1ms", "loss=0")).reach
    assert found is not None
    assert found.value == pytest.approx(1e5, rel=1e-5)


def test_what_was_not_measured_meets_no_limit(exact: Textbook) -> None:
    class NoJitter(Textbook):
        def predict(self, *arguments: Any) -> Any:
            found = super().predict(*arguments)
            return replace(found, jitter_ns=found.jitter_ns * np.nan)

    assert not answer("d", NoJitter(sigma=0.0), question("rate", "jitter<1s")).met


@pytest.mark.parametrize(
    ("find", "given", "complaint"),
    [
        ("rate", {"position": None}, "also give rules"),
        ("device", {}, "also give rate"),
        ("rate", {"load": OfferedLoad(1e5)}, "rate is what the plan is to find"),
        ("calls", {}, "a codec is needed"),
        ("rate", {"certainty": 0.2}, "out of range"),
    ],
)
def test_too_much_or_too_little_given_is_named(find: str, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        question(find, **given)


def test_a_question_without_limits_is_refused() -> None:
    with pytest.raises(InputError, match="something to meet"):
        PlanningQuestion("rate", (), frame_bytes=64.0, position=0.0)


def test_whole_numbers_are_searched_to_the_unit(exact: Textbook) -> None:
    judge = Judge(exact, LOSSLESS, 0.5)
    grid = np.array([0.0, 1000.0])
    found = reach(judge, grid, lambda n: OperatingPoints(5e5, 64, n), whole=True)
    assert found.value == 496  # 1000 + 2 n + 6.4 <= 2000


def test_a_load_below_the_lowest_profiled_one_is_bounded_by_that(regular: list[Observation]) -> None:
    """Reported: a choice among profiles that it had made itself refused 60 calls, but not 300."""
    model = QueueingModel.fit(regular)
    least_pps = model.profiled.rate_min_pps
    light = question("device", "p99<1ms", load=OfferedLoad(least_pps / 10))
    found, there = (
        answer("d", model, replace(light, load=OfferedLoad(pps))) for pps in (least_pps / 10, least_pps)
    )
    assert (found.verdict, found.least_pps, there.least_pps) == ("meets", least_pps, None)
    assert found.outlook is not None
    assert there.outlook is not None
    assert found.outlook.predicted == there.outlook.predicted
    assert found.headroom is not None
    assert there.headroom is not None
    assert found.headroom.ratio == pytest.approx(10 * there.headroom.ratio)
    for one in (replace(light, find="rules", position=None), replace(light, find="frame", frame_bytes=None)):
        assert answer("d", model, one).verdict == "meets"
    # A device that misses a limit at more load may meet it at this one.
    tight = replace(light, limits=(parse_limit("p99<1us"),))
    assert answer("d", model, tight).verdict == "undecided"
    assert answer("d", model, replace(tight, load=OfferedLoad(least_pps))).verdict == "misses"
    assert answer("d", model, replace(light, extrapolate=True)).least_pps is None
    assert answer("d", model, replace(light, position=1e5)).verdict == "not profiled"


def test_a_fitted_models_capacity_is_its_own_boundary(regular: list[Observation]) -> None:
    model = QueueingModel.fit(regular)
    found = answer("d", model, question("rate", "p99<1ms", "loss<0.1%"))
    assert found.reach is not None
    rate = found.reach.value
    assert rate is not None
    judge = Judge(model, question("rate", "p99<1ms", "loss<0.1%").limits, 0.5)
    assert judge.at(OperatingPoints(rate * 0.9999, 64, 400)).met
    assert not judge.at(OperatingPoints(rate * 1.0001, 64, 400)).met
    # The device behind the trials serves a packet in 1200 + 2.7 n ns.
    assert rate == pytest.approx(1e9 / (1200 + 2.7 * 400), rel=0.03)
