from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from weirlab.lab.sim import SimLab
from weirlab.measure import TrialEntry, run_trial
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import Store
from weirlab.store.codec import spec_from_json, spec_to_json
from weirlab.store.steps import StepSeries, step_series
from weirlab.traffic.spec import LoadStep, Rate, Traffic

STEADY = Traffic(Rate(2e5), warmup_s=0.01, duration_s=0.0255)
STEPPED = replace(STEADY, steps=(LoadStep(0.01, Rate(4e5)),))


def records(*traffics: Traffic) -> list[TrialRecord]:
    with SimLab() as bed:
        return [
            run_trial(bed, TrialSpec(traffic, RuleSetup(100), f"trial {i}"), TrialEntry("run", index=i))[-1]
            for i, traffic in enumerate(traffics)
        ]


def read(store: Store, found: list[TrialRecord]) -> list[StepSeries]:
    writer = store.create("trial", {}, {})
    for record in found:
        writer.add(replace(record, run_id=writer.run_id))
    writer.finish()
    return step_series(writer.run.trials(), writer.run.series())


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def test_repetitions_are_joined_packet_by_packet(store: Store) -> None:
    both = records(STEPPED, replace(STEPPED, seed=2))
    (series,) = read(store, both)
    assert series.trial_ids == tuple(record.trial_id for record in both)
    assert series.bin_ns == 1e6
    one, two = (record.result.series for record in both)
    assert series.sent == pytest.approx(one.sent.astype(float) + two.sent)
    total = one.delay_mean_ns * one.received + two.delay_mean_ns * two.received
    assert series.delay_mean_ns == pytest.approx(total / series.received)
    assert series.loss_ratio == pytest.approx(np.zeros(26))


def test_repetitions_of_a_resumed_session_are_joined(store: Store) -> None:
    whole = replace(STEPPED, rate=Rate(200_000))
    resumed = spec_from_json(json.loads(json.dumps(spec_to_json(TrialSpec(whole))))).traffic
    assert repr(resumed) != repr(whole)
    assert len(read(store, records(whole, replace(resumed, seed=2)))) == 1


def test_bins_end_where_the_trial_does(store: Store) -> None:
    (series,) = read(store, records(STEPPED))
    assert series.edges_ns[:3] == pytest.approx([0, 1e6, 2e6])
    assert series.edges_ns[-1] == pytest.approx(25.5e6)
    assert len(series.edges_ns) == len(series.start_ns) + 1


def test_different_steps_stay_apart_and_steady_trials_are_left_out(store: Store) -> None:
    other = replace(STEPPED, steps=(LoadStep(0.01, Rate(5e5)),))
    found = read(store, records(STEADY, STEPPED, other))
    assert [series.spec.traffic.steps for series in found] == [STEPPED.steps, other.steps]


def test_spoiled_trials_are_left_out(store: Store) -> None:
    spoiled = [replace(record, invalid=("steal",)) for record in records(STEPPED)]
    assert read(store, spoiled) == []


def test_a_bin_without_arrivals_has_no_delay(store: Store) -> None:
    (record,) = records(STEPPED)
    series = record.result.series
    received, mean = series.received.copy(), series.delay_mean_ns.copy()
    received[3], mean[3] = 0, np.nan
    dead = replace(record.result, series=replace(series, received=received, delay_mean_ns=mean))
    (found,) = read(store, [replace(record, result=dead)])
    assert np.flatnonzero(np.isnan(found.delay_mean_ns)).tolist() == [3]
    assert found.loss_ratio[3] == 1.0
