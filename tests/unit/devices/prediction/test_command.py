from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.lab.sim import SimLab
from weirlab.measure import Hooks, TrialEntry, run_trial
from weirlab.records import TrialSpec
from weirlab.store import Store
from weirlab.traffic.spec import LoadStep, Rate, Traffic

from ...conftest import Weir


@pytest.fixture
def stepped(tmp_path: Path) -> str:
    """ID of a run that holds one trial with a step."""
    writer = Store(tmp_path / "store").create("trial", {}, {})
    traffic = Traffic(Rate(1e5), steps=(LoadStep(0.02, Rate(2e5)),), warmup_s=0.01, duration_s=0.05)
    with SimLab() as bed:
        run_trial(bed, TrialSpec(traffic), TrialEntry(writer.run_id), hooks=Hooks(on_record=writer.add))
    writer.finish()
    return writer.run_id


def test_predict_shows_the_course_after_a_step(weir: Weir, finished: str) -> None:
    arguments = ("predict", finished, "--rate", "200kpps", "--step", "1:400kpps")
    answer = weir(*arguments)
    assert answer.code == 0, answer.err
    assert "before 1 s" in answer.out
    assert "1 s + 10.0 µs" in answer.out
    assert "After the step from 200 kpps to 400 kpps the mean delay settles" in answer.out
    document = weir(*arguments, "--duration", "1.5", "--json").json
    assert document["kind"] == "prediction over time"
    assert [phase["duration_ns"] for phase in document["phases"]] == [1e9, 0.5e9]
    course = document["models"]["queueing"]
    assert len(course["at_ns"]) == len(course["delay_mean_ns"]) == len(course["loss_ratio"])
    assert course["at_ns"][-1] == 1.5e9


def test_predict_spreads_flows_over_several_cpus(weir: Weir, finished: str) -> None:
    common = ("predict", finished, "--rate", "400kpps", "--rules", "100", "--extrapolate")
    alone, several = (
        weir(*common, "--json").json,
        weir(*common, "--dut-cpus", "2", "--flows", "64", "--json").json,
    )
    busiest = max(several["cpu_shares"])
    assert sum(several["cpu_shares"]) == pytest.approx(1.0)
    assert several["threshold_pps"] == pytest.approx(alone["threshold_pps"] / busiest)
    assert "on 2 CPUs, the busiest of which gets 5" in weir(*common, "--dut-cpus", "2", "--flows", "64").out
    refused = weir(*common, "--dut-cpus", "2", "--step", "1:500kpps")
    assert (refused.code, "--dut-cpus does not go with --step" in refused.err) == (2, True)


def test_predict_over_time_refuses_to_extrapolate_unless_told_to(weir: Weir, finished: str) -> None:
    arguments = ("predict", finished, "--rate", "200kpps", "--step", "1:400kpps", "--rules", "5000")
    refused = weir(*arguments)
    assert refused.code == 7
    assert "would extrapolate" in refused.err
    told = weir(*arguments, "--extrapolate")
    assert told.code == 0
    assert "Extrapolated: after the step" in told.out


def test_a_duration_without_a_step_is_refused(weir: Weir, finished: str) -> None:
    answer = weir("predict", finished, "--rate", "200kpps", "--duration", "2")
    assert answer.code == 2
    assert "--duration goes with --step" in answer.err


def test_transients_compares_a_trial_with_other_models(weir: Weir, finished: str, stepped: str) -> None:
    answer = weir("transients", stepped, "--model", finished)
    assert answer.code == 0, answer.err
    assert "100kpps, 200kpps from 0.02 s" in answer.out
    assert "After 1 step, queueing is off by" in answer.out
    document = weir("transients", stepped, "--model", finished, "--json").json
    (step,) = document["steps"]
    assert len(step["errors"]["queueing"]) == 1
    assert len(step["measured"]["delay_mean_ns"]) == len(step["start_ns"]) == 50


def test_transients_without_models_says_how_to_get_some(weir: Weir, stepped: str) -> None:
    answer = weir("transients", stepped)
    assert answer.code == 7
    assert "weir fit" in answer.err
    assert "--model" in answer.err
