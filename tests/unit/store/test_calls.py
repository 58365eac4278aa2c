"""Calls in a run: what was heard, who called, and tables of a measurement's own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from weirlab.base.errors import StoreError
from weirlab.records import TrialRecord
from weirlab.store import Run, Store
from weirlab.store.codec import spec_from_json, spec_to_json
from weirlab.testing import make_call_table, make_record, make_spec
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

CALLS = Calls(
    (
        CallClass(parse_codec("g711"), share=0.75),
        CallClass(parse_codec("opus@24kbit/s:60ms", ip=6), "iax2", share=0.25),
    ),
    count=12,
    directions="back",
    arrivals="poisson",
    spurts=True,
    seed=9,
)


def spec_with_calls():  # type: ignore[no-untyped-def]
    spec = make_spec(600.0)
    return replace(
        spec,
        traffic=replace(spec.traffic, calls=CALLS),
        rules=replace(spec.rules, position=4, both_ways=True),
    )


def run_of(tmp_path: Path, *records: TrialRecord) -> Run:
    store = Store(tmp_path / "store", now=lambda: datetime(2026, 11, 21, 12, tzinfo=UTC))
    writer = store.create("calls", {}, {})
    with writer:
        for i, record in enumerate(records):
            name = f"{writer.run_id}-{i:04d}-1"
            writer.add(replace(record, run_id=writer.run_id, index=i, trial_id=name))
    return writer.run


def test_calls_survive_the_way_to_disk_and_back() -> None:
    spec = spec_with_calls()
    assert spec_from_json(spec_to_json(spec)) == spec


def test_each_call_and_direction_is_a_row_of_its_trial(tmp_path: Path) -> None:
    record = replace(make_record(spec=spec_with_calls(), role="calls"), calls=make_call_table(3, lost=4))
    run = run_of(tmp_path, record, make_record())
    calls = run.calls()
    assert calls.select("trial_id", "call", "back", "lost").rows() == [
        (f"{run.run_id}-0000-1", call, back, 4) for call in range(3) for back in (False, True)
    ]
    assert calls["burst_ratio"].to_list() == pytest.approx([3.84] * 6)


def test_what_was_not_measured_of_a_call_is_null(tmp_path: Path) -> None:
    record = replace(make_record(spec=spec_with_calls(), role="calls"), calls=make_call_table(1, lost=0))
    assert run_of(tmp_path, record).calls()["burst_ratio"].to_list() == [None, None]


def test_models_do_not_learn_from_calls(tmp_path: Path) -> None:
    run = run_of(tmp_path, make_record(), make_record(spec=spec_with_calls(), role="calls"))
    assert [seen.extra["index"] for seen in run.observations()] == [0]


def test_a_table_of_its_own_is_kept_and_exported(tmp_path: Path) -> None:
    run = run_of(tmp_path, make_record())
    run.put_table("switches", pl.DataFrame({"gap_ms": [1.0]}))
    run.put_table("switches", pl.DataFrame({"gap_ms": [1.0, 2.0]}))
    assert run.has_table("switches")
    assert not run.has_table("others")
    assert run.table("switches")["gap_ms"].to_list() == [1.0, 2.0]
    run.export(tmp_path / "out")
    assert pl.read_csv(tmp_path / "out" / "switches.csv").height == 2


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    run = run_of(tmp_path, make_record())
    (run.path / "switches.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match=r"switches\.parquet is damaged"):
        run.table("switches")
    with pytest.raises(StoreError, match="no table others"):
        run.table("others")


def test_a_table_cannot_take_the_place_of_the_trials(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trials"):
        run_of(tmp_path, make_record()).put_table("trials", pl.DataFrame())
