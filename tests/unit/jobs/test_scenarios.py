from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from weirlab.base.errors import InputError, ModelError
from weirlab.devices.prediction.modelling import fit
from weirlab.devices.prediction.outcome import PredictionLoad, predict
from weirlab.devices.prediction.verification import verify
from weirlab.jobs import testbeds
from weirlab.jobs.inventory import show
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.scenario import Dut, Lab, Scenario
from weirlab.store import Store
from weirlab.studies.reports import report
from weirlab.studies.runner import resume_scenario, run_scenario
from weirlab.testing import FakeBed, FakeClock
from weirlab.traffic.load import parse_rate
from weirlab.traffic.sizes import Constant

from .conftest import DEVICE, Told, small_scenario

Scripted = Callable[..., FakeBed]


@pytest.fixture(scope="module")
def finished_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds a run of the whole scenario without a report and nothing else."""
    earlier = FakeClock(datetime(2026, 11, 20, tzinfo=UTC))
    store = Store(tmp_path_factory.mktemp("finished"), now=earlier.now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testbeds, "open_bed", lambda *_, **__: FakeBed(DEVICE))
        run_scenario(store, small_scenario().model_copy(update={"report": None}), SilentProgress())
    return store.root


@pytest.fixture
def finished(finished_store: Path, store: Store, beds: list[FakeBed]) -> str:
    """ID of that run, a copy to do anything with."""
    shutil.copytree(finished_store, store.root)
    (run,) = store.root.glob("*-profile-*")
    return run.name


def test_a_scenario_goes_from_trials_to_the_report(
    store: Store, beds: list[FakeBed], scenario: Scenario, told: Told, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "report.html"
    outcome = run_scenario(store, scenario, told, out=out)
    assert outcome.report is not None
    assert outcome.found.verification is not None
    assert out.stat().st_size > 10_000
    errors = {(row.model, row.quantity): row.mape_percent for row in outcome.found.verification.errors}
    assert errors["queueing", "threshold"] < 2
    run = store.open("last")
    assert run.manifest.status == "complete"
    assert run.has("model")
    assert run.has("verification")
    assert set(run.trials()["role"]) == {"profile", "verify"}
    assert [stage.split()[0] for stage in told.stages] == ["profiling", "fitting", "measuring", "writing"]
    parts = outcome.document()
    assert parts["calibration"] is None
    assert {"profile", "fit", "verification", "report"} <= parts.keys()
    assert len(beds) == 1


def test_a_scenario_without_report_and_verification_stops_after_the_fit(
    store: Store, beds: list[FakeBed], scenario: Scenario
) -> None:
    short = scenario.model_copy(update={"report": None, "verify": ()})
    outcome = run_scenario(store, short, SilentProgress())
    assert outcome.report is None
    assert outcome.found.verification is None
    assert not (outcome.found.profile.run.path / "report.html").exists()


@pytest.mark.parametrize(("trials_before", "reports"), [(3, False), (20, False), (40, True)])
def test_an_interrupted_scenario_goes_on_where_it_stopped(
    store: Store, scripted: Scripted, scenario: Scenario, trials_before: int, reports: bool
) -> None:
    if not reports:
        scenario = scenario.model_copy(update={"report": None})
    scripted(*[None] * trials_before, KeyboardInterrupt())
    with pytest.raises(RunInterrupt) as caught:
        run_scenario(store, scenario, SilentProgress())
    run_id = caught.value.run_id
    assert caught.value.resume == f"weir run --resume {run_id}"
    bed = scripted()
    outcome = resume_scenario(store, run_id, SilentProgress())
    trials = store.open(run_id).trials()
    assert trials["index"].n_unique() == trials.height == len(bed.traffic_seen) + trials_before
    assert (outcome.report is not None and outcome.report.path.exists()) == reports


def test_fitting_recovers_the_device(store: Store, finished: str) -> None:
    outcome = fit(store, finished)
    found = {parameter.name: parameter.value for parameter in outcome.document()["parameters"]}
    device = DEVICE
    assert found["service_fixed_ns"] == pytest.approx(device.service_fixed_ns, rel=0.02)
    assert found["service_per_rule_ns"] == pytest.approx(device.service_per_rule_ns, rel=0.02)


def test_a_model_file_predicts_as_its_run_does(store: Store, finished: str, tmp_path: Path) -> None:
    file = tmp_path / "firewall.model.json"
    fit(store, finished, out=file)
    setting = PredictionLoad(parse_rate("200kpps"), Constant(64)), 200
    assert predict(store, str(file), *setting) == predict(store, finished, *setting)
    assert predict(store, "last", *setting).outside == ()


def test_a_prediction_outside_the_profile_says_so(store: Store, finished: str) -> None:
    outcome = predict(store, finished, PredictionLoad(parse_rate("200kpps"), Constant(64)), 5000)
    assert any("position" in reason for reason in outcome.outside)
    assert outcome.document()["extrapolated"] is True


def test_a_prediction_for_no_particular_load_is_refused(store: Store, finished: str) -> None:
    with pytest.raises(InputError, match="needs a load in numbers"):
        predict(store, finished, PredictionLoad(parse_rate("max"), Constant(64)), 0)


def test_a_run_without_profile_cannot_be_fitted(store: Store) -> None:
    with store.create("trial", {}, {}) as writer:
        pass
    with pytest.raises(ModelError, match="no valid trial of a profile"):
        fit(store, writer.run_id)


def test_a_run_without_models_cannot_predict(store: Store) -> None:
    with store.create("profile", {}, {}) as writer:
        pass
    with pytest.raises(ModelError, match=f"weir fit {writer.run_id}"):
        predict(store, "last", PredictionLoad(parse_rate("1kpps"), Constant(64)), 0)


def test_verifying_a_verified_run_measures_nothing(
    store: Store, finished: str, beds: list[FakeBed], told: Told
) -> None:
    outcome = verify(Work(store, told), finished, held_out={}, again=False, lab=Lab(), dut=None)
    assert outcome.run.run_id == finished
    assert beds == []


def test_verifying_a_fitted_run_measures_held_out_settings_into_it(
    store: Store, beds: list[FakeBed], scenario: Scenario
) -> None:
    short = scenario.model_copy(update={"report": None, "verify": ()})
    run_id = run_scenario(store, short, SilentProgress()).found.profile.run.run_id
    outcome = verify(Work(store, SilentProgress()), run_id, held_out={}, again=False, lab=Lab(), dut=None)
    assert outcome.run.run_id == run_id
    assert set(store.open(run_id).trials()["role"]) == {"profile", "verify"}


def test_verifying_again_makes_a_run_of_its_own(store: Store, finished: str) -> None:
    wanted = {"positions": (300,), "load_shares": (0.5,), "repetitions": 1, "trial_s": 0.05}
    outcome = verify(
        Work(store, SilentProgress()), finished, held_out=wanted, again=True, lab=Lab(), dut=None
    )
    assert outcome.run.run_id != finished
    assert outcome.run.manifest.kind == "verify"
    assert set(outcome.run.trials()["position"]) == {300}
    assert outcome.run.has("model")


@pytest.mark.parametrize("kept", [True, False])
def test_verifying_again_shows_how_the_host_has_changed_since_the_profile(
    store: Store, finished: str, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    slower = replace(DEVICE, service_fixed_ns=1.1 * DEVICE.service_fixed_ns)
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: FakeBed(slower, lab="netns"))
    wanted = {"positions": (300,), "repetitions": 2, "trial_s": 0.05}
    work = Work(store, SilentProgress())
    later = verify(work, finished, held_out=wanted, again=True, lab=Lab(), dut=None)
    (threshold,) = (each for each in later.shifts if each.quantity == "threshold")
    assert threshold.places == 3
    assert -0.09 < threshold.change < -0.02
    assert threshold.without_percent["queueing"] < threshold.error_percent["queueing"]
    if not kept:
        shutil.rmtree(store.open(finished).path)
    again = verify(work, later.run.run_id, held_out={}, again=False, lab=Lab(), dut=None)
    assert again.shifts == (later.shifts if kept else ())


def test_verifying_a_model_file_needs_to_know_the_device(store: Store, finished: str, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    fit(store, finished, out=file)
    arguments = {"held_out": {}, "again": False, "lab": Lab()}
    work = Work(store, SilentProgress())
    with pytest.raises(InputError, match="give --dut"):
        verify(work, str(file), dut=None, **arguments)
    outcome = verify(work, str(file), dut=Dut(name="forward"), **arguments)
    assert outcome.run.manifest.scenario["dut"]["name"] == "forward"


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_computed(
    store: Store, finished: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for options in ({"out": tmp_path / "file" / "report.html"}, {"plots": tmp_path / "file"}):
        with pytest.raises(InputError, match="file: that is not a folder"):
            report(store, finished, **options)
    with pytest.raises(InputError, match="the name is too long"):
        report(store, finished, out=tmp_path / ("n" * 256))


def test_a_report_is_written_beside_the_run_by_default(store: Store, finished: str) -> None:
    outcome = report(store, finished)
    assert outcome.path == store.open(finished).path / "report.html"
    assert outcome.plots == ()


def test_showing_a_run_counts_its_trials_by_role(store: Store, finished: str) -> None:
    outcome = show(store, finished)
    assert set(outcome.counts) == {"profile", "verify"}
    assert all(n["valid"] == n["attempts"] for n in outcome.counts.values())
    assert outcome.reasons == {}
    assert "model.json" in outcome.document()["files"]


def test_without_root_auto_means_the_simulated_lab_and_says_so(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: "privileges: missing")
    assert testbeds.choose(Lab(), Dut(), told) == "sim"
    assert "simulating a device in place of iptables" in told.notes[0]


def test_with_root_auto_means_namespaces(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: None)
    assert testbeds.choose(Lab(), Dut(), told) == "netns"
    assert told.notes == []


def test_the_users_own_rules_are_never_simulated(
    monkeypatch: pytest.MonkeyPatch, told: Told, tmp_path: Path
) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: "privileges: missing")
    own = Dut(name="ruleset", ruleset=tmp_path / "rules")
    with pytest.raises(InputError, match="cannot replace"):
        testbeds.choose(Lab(kind="sim"), own, told)
    with pytest.raises(Exception, match="run as root"):
        testbeds.choose(Lab(), own, told)
