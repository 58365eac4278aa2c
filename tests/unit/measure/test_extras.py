"""What a profile measures beside its grid."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError
from weirlab.jobs.profiles import to_measure
from weirlab.measure import profile as profiles
from weirlab.measure.plan.grid import NO_EXTRAS, Extras, Profile, quick
from weirlab.measure.plan.loads import nearest, threshold_pps
from weirlab.measure.profile import ScoutPoint, ScoutResult, expected, measure, plan
from weirlab.model.effects import effects
from weirlab.records import RuleSetup, TrialSpec
from weirlab.scenario import from_plain, full
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeDevice
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant

DEVICE = FakeDevice()
SMALL = Profile(
    positions=(0, 50, 400), sizes=(Constant(64), Constant(1518)), load_shares=(0.1, 0.5, 0.9, 1.2)
)
ALL = Extras(
    stateful=True,
    cross_traffic=True,
    mixed=(((1, 0.5), (99, 0.5)), ((1, 0.5), (799, 0.5))),
    arrivals=("constant", "poisson"),
    rate_step=(0.3, 0.8),
    position_step=(1, 2000),
    load_shares=(0.5, 1.2),
)
WHOLE = replace(SMALL, extras=ALL)


def scouted(profile: Profile) -> ScoutResult:
    return ScoutResult(
        tuple(
            ScoutPoint(position, mix, DEVICE.threshold_pps(position, 64), 5e6)
            for position in profile.positions
            for mix in profile.sizes
        )
    )


def beside(profile: Profile) -> list[TrialSpec]:
    grid = set(plan(replace(profile, extras=NO_EXTRAS), scouted(profile)))
    return [spec for spec in plan(profile, scouted(profile)) if spec not in grid]


def of_kind(label: str) -> list[TrialSpec]:
    return [spec for spec in beside(WHOLE) if spec.label.endswith(label)]


def test_the_grid_stays_as_it_is_without_extras() -> None:
    whole = plan(WHOLE, scouted(WHOLE))
    grid = plan(SMALL, scouted(SMALL))
    assert Counter(whole) & Counter(grid) == Counter(grid)
    assert len(grid) == 3 * 2 * 4 * 3


def test_every_extra_is_repeated_like_the_grid() -> None:
    kinds = Counter(spec.label.split(", ")[-1] for spec in beside(WHOLE))
    assert kinds == {
        "stateful": 2 * 3,
        "cross traffic": 2 * 3,
        "mixed positions": 2 * 2 * 3,
        "poisson": 3 * 2 * 3,
        "rate step": 3,
        "position step": 3,
    }


@pytest.mark.parametrize(
    ("label", "undone"),
    [
        ("stateful", lambda spec: replace(spec, rules=replace(spec.rules, stateful=False))),
        ("cross traffic", lambda spec: replace(spec, cross_traffic=False)),
        ("poisson", lambda spec: replace(spec, traffic=replace(spec.traffic, arrivals="constant"))),
        ("mixed positions", lambda spec: replace(spec, rules=RuleSetup(int(spec.rules.mean_position)))),
    ],
)
def test_each_extra_has_a_counterpart_in_the_grid_but_for_one_thing(
    label: str, undone: Callable[[TrialSpec], TrialSpec]
) -> None:
    grid = {replace(spec, label="") for spec in plan(SMALL, scouted(SMALL))}
    for spec in of_kind(label):
        other = replace(undone(spec), label="")
        # A session asks ten times a second: such trials are longer than others.
        assert replace(other, traffic=replace(other.traffic, duration_s=SMALL.trial_s)) in grid


def test_trials_with_cross_traffic_last_several_polls() -> None:
    assert {spec.traffic.duration_s for spec in of_kind("cross traffic")} == {0.3}
    assert all(spec.cross_traffic for spec in of_kind("cross traffic"))


def test_steps_come_in_the_middle_and_can_be_sent() -> None:
    (rate,) = {spec.traffic.steps for spec in of_kind("rate step")}
    (position,) = {spec.traffic.steps for spec in of_kind("position step")}
    assert rate[0].at_s == position[0].at_s == 0.2
    assert rate[0].rate is not None
    assert rate[0].rate.value == pytest.approx(0.8 * DEVICE.threshold_pps(50, 64), rel=1e-3)
    assert (position[0].rate, position[0].position) == (None, 2000)
    for spec in beside(WHOLE):
        compile_plan(spec.traffic, spec.rules.places)


def test_a_position_step_stays_below_both_thresholds() -> None:
    (load,) = {spec.traffic.rate.value for spec in of_kind("position step")}
    assert load == pytest.approx(0.5 * DEVICE.threshold_pps(2000, 64), rel=0.01)
    assert {spec.rules.accepting for spec in of_kind("position step")} == {(1, 2000)}


def test_what_the_whole_profile_does_anyway_is_not_measured_again() -> None:
    tracked = replace(WHOLE, stateful=True, cross_traffic=True, arrivals="poisson")
    labels = {spec.label.split(", ")[-1] for spec in beside(tracked)}
    assert labels == {"mixed positions", "constant", "rate step", "position step"}
    assert all(spec.rules.stateful for spec in plan(tracked, scouted(tracked)))


def test_slow_rules_are_set_once_per_repetition_and_setup() -> None:
    slow = replace(scouted(WHOLE), set_rules_s=2.0)
    specs = plan(WHOLE, slow)
    changes = sum(a.rules != b.rules for a, b in itertools.pairwise(specs))
    assert changes <= 3 * len({spec.rules for spec in specs}) - 1
    assert Counter(specs) == Counter(plan(WHOLE, scouted(WHOLE)))


@given(st.floats(1, 4000))
def test_thresholds_between_scouted_positions_follow_the_queueing_law(position: float) -> None:
    points = [point for point in scouted(SMALL).points if point.sizes == Constant(64)]
    assert threshold_pps(points, position) == pytest.approx(DEVICE.threshold_pps(position, 64))
    assert threshold_pps(points[:1], position) == points[0].forwarding_pps


def test_the_nearest_loads_of_the_grid_are_taken() -> None:
    assert nearest((0.08, 0.44, 0.46, 2.0), (0.1, 0.45, 1.2)) == (0.1, 0.45, 1.2)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mixed": (((1, 0.5), (2, 0.1)),)}, "add up to 1"),
        ({"position_step": (5, 5)}, "two different positions"),
        ({"position_step": (0, 5)}, "from 1 up"),
        ({"rate_step": (0.0, 1.0)}, "above 0"),
        ({"load_shares": ()}, "at least one load share"),
    ],
)
def test_extras_that_make_no_sense_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Extras(**values)  # type: ignore[arg-type]


def test_a_profile_with_extras_survives_the_way_through_json() -> None:
    assert typed(Profile, json.loads(json.dumps(plain(WHOLE)))) == WHOLE
    before = plain(SMALL)
    del before["extras"], before["cross_traffic"]
    assert typed(Profile, json.loads(json.dumps(before))) == SMALL


def test_a_measured_profile_shows_what_the_extras_cost(tmp_path: Path) -> None:
    with Store(tmp_path).create("profile", {}, {}) as writer:
        outcome = measure(FakeBed(DEVICE), WHOLE, writer)
    assert outcome.invalid == ()
    assert outcome.trials == len(expected(WHOLE))
    found = effects(writer.run.observations("profile"))
    assert {each.kind for each in found} == {"connection tracking", "cross traffic", "mixed positions"}
    assert all(each.ratio == pytest.approx(1, abs=1e-3) for each in found), (
        "the device of formulas shows none"
    )


def test_an_interrupted_profile_with_extras_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stopped = FakeBed(DEVICE, [*[None] * 50, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt), store.create("profile", {}, {}) as writer:
        measure(stopped, WHOLE, writer)
    bed = FakeBed(DEVICE)
    with store.resume("last") as writer:
        assert measure(bed, None, writer).invalid == ()
    assert len(bed.traffic_seen) == len(expected(WHOLE)) - 50


# From here on: the full profile.


def full_profile(dut: str = "iptables", positions: tuple[int, ...] | None = None) -> Profile:
    chosen = {"positions": positions} if positions else {}
    settings = {**full(dut, positions), **chosen}
    return to_measure(from_plain({"name": "full", "dut": {"name": dut}, "profile": settings}, "the test"))


def test_the_full_profile_takes_less_than_a_quarter_of_an_hour() -> None:
    profile = full_profile()
    assert {0, 50, 100, 400, 1000} <= set(profile.positions)
    assert profile.repetitions == 3
    assert (min(profile.load_shares), max(profile.load_shares)) == (0.02, 1.35)
    assert sum(0.2 <= share <= 0.95 for share in profile.load_shares) >= 9
    kinds = {spec.label.split(", ")[-1] for spec in expected(profile)}
    assert kinds > {"stateful", "cross traffic", "mixed positions", "poisson", "rate step", "position step"}
    assert 8 * 60 < profiles.estimate_s(profile) < 15 * 60


def test_the_quick_profile_has_random_arrivals_beside_its_grid_and_nothing_else() -> None:
    profile = quick()
    assert not profile.extras.compared
    specs = plan(profile, scouted(profile))
    random = [spec for spec in specs if spec.traffic.arrivals == "poisson"]
    assert len(random) == len(profile.positions) * 2 * profile.repetitions
    grid = plan(replace(profile, extras=NO_EXTRAS), scouted(profile))
    assert len(specs) == len(grid) + len(random)


@pytest.mark.parametrize(
    ("dut", "lacks"),
    [
        ("nftables", set()),
        ("nftables-set", {"mixed positions", "position step"}),
        ("forward", {"mixed positions", "position step", "stateful"}),
        ("ruleset", {"mixed positions", "position step", "stateful"}),
        ("none", {"mixed positions", "position step", "stateful", "cross traffic"}),
    ],
)
def test_the_full_profile_asks_of_a_device_what_it_can_do(dut: str, lacks: set[str]) -> None:
    scenario = {"name": "full", "profile": full(dut)}
    kinds = {spec.label.split(", ")[-1] for spec in expected(to_measure(from_plain(scenario, "the test")))}
    every = {"stateful", "cross traffic", "mixed positions", "poisson", "rate step", "position step"}
    assert kinds & every == every - lacks


def test_mixed_positions_without_a_counterpart_are_left_out() -> None:
    assert full("iptables", (0, 400))["mixed"] == ("1:50,799:50",)
    assert "mixed" not in full("iptables", (0, 100))
    assert "position_step" not in full("iptables", (0,))
