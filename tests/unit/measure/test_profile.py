from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError, StoreError
from weirlab.measure import profile as profiles
from weirlab.measure.plan.grid import Profile, quick
from weirlab.measure.profile import ScoutPoint, ScoutResult, loads_at, measure, plan, scout
from weirlab.measure.progress import TrialProgress, estimate_s
from weirlab.measure.scouting import SCOUTING
from weirlab.measure.terms import TrialClocks, TrialTerms
from weirlab.measure.trial import FailedTrial
from weirlab.records import RuleSetup
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeClock, FakeDevice, TrialDisturbance
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant
from weirlab.traffic.spec import Flows

SMALL = Profile(positions=(0, 400), sizes=(Constant(64), Constant(1518)), load_shares=(0.1, 0.9, 1.2))
STOLEN = TrialDisturbance(steal_s={"dut": 0.2})
DEVICE = FakeDevice()


def scouted(profile: Profile, sender_pps: float = 5e6, set_rules_s: float = 0.0) -> ScoutResult:
    return ScoutResult(
        tuple(
            ScoutPoint(position, mix, DEVICE.threshold_pps(position, 64), sender_pps)
            for position in profile.positions
            for mix in profile.sizes
        ),
        set_rules_s=set_rules_s,
    )


def test_scouting_finds_the_forwarding_rate_in_overload() -> None:
    found = scout(FakeBed(DEVICE), SMALL)
    assert [(point.position, point.sizes) for point in found.points] == [
        (0, Constant(64)), (0, Constant(1518)), (400, Constant(64)), (400, Constant(1518)),
    ]  # fmt: skip
    for point in found.points:
        assert point.forwarding_pps == pytest.approx(DEVICE.threshold_pps(point.position, 64), rel=1e-3)
        assert point.sender_pps == pytest.approx(5e6)
        assert point.overloaded
    assert found.forwarding_pps(400, 64) == found.points[2].forwarding_pps


def test_scouting_sets_rules_once_per_position_and_takes_the_time() -> None:
    clock = FakeClock()
    bed = FakeBed(clock=clock, set_rules_s=0.3)
    assert scout(bed, SMALL, terms=TrialTerms(clocks=TrialClocks(clock))).set_rules_s == pytest.approx(0.3)
    assert bed.rules_seen == [RuleSetup(0), RuleSetup(400)]


def test_scouting_believes_the_best_attempt_when_all_were_disturbed() -> None:
    worse = replace(STOLEN, dead_bins=5)
    found = scout(
        FakeBed(script=[worse, STOLEN, worse]), replace(SMALL, positions=(0,), sizes=(Constant(64),))
    )
    assert found.points[0].forwarding_pps == pytest.approx(DEVICE.threshold_pps(0, 64), rel=1e-3)


def test_a_sender_that_cannot_overload_the_device_is_noticed() -> None:
    found = scout(FakeBed(FakeDevice(sender_max_pps=300_000)), SMALL)
    assert not found.points[0].overloaded
    assert found.points[0].forwarding_pps == pytest.approx(300_000)


def test_a_device_that_forwards_nothing_stops_the_scouting() -> None:
    with pytest.raises(FailedTrial, match="forwards nothing"):
        scout(FakeBed(script=[TrialDisturbance(nothing_arrives=True)] * 4), SMALL)


def test_a_device_that_forwards_nothing_in_overload_is_scouted_with_rising_loads() -> None:
    device = replace(DEVICE, livelock_pps=1.3 * DEVICE.threshold_pps(0, 64))
    one = replace(SMALL, positions=(0,), sizes=(Constant(64),))
    (point,) = scout(FakeBed(device), one).points
    assert point.sender_pps == device.sender_max_pps
    assert point.forwarding_pps == pytest.approx(device.threshold_pps(0, 64), rel=0.15)


def test_a_profile_of_such_a_device_has_trials_in_which_all_is_lost(store: Store) -> None:
    device = replace(DEVICE, livelock_pps=1.1 * DEVICE.threshold_pps(0, 64))
    one = replace(SMALL, positions=(0,), sizes=(Constant(64),), load_shares=(0.5, 1.4))
    with store.create("profile", {}, {}) as writer:
        outcome = measure(FakeBed(device), one, writer)
    assert outcome.invalid == ()
    rows = store.open("last").trials().filter(label="load 1.4")
    assert rows["loss_ratio"].to_list() == [1.0] * rows.height
    assert rows["delay_p50_ns"].null_count() == rows.height


def test_a_point_that_was_not_scouted_has_no_forwarding_rate() -> None:
    with pytest.raises(InputError, match="position 200"):
        scouted(SMALL).forwarding_pps(200, 64)


def test_a_plan_holds_every_point_load_and_repetition() -> None:
    specs = plan(SMALL, scouted(SMALL))
    assert len(specs) == 2 * 2 * 3 * 3
    counted = Counter((spec.rules.position, spec.traffic.sizes, spec.label) for spec in specs)
    assert set(counted.values()) == {3}
    (spec,) = {s.traffic.rate.value for s in specs if s.rules.position == 400 and s.label == "load 0.9"}
    assert spec == pytest.approx(0.9 * DEVICE.threshold_pps(400, 64), rel=1e-3)
    assert all(s.traffic.duration_s == SMALL.trial_s and s.traffic.warmup_s == SMALL.warmup_s for s in specs)


def test_a_plan_depends_on_its_arguments_alone() -> None:
    assert plan(SMALL, scouted(SMALL)) == plan(SMALL, scouted(SMALL))
    assert plan(SMALL, scouted(SMALL)) != plan(replace(SMALL, seed=2), scouted(SMALL))
    assert plan(SMALL, scouted(SMALL).points) == plan(SMALL, scouted(SMALL))


def changes_of_position(profile: Profile, scouting: ScoutResult) -> int:
    positions = [spec.rules.position for spec in plan(profile, scouting)]
    return sum(a != b for a, b in itertools.pairwise(positions))


def test_where_rules_are_set_fast_everything_is_shuffled() -> None:
    profile = Profile()
    assert changes_of_position(profile, scouted(profile)) > 300


def test_where_rules_are_set_slowly_each_repetition_visits_a_position_once() -> None:
    profile = Profile()
    slow = scouted(profile, set_rules_s=2.0)
    assert changes_of_position(profile, slow) <= len(profile.positions) * profile.repetitions - 1
    assert Counter(plan(profile, slow)) == Counter(plan(profile, scouted(profile)))
    loads = [spec.traffic.rate.value for spec in plan(profile, slow)]
    assert loads != sorted(loads)


def test_loads_that_the_sender_cannot_pace_become_one_trial_at_full_speed() -> None:
    profile = replace(SMALL, positions=(0,), sizes=(Constant(64),), load_shares=(0.5, 1.1, 1.2, 2.0))
    specs = plan(profile, scouted(profile, sender_pps=900_000))
    labels = Counter(spec.label for spec in specs)
    assert labels == {"load 0.5": 3, "load max": 3}
    assert {spec.traffic.rate.unit for spec in specs if spec.label == "load max"} == {"max"}


@given(
    st.sets(st.integers(0, 5000), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(0, 99),
    st.booleans(),
)
def test_both_orders_hold_the_same_trials(
    positions: set[int], repetitions: int, seed: int, slow: bool
) -> None:
    profile = replace(SMALL, positions=tuple(positions), repetitions=repetitions, seed=seed)
    specs = plan(profile, scouted(profile, set_rules_s=1.0 if slow else 0.0))
    assert len(specs) == len(positions) * 2 * 3 * repetitions


def test_the_quick_profile_takes_less_than_four_minutes() -> None:
    profile = quick()
    assert profile.positions == (0, 50, 100, 400, 1000)
    assert profile.repetitions == 3
    scouts = profiles.scout_specs(profile)
    assert estimate_s([*scouts, *plan(profile, scouted(profile))]) < 200
    assert quick(positions=(7,)).positions == (7,)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"positions": ()}, "positions"),
        ({"positions": (-1,)}, "position -1"),
        ({"sizes": ()}, "sizes"),
        ({"sizes": (Constant(20),)}, "20 B"),
        ({"load_shares": (0.5, -1)}, "load share -1"),
        ({"repetitions": 0}, "repetitions"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused(change: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_profile_and_scouting_survive_the_way_through_json() -> None:
    profile = replace(SMALL, sizes=(SIMPLE_IMIX, Constant(64)), flows=Flows(5, ip=6), arrivals="poisson")
    assert typed(Profile, json.loads(json.dumps(plain(profile)))) == profile
    scouting = scouted(profile, set_rules_s=0.25)
    assert typed(ScoutResult, json.loads(json.dumps(plain(scouting)))) == scouting
    for kind in (Profile, ScoutResult):
        with pytest.raises(ValueError, match=r"(positions|points): "):
            typed(kind, {"positions": 3})


# From here on: whole profiles, on formulas instead of a network.


def test_measuring_scouts_plans_and_keeps_everything(store: Store) -> None:
    with store.create("profile", {}, {}) as writer:
        outcome = measure(FakeBed(DEVICE), SMALL, writer)
    assert (outcome.trials, outcome.attempts, outcome.invalid) == (4 + 36, 40, ())
    run = store.open("last")
    trials = run.trials()
    assert trials["index"].to_list() == list(range(40))
    assert trials.filter(label="scout").height == 4
    assert set(trials["role"]) == {"profile"}
    assert run.has("plan")
    assert run.has("scouting")
    assert len(run.observations("profile")) == 40
    overloaded = trials.filter(trials["loss_ratio"] > 0.05)
    assert set(overloaded["position"]) == {0, 400}


def test_a_trial_that_stays_invalid_does_not_stop_the_profile(store: Store) -> None:
    bed = FakeBed(DEVICE, [None] * 4 + [STOLEN] * 2 + [None] * 11 + [STOLEN])
    with store.create("profile", {}, {}) as writer:
        outcome = measure(bed, SMALL, writer)
    assert outcome.invalid == (4,)
    assert outcome.attempts == 42
    assert store.open("last").trials().filter(index=4)["attempt"].to_list() == [1, 2, 3]


@pytest.mark.parametrize("trials_before", [0, 3, 4, 20])
def test_an_interrupted_profile_goes_on_where_it_stopped(store: Store, trials_before: int) -> None:
    stopped = FakeBed(DEVICE, [*[None] * trials_before, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt), store.create("profile", {}, {}) as writer:
        measure(stopped, SMALL, writer)
    assert store.runs()[0].status == "interrupted"

    bed = FakeBed(DEVICE)
    with store.resume("last") as writer:
        outcome = measure(bed, None, writer)
    assert len(bed.traffic_seen) == 40 - trials_before
    assert (outcome.trials, outcome.attempts, outcome.invalid) == (40, 40 - trials_before, ())
    with store.create("profile", {}, {}) as writer:
        measure(FakeBed(DEVICE), SMALL, writer)
    resumed, whole = (store.open(run.run_id).trials() for run in store.runs())
    columns = ["index", "position", "sizes_text", "rate_text", "forwarding_pps"]
    assert resumed.select(columns).equals(whole.select(columns))


def test_a_scout_that_was_kept_before_its_point_is_not_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(name: str, value: object) -> None:
        if name == SCOUTING:
            raise KeyboardInterrupt

    def begin() -> None:
        with store.create("profile", {}, {}) as writer:
            monkeypatch.setattr(writer, "put_json", stop)
            measure(FakeBed(DEVICE), SMALL, writer)

    with pytest.raises(KeyboardInterrupt):
        begin()
    with store.resume("last") as writer:
        assert writer.done == {0}
        measure(FakeBed(DEVICE), SMALL, writer)
    trials = store.open("last").trials()
    assert not trials["index"].is_duplicated().any()
    kept = store.open("last").get_json(SCOUTING, ScoutResult)
    assert kept.points == scout(FakeBed(DEVICE), SMALL).points


def test_resuming_gives_invalid_trials_another_chance(store: Store) -> None:
    with store.create("profile", {}, {}) as writer:
        measure(FakeBed(DEVICE, [None] * 6 + [STOLEN] * 2 + [None] * 10 + [STOLEN]), SMALL, writer)
    bed = FakeBed(DEVICE)
    with store.resume("last") as writer:
        outcome = measure(bed, SMALL, writer)
    assert outcome.invalid == ()
    assert len(bed.traffic_seen) == 1
    assert store.open("last").trials().filter(index=6)["attempt"].to_list() == [1, 2, 3, 4]


def test_resuming_with_other_settings_is_refused_with_their_names(store: Store) -> None:
    with store.create("profile", {}, {}) as writer:
        measure(FakeBed(DEVICE), SMALL, writer)
    with store.resume("last") as writer, pytest.raises(InputError, match=r"repetitions, seed"):
        measure(FakeBed(DEVICE), replace(SMALL, seed=9, repetitions=1), writer)


def test_a_run_without_a_profile_cannot_be_gone_on_with(store: Store) -> None:
    with store.create("profile", {}, {}) as writer, pytest.raises(InputError, match="no profile"):
        measure(FakeBed(DEVICE), None, writer)


def test_a_damaged_plan_is_named(store: Store) -> None:
    with store.create("profile", {}, {}) as writer:
        measure(FakeBed(DEVICE), SMALL, writer)
        writer.put_json("plan", {"specs": [{}], "first_index": 4})
    with store.resume("last") as writer, pytest.raises(StoreError, match=r"plan\.json is damaged"):
        measure(FakeBed(DEVICE), SMALL, writer)


def test_rules_are_set_only_when_they_change(store: Store) -> None:
    bed = FakeBed(DEVICE)
    with store.create("profile", {}, {}) as writer:
        measure(bed, replace(SMALL, positions=(50,)), writer)
    assert len(bed.rules_seen) <= 2


def test_progress_counts_up_and_time_left_goes_down_to_zero(store: Store) -> None:
    clock = FakeClock()
    told: list[TrialProgress] = []
    with store.create("profile", {}, {}) as writer:
        measure(
            FakeBed(DEVICE, clock=clock),
            SMALL,
            writer,
            told.append,
            terms=TrialTerms(clocks=TrialClocks(clock)),
        )
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert {progress.total for progress in told} == {40}
    assert told[-1].done == 40
    assert told[-1].left_s == 0
    assert told[-1].last is not None
    assert told[-1].elapsed_s == pytest.approx(40 * (0.03 + 0.1))
    assert told[0].left_s == pytest.approx(40 * (0.03 + 0.1 + 0.2))
    halfway = next(progress for progress in told if progress.done == 20)
    assert halfway.left_s == pytest.approx(20 * 0.13, rel=0.1)
    assert any("position 400, 1518 B, max" in progress.text for progress in told)
    assert any("forwarding rates found" in progress.text for progress in told)


def test_a_resumed_profile_counts_what_was_done_before(store: Store) -> None:
    stopped = FakeBed(DEVICE, [*[None] * 10, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt), store.create("profile", {}, {}) as writer:
        measure(stopped, SMALL, writer)
    told: list[TrialProgress] = []
    with store.resume("last") as writer:
        measure(FakeBed(DEVICE), None, writer, told.append)
    assert told[-1].done == told[-1].total == 40
    assert min(progress.done for progress in told if progress.last is not None) == 11


def test_specs_of_ones_own_can_be_run_and_resumed(store: Store) -> None:
    specs = plan(SMALL, scouted(SMALL))
    with store.create("profile", {}, {}) as writer:
        assert profiles.run(FakeBed(DEVICE), specs, writer).attempts == 36
    with store.resume("last") as writer:
        assert profiles.run(FakeBed(DEVICE), specs, writer).attempts == 0
        assert profiles.run(FakeBed(DEVICE), None, writer).trials == 36
        with pytest.raises(InputError, match="other trials"):
            profiles.run(FakeBed(DEVICE), specs[1:], writer)


def test_a_device_that_dies_half_way_stops_the_profile_and_keeps_what_was_measured(store: Store) -> None:
    dead = TrialDisturbance(nothing_arrives=True)
    with pytest.raises(FailedTrial, match="forwards nothing"), store.create("profile", {}, {}) as writer:
        measure(FakeBed(DEVICE, [None] * 10 + [dead] * 3), SMALL, writer)
    run = store.open("last")
    assert run.manifest.status == "failed"
    assert run.trials().height == 12


def test_with_a_stride_neighbours_share_the_loads_and_all_are_measured() -> None:
    profile = replace(SMALL, load_shares=(0.1, 0.3, 0.5, 0.7, 1.2), load_stride=2)
    taken = [loads_at(profile, n, mix) for n in profile.positions for mix in profile.sizes]
    assert {share for loads in taken for share in loads} == set(profile.load_shares)
    assert all(1.2 in loads and len(loads) == 3 for loads in taken)


def test_a_single_place_has_every_load_whatever_the_stride() -> None:
    one = replace(SMALL, positions=(0,), sizes=(Constant(64),))
    profile = replace(one, load_shares=(0.1, 0.5, 1.2), load_stride=2)
    assert loads_at(profile, 0, Constant(64)) == (0.1, 0.5, 1.2)


def test_a_stride_that_would_leave_no_load_is_refused() -> None:
    with pytest.raises(InputError, match="lower load_stride"):
        replace(SMALL, load_shares=(0.1, 0.5, 1.2), load_stride=3)
