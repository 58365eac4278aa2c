"""What a run keeps beside its trials, when it cannot be used or cannot be written."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from weirlab.base.errors import StoreError
from weirlab.calls.capacity import study as capacity
from weirlab.devices.prediction import modelling, verification
from weirlab.devices.search import stored
from weirlab.devices.search.study import RESULT
from weirlab.jobs import profiles
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.profiles import profile
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.scenario import Scenario
from weirlab.scenario.model import ReportSection
from weirlab.store import Run, RunWriter, Store
from weirlab.studies import reports
from weirlab.testing import FakeBed


@pytest.fixture
def writer(store: Store) -> RunWriter:
    return store.create("profile", {}, {})


@pytest.mark.parametrize("content", [5, [1], {"here": [300]}, {"0": 300}, {"0": ["many"]}])
def test_damaged_numbers_of_calls_to_sweep_are_named(writer: RunWriter, content: Any) -> None:
    path = writer.path / f"{capacity.AROUND}.json"
    path.write_text(json.dumps(content))
    scenario: Any = None
    with pytest.raises(StoreError, match=rf"{path} is damaged"):
        capacity._around(scenario, (), writer)


@pytest.mark.parametrize("content", [5, [1], {"position": 0}, ["goals"]])
def test_a_damaged_result_of_a_search_is_named(writer: RunWriter, content: Any) -> None:
    path = writer.path / f"{RESULT}.json"
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match=rf"{path} is damaged"):
        stored.points(writer.run)


def test_a_scenario_that_cannot_be_used_is_told_so_to_readers_too(store: Store) -> None:
    run = store.create("profile", {"name": "old", "profile": {}, "magic": 1}, {}).run
    with pytest.raises(StoreError, match=rf"the scenario of run {run.run_id} cannot be used: .*magic"):
        scenario_of(run, Scenario)


def no_space(*_: object) -> None:
    raise StoreError("no space is left on the disk")


def failed_and_free(store: Store) -> bool:
    """Whether the newest run has failed, and can be gone on with."""
    status = store.open("last").manifest.status
    store.resume("last").finish()
    return status == "failed"


@pytest.mark.usefixtures("beds")
def test_a_run_that_cannot_keep_its_calibration_has_failed(
    store: Store, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration = SimpleNamespace(id="20260101-000000-calibrate-0000", to_json=dict)
    monkeypatch.setattr(profiles, "in_force", lambda *_: calibration)
    monkeypatch.setattr(Run, "put_json", no_space)
    with pytest.raises(StoreError, match="no space"):
        profile(store, scenario, SilentProgress())
    assert failed_and_free(store)


def test_a_verification_that_cannot_keep_its_models_has_failed(
    store: Store, beds: list[FakeBed], scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modelling, "keep", no_space)
    with pytest.raises(StoreError, match="no space"):
        verification._measure_anew(Work(store, SilentProgress()), {}, scenario)
    assert store.open("last").manifest.kind == "verify"
    assert failed_and_free(store)


@pytest.mark.usefixtures("caught_signals")
def test_what_native_code_makes_of_a_signal_while_the_report_is_written_is_an_interruption(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("the chart could not be drawn") from None

    monkeypatch.setattr(reports, "write", struck)
    told = f"run {writer.run_id} is complete and kept; go on with: weir report {writer.run_id}"
    with pytest.raises(RunInterrupt, match=told):
        reports.at_the_end(writer.run, ReportSection(), SilentProgress(), None, None)


def test_an_error_while_the_report_is_written_stays_one(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "write", lambda *_, **__: no_space())
    with pytest.raises(StoreError, match="no space"):
        reports.at_the_end(writer.run, ReportSection(), SilentProgress(), None, None)
