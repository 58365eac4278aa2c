"""Trials beside the grid, and runs of versions that did not know them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from weirlab.records import RuleSetup
from weirlab.store import Run, Store
from weirlab.store.rows import rate_text
from weirlab.testing.results import make_record, make_spec
from weirlab.traffic.spec import LoadStep, Rate, Traffic

PLAIN = make_spec(position=50)
MIXED = replace(PLAIN, rules=RuleSetup.mixed(((1, 0.5), (99, 0.5))))
STATEFUL = make_spec(position=50, stateful=True)
MANAGED = replace(PLAIN, cross_traffic=True)
STEPPED = replace(MIXED, traffic=replace(PLAIN.traffic, steps=(LoadStep(0.5, None, 99),)))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    with Store(tmp_path).create("profile", {}, {}) as writer:
        for index, spec in enumerate((PLAIN, MIXED, STATEFUL, MANAGED, STEPPED)):
            writer.add(make_record(spec=spec, run_id=writer.run_id, index=index))
        return writer.run


def test_observations_are_at_the_mean_position_and_say_what_was_different(run: Run) -> None:
    seen = run.observations()
    assert [each.position for each in seen] == [50, 50, 50, 50], "a position step has no one position"
    assert [each.extra["places"] for each in seen] == ["", "1:50%,99:50%", "", ""]
    assert [each.stateful for each in seen] == [False, False, True, False]
    assert [each.cross_traffic for each in seen] == [False, False, False, True]


def test_plain_observations_leave_out_state_and_cross_traffic(run: Run) -> None:
    assert [each.extra["index"] for each in run.observations("profile", plain=True)] == [0, 1]


@pytest.mark.parametrize(
    ("scenario", "kept"),
    [({"dut": {"stateful": True}}, [2]), ({"dut": {}, "profile": {"cross_traffic": [True]}}, [3])],
)
def test_where_the_scenario_sets_the_device_up_so_throughout_that_is_plain(
    tmp_path: Path, scenario: dict[str, object], kept: list[int]
) -> None:
    with Store(tmp_path).create("profile", scenario, {}) as writer:
        for index, spec in enumerate((PLAIN, MIXED, STATEFUL, MANAGED)):
            writer.add(make_record(spec=spec, run_id=writer.run_id, index=index))
    found = writer.run.observations("profile", plain=True)
    assert [each.extra["index"] for each in found] == kept


@pytest.mark.parametrize("compacted", [True, False])
def test_runs_of_before_these_columns_are_read(tmp_path: Path, compacted: bool) -> None:
    writer = Store(tmp_path).create("profile", {}, {})
    writer.add(make_record(spec=PLAIN, run_id=writer.run_id))
    if compacted:
        writer.finish()
    files = [writer.path / "trials.parquet"] if compacted else list((writer.path / "parts").iterdir())
    for file in files:
        old = pl.read_parquet(file).drop("mean_position", "places", "cross_traffic", "management_s")
        old.write_parquet(file)
    row = writer.run.trials().row(0, named=True)
    assert (row["mean_position"], row["places"], row["cross_traffic"]) == (50.0, "", False)
    assert row["management_s"] is None
    assert len(writer.run.observations(plain=True)) == 1
    writer.finish()


def test_a_position_step_is_told_beside_the_load() -> None:
    steps = (LoadStep(0.5, Rate(2000.0)), LoadStep(1.0, None, 9), LoadStep(1.5, Rate(500.0), 1))
    told = rate_text(Traffic(Rate(1000.0), steps=steps))
    assert told == "1kpps, 2kpps from 0.5 s, position 9 from 1 s, 500pps at position 1 from 1.5 s"
