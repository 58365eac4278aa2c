from __future__ import annotations

import pytest

from weirlab.base.errors import InputError, MissingCapability
from weirlab.jobs import machine, testbeds
from weirlab.jobs.calibrations import calibrate
from weirlab.jobs.profiles import profile
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.trials import TrialRequest, trial
from weirlab.jobs.work import Work
from weirlab.scenario import CalibrationSection, Dut, Lab, Scenario
from weirlab.store import Store
from weirlab.studies.runner import run_scenario
from weirlab.testing import FakeBed, FakeClock, FakeDevice, make_spec

PLAN = CalibrationSection(rates=("1kpps", "100kpps", "max"), repetitions=1, trial_s=0.05)
CABLE = FakeDevice(service_fixed_ns=10.0, service_per_rule_ns=0.0, base_delay_ns=700.0)


FIREWALL = FakeDevice()


def real(device: FakeDevice) -> FakeBed:
    return FakeBed(device, lab="netns", backend="xdp")


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: None)
    # How long a busy machine takes for it does not matter: no time budget is used up.
    monkeypatch.setattr(machine, "clock", FakeClock())
    monkeypatch.setattr(testbeds, "open_cable", lambda _: real(CABLE))
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: real(FIREWALL))


def test_a_calibration_reports_the_beds_own_error(store: Store) -> None:
    document = calibrate(store, Lab(), PLAN, SilentProgress()).document()
    assert document["kind"] == "calibration"
    assert document["lost"] == 0
    assert document["pacing_error_ratio"] == pytest.approx(0, abs=0.01)
    assert 0 < document["delay_p50_ns"] <= document["delay_p99_ns"]
    assert [point["rate_text"] for point in document["points"]] == ["1kpps", "100kpps", "max"]
    assert store.open("last").manifest.kind == "calibrate"


def test_results_name_the_calibration_in_force(store: Store, scenario: Scenario) -> None:
    before = trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(), attempts=1))
    assert before.calibration is None
    first = calibrate(store, Lab(), PLAN, SilentProgress()).calibration
    second = calibrate(store, Lab(), PLAN, SilentProgress()).calibration
    assert first.id != second.id
    after = trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(), attempts=1))
    assert after.document()["calibration"] == second.id
    run = profile(store, scenario, SilentProgress()).run
    assert run.manifest.calibration == second.id
    assert run.get_json("calibration")["id"] == second.id


def test_a_scenario_calibrates_first_where_it_asks_for_it(store: Store, scenario: Scenario) -> None:
    asking = scenario.model_copy(update={"calibrate": PLAN, "lab": Lab(), "report": None})
    outcome = run_scenario(store, asking, SilentProgress())
    assert outcome.found.calibration is not None
    assert outcome.found.profile.run.manifest.calibration == outcome.found.calibration.calibration.id


def test_the_simulated_lab_is_not_calibrated(store: Store, scenario: Scenario) -> None:
    with pytest.raises(InputError, match="no cable"):
        calibrate(store, Lab(kind="sim"), PLAN, SilentProgress())
    asking = scenario.model_copy(update={"calibrate": PLAN, "report": None})
    assert run_scenario(store, asking, SilentProgress()).found.calibration is None


def test_without_root_calibration_names_the_way_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: "privileges: missing")
    with pytest.raises(MissingCapability, match="run as root"):
        calibrate(store, Lab(), PLAN, SilentProgress())
    assert store.runs() == []
