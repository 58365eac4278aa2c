from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from weirlab.base.errors import InputError, StoreError
from weirlab.jobs.profiles import profile, resume_profile, to_measure
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.measure.plan.grid import Profile as Plan
from weirlab.measure.plan.grid import quick
from weirlab.scenario import QUICK, Scenario, from_plain
from weirlab.store import Store
from weirlab.testing import FakeBed
from weirlab.traffic.load import LOAD_STRIDE
from weirlab.traffic.spec import Flows

from .conftest import Told

Scripted = Callable[..., FakeBed]


def settings(profile: object = None) -> Scenario:
    return from_plain({"name": "t", "profile": profile or {}}, "the test")


def test_the_default_plan_is_that_of_the_measurements() -> None:
    assert to_measure(settings()) == Plan(load_stride=LOAD_STRIDE)


def test_loads_of_ones_own_are_all_measured_everywhere() -> None:
    assert to_measure(settings({"load_shares": [0.2, 0.5, 1.2]})).load_stride == 1


def test_the_quick_plan_is_that_of_the_measurements() -> None:
    assert to_measure(settings(QUICK)) == quick()


def test_traffic_and_device_sections_shape_every_trial() -> None:
    scenario = from_plain(
        {
            "name": "t",
            "dut": {"stateful": True},
            "traffic": {"flows": 7, "l4": "tcp", "ip": 6, "order": "random", "arrivals": "poisson"},
            "profile": {"sizes": [128, 1518]},
        },
        "the test",
    )
    plan = to_measure(scenario)
    assert plan.flows == Flows(7, "tcp", 6, "random")
    assert (plan.stateful, plan.arrivals) == (True, "poisson")


def test_a_profile_is_measured_and_its_thresholds_found(
    store: Store, beds: list[FakeBed], scenario: Scenario, told: Told
) -> None:
    outcome = profile(store, scenario, told, command="weir profile")
    rows = outcome.rates["thresholds"]
    found = {(row["position"], row["frame_bytes"]): row["threshold_pps"] for row in rows}
    for (position, frame_bytes), threshold in found.items():
        assert threshold == pytest.approx(beds[0].device.threshold_pps(position, frame_bytes), rel=0.01)
    assert len(found) == 6
    assert outcome.outcome.invalid == ()
    assert told.advances[-1] == (outcome.outcome.trials, outcome.outcome.trials)
    assert outcome.document()["run_id"] == store.open("last").run_id


def test_the_manifest_holds_the_scenario_that_gives_the_same_plan(
    store: Store, beds: list[FakeBed], scenario: Scenario
) -> None:
    profile(store, scenario, SilentProgress())
    assert from_plain(store.open("last").manifest.scenario, "manifest") == scenario


def test_an_interrupted_profile_goes_on_where_it_stopped(
    store: Store, scripted: Scripted, scenario: Scenario
) -> None:
    scripted(*[None] * 9, KeyboardInterrupt())
    with pytest.raises(RunInterrupt) as caught:
        profile(store, scenario, SilentProgress())
    run_id = caught.value.run_id
    assert caught.value.kept == 9
    assert caught.value.resume == f"weir profile --resume {run_id}"
    bed = scripted()
    outcome = resume_profile(store, run_id, SilentProgress())
    assert len(bed.traffic_seen) == outcome.outcome.trials - 9
    trials = store.open(run_id).trials()
    assert trials["index"].to_list() == list(range(outcome.outcome.trials))
    assert store.open(run_id).manifest.status == "complete"


def test_going_on_with_another_device_is_refused(
    store: Store, scripted: Scripted, scenario: Scenario
) -> None:
    scripted(KeyboardInterrupt())
    with pytest.raises(RunInterrupt) as caught:
        profile(store, scenario, SilentProgress())
    bed = scripted(dut="another")
    with pytest.raises(InputError, match="begun with the dut 'fake', but here it would be 'another'"):
        resume_profile(store, caught.value.run_id, SilentProgress())
    assert bed.closed
    assert store.open("last").manifest.status == "interrupted"


def test_going_on_with_no_run_is_refused(store: Store, beds: list[FakeBed]) -> None:
    with pytest.raises(StoreError, match="no profile run"):
        resume_profile(store, "last", SilentProgress())
    assert beds == []


def test_what_the_profile_sends_is_what_the_scenario_says(
    store: Store, beds: list[FakeBed], scenario: Scenario
) -> None:
    profile(store, scenario, SilentProgress())
    trials = store.open("last").trials()
    assert set(trials["position"]) == {0, 100, 1000}
    assert set(trials["sizes_text"]) == {"64", "1518"}
    assert trials.filter(pl.col("label") == "scout").height == 6
