from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError, TrialError
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure.progress import TrialProgress
from weirlab.measure.search import mlr
from weirlab.measure.search.goal import NDR, PDR, SearchGoal
from weirlab.measure.search.throughput import SearchShape, Setting, expected_s, search_setting
from weirlab.measure.search.trials import TERMS, SearchTrialRunner
from weirlab.measure.terms import TrialClocks, TrialTerms
from weirlab.measure.trial import FailedTrial
from weirlab.records import EngineResult, RuleSetup
from weirlab.store import RunWriter, Store
from weirlab.testing import FakeBed, FakeClock, FakeDevice, TrialDisturbance
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

SHORT = Setting(Constant(64))
SHAPE = SearchShape()
QUEUE = 256

Begin = Callable[..., SearchTrialRunner]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    with Store(tmp_path / "store").create("search", {"name": "test"}, {}) as writer:
        yield writer


def loss_above(threshold_pps: float, asked: list[float] | None = None) -> mlr.Measure:
    """A device without a queue."""

    def measure(duration_s: float, load_pps: float) -> mlr.TrialCounts:
        if asked is not None:
            asked.append(load_pps)
        sent = round(duration_s * load_pps)
        return mlr.TrialCounts(sent, round(sent * max(0.0, 1 - threshold_pps / load_pps)))

    return measure


def search(measure: mlr.Measure, goals: Iterable[SearchGoal] = (NDR, PDR)) -> tuple[mlr.GoalResult, ...]:
    return mlr.search(measure, tuple(goals), min_load=1000, max_load=1.8e6)


@given(threshold_pps=st.floats(5e3, 1.7e6), width=st.sampled_from((0.005, 0.02, 0.1)))
def test_the_bounds_of_every_goal_enclose_its_threshold_and_are_as_close_as_the_goal_says(
    threshold_pps: float, width: float
) -> None:
    goals = [replace(goal, relative_width=width) for goal in (NDR, PDR, SearchGoal("2 %", 0.02))]
    for found in search(loss_above(threshold_pps), goals):
        assert found.lower_pps is not None
        assert found.upper_pps is not None
        # At most the goal's loss: threshold >= (1 - loss) * load. Half a frame of a trial is no loss.
        carried = threshold_pps / (1 - found.goal.loss_ratio)
        frames = found.lower_pps * found.goal.trial_s
        assert found.lower_pps <= carried * (1 + 1 / frames)
        assert found.upper_pps >= carried * (1 - 1e-9)
        assert found.upper_pps - found.lower_pps <= width * found.upper_pps
        assert found.loss_ratio is not None
        assert found.loss_ratio <= found.goal.loss_ratio
        assert found.conditional_throughput_pps == pytest.approx(found.lower_pps * (1 - found.loss_ratio))
        assert not found.at_least


def test_a_device_faster_than_the_sender_is_told_as_at_least() -> None:
    for found in search(loss_above(1e9)):
        assert (found.lower_pps, found.upper_pps, found.at_least) == (1.8e6, None, True)
        assert found.conditional_throughput_pps == 1.8e6


def test_a_device_that_always_loses_has_an_upper_bound_only() -> None:
    asked: list[float] = []

    def a_tenth_is_lost(duration_s: float, load_pps: float) -> mlr.TrialCounts:
        asked.append(load_pps)
        return mlr.TrialCounts(sent := round(duration_s * load_pps), sent // 10)

    for found in search(a_tenth_is_lost):
        assert found.lower_pps is None
        assert found.conditional_throughput_pps is None
        assert found.upper_pps == min(asked) == 1000
        assert not found.at_least


def test_a_device_that_lets_nothing_through_has_no_throughput() -> None:
    (found,) = search(lambda duration_s, load_pps: mlr.TrialCounts(100, 100), [NDR])
    assert found.lower_pps is None


def test_what_the_sender_cannot_send_bounds_the_search_but_not_the_device() -> None:
    def sender_of_a_million(duration_s: float, load_pps: float) -> mlr.TrialCounts:
        asked = round(duration_s * load_pps)
        sent = min(asked, round(duration_s * 1e6))
        return mlr.TrialCounts(sent, 0, asked - sent)

    for found in search(sender_of_a_million):
        assert found.at_least
        assert found.lower_pps == pytest.approx(1e6, rel=2 * found.goal.relative_width)


def test_a_sender_that_keeps_up_with_no_load_is_no_answer_about_the_device() -> None:
    with pytest.raises(TrialError, match="did not keep up"):
        search(lambda duration_s, load_pps: mlr.TrialCounts(10, 0, 90))


def test_goals_that_share_a_loss_ratio_all_get_an_answer() -> None:
    first, second = search(loss_above(5e5), [NDR, replace(NDR, name="again")])
    assert replace(second, goal=first.goal) == first


def test_the_rfc_2544_goal_settles_a_load_with_one_trial() -> None:
    asked: list[float] = []
    strict = SearchGoal("throughput", trial_s=60, duration_sum_s=60, exceed_ratio=0)
    (found,) = search(loss_above(5e5, asked), [strict])
    assert found.lower_pps == pytest.approx(5e5, rel=strict.relative_width)
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize(("bad_of_three", "carried"), [(1, True), (2, False)])
def test_up_to_half_of_a_loads_trials_may_be_bad(bad_of_three: int, carried: bool) -> None:
    trials = Counter[float]()

    def measure(duration_s: float, load_pps: float) -> mlr.TrialCounts:
        trials[load_pps] += 1
        return mlr.TrialCounts(1000, int(trials[load_pps] % 3 < bad_of_three))

    (found,) = search(measure, [NDR])
    assert found.lower_pps == (1.8e6 if carried else None)


def test_a_search_that_takes_too_long_says_so() -> None:
    with pytest.raises(TrialError, match="did not end within"):
        mlr.search(loss_above(5e5), [NDR], min_load=1e3, max_load=1e6, longest_s=1e-9)


def test_an_error_of_the_trial_passes_through_the_search() -> None:
    def broken(duration_s: float, load_pps: float) -> mlr.TrialCounts:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(broken)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss_ratio": 1.0}, {"loss_ratio": -0.1}, {"exceed_ratio": 1.0}, {"relative_width": 0.0},
        {"trial_s": 0.0}, {"duration_sum_s": 0.1}, {"trial_s": float("nan")},
    ],
)  # fmt: skip
def test_an_impossible_goal_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(InputError, match="goal NDR"):
        replace(NDR, **changes)


def test_an_empty_range_of_loads_or_no_goal_is_refused() -> None:
    with pytest.raises(InputError, match="is empty"):
        mlr.search(loss_above(1e5), [NDR], min_load=1e6, max_load=1e6)
    with pytest.raises(InputError, match="goal"):
        search(loss_above(1e5), [])


def truth_pps(device: SimDevice, position: int, frame_bytes: int = 64) -> float:
    service = device.service_fixed_ns + position * device.service_per_rule_ns
    return 1e9 / (service + frame_bytes * device.service_per_byte_ns)


@pytest.mark.parametrize("noise", ["none", "gamma"])
@pytest.mark.parametrize("position", [0, 400])
def test_the_throughput_of_a_known_device_is_found_within_the_width(
    begin: Begin, noise: str, position: int
) -> None:
    pytest.importorskip("weirlab._engine", reason="the engine is not built")
    device = SimDevice(noise=noise, queue_packets=QUEUE)  # type: ignore[arg-type]
    setting = Setting(Constant(64), RuleSetup(position))
    point = search_setting(begin(SimLab(device)), setting, SHAPE, (NDR, PDR))
    assert point.problem == ""
    for found in point.found:
        assert found.lower_pps is not None
        assert found.upper_pps is not None
        truth = truth_pps(device, position) / (1 - found.goal.loss_ratio)
        # An overload that does not fill the queue before the trial is over loses nothing.
        hidden_pps = QUEUE / found.goal.trial_s if found.goal.loss_ratio else 0
        hidden_pps += QUEUE / (SHAPE.warmup_s + found.goal.trial_s)
        # With noise the queue is full now and then a little below the threshold already.
        early_pps = 0.0 if noise == "none" else 0.003 * truth
        assert found.lower_pps <= truth + hidden_pps
        assert found.upper_pps >= truth - early_pps
        assert found.upper_pps - found.lower_pps <= found.goal.relative_width * found.upper_pps


def test_every_trial_of_a_search_is_kept_and_progress_ends_where_it_should(writer: RunWriter) -> None:
    told: list[TrialProgress] = []
    clock = FakeClock()
    trials = SearchTrialRunner(
        FakeBed(clock=clock), writer, told.append, terms=TrialTerms(clocks=TrialClocks(clock, now=clock.now))
    )
    trials.expect(expected_s(SHAPE, (NDR, PDR)))
    point = search_setting(trials, SHORT, SHAPE, (NDR, PDR))
    rows = writer.run.trials()
    assert rows.height == point.trials == trials.done
    assert rows["role"].unique().to_list() == ["search"]
    assert rows["label"].to_list()[0] == "sender"
    assert [progress.done for progress in told if progress.last is not None] == list(
        range(1, trials.done + 1)
    )
    assert all(progress.done <= progress.total for progress in told)
    assert all(progress.left_s >= 0 for progress in told)
    assert point.elapsed_s == pytest.approx(clock.elapsed_s)


def test_no_load_is_beyond_what_the_sender_can_pace_or_the_user_allows(begin: Begin) -> None:
    slow = FakeBed(FakeDevice(service_fixed_ns=500, sender_max_pps=1e6))
    point = search_setting(begin(slow), SHORT, SHAPE, (NDR,))
    assert point.max_load_pps == 950_000
    assert point.found[0].at_least
    offered = [traffic.rate for traffic in slow.traffic_seen]
    assert offered[0].unit == "max"
    assert max(rate.value for rate in offered[1:]) == 950_000


def test_the_users_highest_rate_limits_the_search(begin: Begin) -> None:
    shape = replace(SHAPE, max_rate=Rate(200e6, "bps"))
    point = search_setting(begin(FakeBed()), SHORT, shape, (NDR,))
    assert point.max_load_pps == 200e6 // (84 * 8)
    assert point.found[0].at_least
    assert point.found[0].lower_pps == point.max_load_pps


def test_with_a_limit_of_the_users_no_load_exceeds_it_and_the_first_ones_double(begin: Begin) -> None:
    bed = FakeBed()
    search_setting(begin(bed), SHORT, replace(SHAPE, max_rate=Rate(64e3)), (NDR,))
    offered = [traffic.rate for traffic in bed.traffic_seen]
    assert [rate.value for rate in offered[:6]] == [2e3, 4e3, 8e3, 16e3, 32e3, 64e3]
    assert all(rate.unit == "pps" and rate.value <= 64e3 for rate in offered)


def test_the_search_ends_below_a_load_at_which_nothing_is_forwarded_any_more(begin: Begin) -> None:
    bed = FakeBed(FakeDevice(service_fixed_ns=1e5, livelock_pps=15e3))
    point = search_setting(begin(bed), SHORT, replace(SHAPE, max_rate=Rate(64e3)), (NDR,))
    assert point.max_load_pps == 16e3
    assert point.found[0].lower_pps == pytest.approx(1e4, rel=0.02)


def test_a_fast_sender_is_held_to_the_rate_that_it_paces_well(begin: Begin) -> None:
    point = search_setting(begin(FakeBed(FakeDevice(service_fixed_ns=1))), SHORT, SHAPE, (NDR,))
    assert point.max_load_pps == 1.8e6


class Weak(FakeBed):
    """A sender that paces a million packets/s at most, although it sends more when unpaced."""

    def run(self, traffic: Traffic) -> EngineResult:
        self._script = iter(
            [TrialDisturbance(achieved_share=min(1.0, 1e6 / traffic.rate.value))]
            if traffic.rate.unit == "pps"
            else []
        )
        return super().run(traffic)


def test_a_load_that_the_sender_cannot_pace_after_all_counts_as_too_much(begin: Begin) -> None:
    bed = Weak(FakeDevice(service_fixed_ns=100))
    point = search_setting(begin(bed, max_attempts=2), SHORT, SHAPE, (NDR,))
    (found,) = point.found
    assert found.at_least
    assert found.lower_pps == pytest.approx(1e6, rel=0.02)


def test_a_sender_that_the_host_keeps_from_running_does_not_pass_for_a_slow_one(begin: Begin) -> None:
    held_up = [TrialDisturbance(achieved_share=share) for share in (0.1, 0.4, 0.2)]
    point = search_setting(begin(FakeBed(script=[None, *held_up]), max_attempts=3), SHORT, SHAPE, (NDR,))
    assert point.found == ()
    assert "load off nominal" in point.problem


def test_a_spoiled_trial_is_repeated_and_the_search_does_not_see_it(begin: Begin, writer: RunWriter) -> None:
    stolen = TrialDisturbance(steal_s={"dut": 0.1}, dead_bins=5)
    plain = search_setting(begin(FakeBed()), SHORT, SHAPE, (NDR,)).found
    with Store(writer.path.parent).create("search", {}, {}) as second:
        terms = replace(TERMS, clocks=TrialClocks(FakeClock(), float))
        trials = SearchTrialRunner(FakeBed(script=[None, stolen, None, stolen, stolen]), second, terms=terms)
        assert search_setting(trials, SHORT, SHAPE, (NDR,)).found == plain
        assert second.run.trials()["valid"].not_().sum() == 3


def test_the_host_gets_more_time_from_one_spoiled_attempt_to_the_next(writer: RunWriter) -> None:
    waited: list[float] = []
    stolen = TrialDisturbance(steal_s={"dut": 0.1})
    trials = SearchTrialRunner(
        FakeBed(script=[stolen] * 9), writer, terms=replace(TERMS, clocks=TrialClocks(sleep=waited.append))
    )
    trials.run(SHAPE.spec(SHORT, Rate(1e5), 0.2, "search"))
    assert waited == [0.25, 0.5, 1, 2, 4, 4, 4]


def test_nobody_waits_for_a_host_that_is_not_in_the_way(writer: RunWriter) -> None:
    waited: list[float] = []
    short = TrialDisturbance(achieved_share=0.5)
    trials = SearchTrialRunner(
        FakeBed(script=[short] * 10), writer, terms=replace(TERMS, clocks=TrialClocks(sleep=waited.append))
    )
    with pytest.raises(FailedTrial):
        trials.run(SHAPE.spec(SHORT, Rate(1e5), 0.2, "search"))
    assert waited == []


def test_a_trial_that_stays_spoiled_ends_the_search_with_the_reason(begin: Begin) -> None:
    stolen = TrialDisturbance(steal_s={"dut": 0.1})
    trials = begin(FakeBed(script=[None, None, stolen, stolen]), max_attempts=2)
    point = search_setting(trials, SHORT, SHAPE, (NDR,))
    assert point.found == ()
    assert "stolen" in point.problem
    assert point.problem.endswith("until then 1,800,000 pps did not, in single trials")
    # The next setting is searched all the same.
    assert search_setting(trials, Setting(Constant(512)), SHAPE, (NDR,)).found


def test_a_device_that_forwards_nothing_at_all_is_an_error(begin: Begin) -> None:
    bed = FakeBed(script=[TrialDisturbance(nothing_arrives=True)] * 4)
    with pytest.raises(FailedTrial, match="forwards nothing"):
        search_setting(begin(bed, max_attempts=3), SHORT, SHAPE, (NDR,))


def test_rules_are_set_once_per_setting(begin: Begin) -> None:
    bed = FakeBed()
    trials = begin(bed)
    for position in (0, 400):
        for size in (64, 512):
            search_setting(trials, Setting(Constant(size), RuleSetup(position)), SHAPE, (NDR,))
    assert bed.rules_seen == [RuleSetup(0), RuleSetup(400)]
