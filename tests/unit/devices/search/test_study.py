from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from weirlab.base.errors import InputError, TrialError
from weirlab.devices.search.rfc2544.suite import Rfc2544Suite
from weirlab.devices.search.study import SearchPlan, rfc2544, search
from weirlab.jobs.progress import RunInterrupt
from weirlab.jobs.work import Work
from weirlab.measure.search.goal import NDR, PDR
from weirlab.measure.search.throughput import SearchShape, Setting
from weirlab.records import RuleSetup
from weirlab.scenario import Dut, Lab
from weirlab.store import Store
from weirlab.testing import FakeBed, TrialDisturbance
from weirlab.traffic.sizes import Constant

from ..conftest import DEVICE, Told

Scripted = Callable[..., FakeBed]

SETTINGS = tuple(Setting(Constant(size), RuleSetup(n)) for n in (0, 400) for size in (64, 1518))
STOLEN = TrialDisturbance(steal_s={"dut": 0.1})


def asked(settings: tuple[Setting, ...]) -> SearchPlan:
    return SearchPlan(Lab(), Dut(), settings, SearchShape())


def test_a_search_answers_every_setting_and_keeps_its_trials_and_result(
    store: Store, beds: list[FakeBed], told: Told
) -> None:
    outcome = search(Work(store, told, "weir search"), asked(SETTINGS), (NDR, PDR))
    for point in outcome.points:
        truth = DEVICE.threshold_pps(point.setting.rules.position, point.setting.sizes.frame_bytes)  # type: ignore[union-attr]
        for found in point.found:
            assert found.lower_pps == pytest.approx(truth / (1 - found.goal.loss_ratio), rel=0.01)
    run = store.open("last")
    assert (run.manifest.kind, run.manifest.status) == ("search", "complete")
    assert run.manifest.facts["command"] == "weir search"
    assert run.trials().height == outcome.trials == sum(point.trials for point in outcome.points)
    assert run.get_json("result")[0]["goals"][0]["lower_pps"] == outcome.points[0].found[0].lower_pps
    assert outcome.problem() is None
    assert told.notes == []
    assert told.advances[-1][0] == outcome.trials


def test_the_document_holds_what_scripts_need(store: Store, beds: list[FakeBed], told: Told) -> None:
    document = search(Work(store, told), asked(SETTINGS[:1]), (NDR,)).document()
    assert {"kind", "run_id", "path", "dut", "calibration", "trials", "elapsed_s", "goals"} <= document.keys()
    (point,) = document["points"]
    assert (point["position"], point["sizes_text"], point["problem"]) == (0, "64", "")
    assert {"conditional_throughput_pps", "lower_pps", "upper_pps", "at_least"} <= point["goals"][0].keys()


def test_the_tests_of_rfc_2544_are_kept_with_their_result(
    store: Store, beds: list[FakeBed], told: Told
) -> None:
    suite = Rfc2544Suite(repetitions=2)
    outcome = rfc2544(Work(store, told), asked(SETTINGS[:2]), suite)
    run = store.open("last")
    assert run.manifest.kind == "rfc2544"
    assert run.trials().height == outcome.trials
    assert [result["latency"]["repetitions"] for result in run.get_json("result")] == [2, 2]
    assert outcome.problem() is None
    assert outcome.document()["results"][1]["bursts"]["frames"] == list(outcome.results[1].bursts.frames)  # type: ignore[union-attr]


def test_a_spoiled_search_is_made_again_after_the_others(
    store: Store, scripted: Scripted, told: Told
) -> None:
    scripted(None, STOLEN, STOLEN)
    outcome = search(Work(store, told), asked(SETTINGS[:2]), (NDR,), attempts=2)
    assert [point.problem for point in outcome.points] == ["", ""]
    assert outcome.problem() is None
    assert outcome.points[0].found[0].lower_pps == pytest.approx(
        DEVICE.threshold_pps(0, 64) / (1 - NDR.loss_ratio), rel=0.01
    )
    assert told.notes == ["the host spoiled the search at position 0, 64 B: searching there again"]
    assert outcome.trials == sum(point.trials for point in outcome.points)
    assert len(outcome.run.get_json("result")) == 2


def test_a_search_spoiled_twice_is_a_problem_that_names_its_run(
    store: Store, scripted: Scripted, told: Told
) -> None:
    scripted(None, STOLEN, STOLEN, None, STOLEN, STOLEN)
    outcome = search(Work(store, told), asked(SETTINGS[:1]), (NDR,), attempts=2)
    assert [bool(point.found) for point in outcome.points] == [False]
    problem = outcome.problem()
    assert isinstance(problem, TrialError)
    assert "stolen" in str(problem)
    assert outcome.run.run_id in str(problem)


def test_ctrl_c_keeps_the_finished_trials(store: Store, scripted: Scripted, told: Told) -> None:
    bed = scripted(None, None, KeyboardInterrupt())
    with pytest.raises(RunInterrupt, match="2 valid attempts"):
        search(Work(store, told), asked(SETTINGS), (NDR,))
    run = store.open("last")
    assert run.manifest.status == "interrupted"
    assert bed.closed
    assert told.notes == []


def test_ctrl_c_says_what_was_found_so_far_and_the_command_that_shows_it(
    store: Store, scripted: Scripted, told: Told
) -> None:
    coarse = replace(NDR, relative_width=0.2)
    scripted()
    trials = search(Work(store, told), asked(SETTINGS[:1]), (coarse,)).trials
    scripted(*[None] * trials, KeyboardInterrupt())
    with pytest.raises(RunInterrupt, match=f"{trials} valid attempts"):
        search(Work(store, told), asked(SETTINGS), (coarse,))
    (note,) = told.notes
    assert note.endswith(f"weir report {store.open('last').run_id}")
    assert "64" in note
    assert "pps" in note


def test_a_device_that_forwards_nothing_fails_the_run(store: Store, scripted: Scripted, told: Told) -> None:
    scripted(*[TrialDisturbance(nothing_arrives=True)] * 3)
    with pytest.raises(TrialError, match="forwards nothing"):
        search(Work(store, told), asked(SETTINGS), (NDR,), attempts=2)
    assert store.open("last").manifest.status == "failed"


def test_impossible_traffic_is_refused_before_anything_is_built(
    store: Store, beds: list[FakeBed], told: Told
) -> None:
    with pytest.raises(InputError):
        search(Work(store, told), asked((Setting(Constant(30)),)), (NDR,))
    with pytest.raises(InputError):
        search(Work(store, told), replace(asked(SETTINGS), shape=SearchShape(min_load_pps=1.0)), (NDR,))
    assert beds == []
