"""Searching over the number of calls, with a device that is a formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.calls.capacity.trials.rows import CapacityRow
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal, CallTraffic, Search, search_calls
from weirlab.measure.trial import FailedTrial
from weirlab.measure.validity import CAREFUL_LIMITS
from weirlab.records import TrialSpec
from weirlab.testing import make_record, make_result
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

from ..made import capacity_row

SETTING = CallTraffic(Calls((CallClass(parse_codec("g711")),), 1, rtcp=False))
LOSSLESS = CallGoal("without loss")
GOOD = CallGoal("MOS 4 for 99 %", 0.01, 4.0)


class FormulaTrials:
    """In place of ``Trials``: a device that carries ``lossless`` calls, and ``good`` of them well."""

    limits = CAREFUL_LIMITS

    def __init__(self, lossless: int, good: int, sender: int = 10**9, spoiled: int | None = None) -> None:
        self.lossless, self.good, self.sender, self.spoiled = lossless, good, sender, spoiled
        self.made: Counter[int] = Counter()
        self.row = row(1, 0, 1.0)

    def run(self, spec: TrialSpec) -> None:
        assert spec.traffic.calls is not None
        calls = spec.traffic.calls.count
        self.made[calls] += 1
        offered = 100.0 * calls
        # Less than 1 % short is as good as kept up, in real trials, too.
        if calls * (1 - self.limits.pacing_ratio) > self.sender:
            short = make_result(100.0 * self.sender, duration_s=spec.traffic.duration_s)
            raise FailedTrial("too slow", [make_record(short, spec, invalid=("late",))] * 3)
        if calls == self.spoiled:
            held = make_result(offered, duration_s=spec.traffic.duration_s)
            raise FailedTrial("stayed invalid: stolen", [make_record(held, spec, invalid=("stolen",))] * 3)
        self.row = row(calls, 0 if calls <= self.lossless else 50, 1.0 if calls <= self.good else 0.5)


def row(calls: int, lost: int, good_share: float) -> CapacityRow:
    return capacity_row(calls, phase="search", run=None, sent=calls * 10, lost=lost, good_share=good_share)


def found(
    trials: FormulaTrials, known: list[CapacityRow] | None = None, **changes: Any
) -> list[CallCapacity]:
    what = Search(**{"goals": (LOSSLESS, GOOD), "trial_s": 0.1, "warmup_s": 0.0, "trials": 3, **changes})
    row_of: Callable[[], CapacityRow] = lambda: trials.row  # noqa: E731
    return search_calls(trials, what, SETTING, 400, row_of, known or [])  # type: ignore[arg-type]


def test_each_goal_finds_its_number_of_calls() -> None:
    lossless, good = found(FormulaTrials(730, 910))
    for one, truth in ((lossless, 730), (good, 910)):
        assert one.calls is not None
        assert one.too_many is not None
        assert one.calls <= truth < one.too_many
        assert one.too_many - one.calls <= 0.02 * one.too_many + 1
        assert one.pps == 100 * one.calls
        assert not one.at_least
        assert one.position == 400


def test_a_trial_serves_every_goal() -> None:
    trials = FormulaTrials(730, 730)
    found(trials)
    assert max(trials.made.values()) <= 3, "both goals need the same trials and share them"


def test_trials_that_were_made_before_are_not_made_again() -> None:
    first = FormulaTrials(730, 910)
    found(first)
    known = [row(n, 0 if n <= 730 else 50, 1.0 if n <= 910 else 0.5) for n in first.made.elements()]
    again = FormulaTrials(730, 910)
    assert [one.calls for one in found(again, known)] == [one.calls for one in found(FormulaTrials(730, 910))]
    assert not again.made


def test_a_device_beyond_the_sender_carries_at_least_what_it_can_make() -> None:
    lossless, good = found(FormulaTrials(10**6, 10**6, sender=1500))
    for one in (lossless, good):
        assert one.at_least
        assert one.calls is not None
        assert 1450 <= one.calls <= 1515


def test_the_users_own_limit_is_kept() -> None:
    trials = FormulaTrials(10**6, 10**6)
    lossless, _ = found(trials, max_calls=700)
    assert lossless.at_least
    assert lossless.calls == 700
    assert max(trials.made) == 700


def test_a_device_that_cannot_even_carry_the_fewest_has_no_number() -> None:
    lossless, good = found(FormulaTrials(0, 0), min_calls=50)
    assert (lossless.calls, lossless.too_many) == (None, 50)
    assert good.calls is None


def test_one_bad_trial_on_the_way_up_does_not_end_the_way() -> None:
    """The first trial of 1000 calls meets a hiccup of the host; the others show that they are carried."""
    hiccup = [row(1000, 7, 0.5)]
    lossless, _ = found(FormulaTrials(1900, 1900), hiccup)
    assert lossless.calls is not None
    assert lossless.calls >= 1850


def test_a_search_that_the_host_spoils_answers_with_what_it_saw_below() -> None:
    lossless, good = found(FormulaTrials(730, 910, spoiled=500))
    for one in (lossless, good):
        assert one.calls is not None
        assert 480 <= one.calls < 500
        assert one.at_least
        assert one.problem == "stayed invalid: stolen"


def test_an_empty_search_is_refused() -> None:
    with pytest.raises(InputError, match="from 50 to 50 calls is empty"):
        Search((LOSSLESS,), max_calls=50)
