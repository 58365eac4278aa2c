"""A study's own tables: their rows come and go with the trials that they belong to."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from weirlab.base.errors import StoreError
from weirlab.records import TrialRecord
from weirlab.store import RunWriter, Store, tables
from weirlab.store.frames import completed, frame_of, rows_of, schema_of
from weirlab.testing import make_record

nan = float("nan")


@dataclass(frozen=True)
class Row:
    trial_id: str
    kind: Literal["soft", "hard"]
    count: int
    limit: int | None = None
    gap_ns: float = nan
    valid: bool = True


@dataclass(frozen=True)
class Wrong:
    inner: Row


def attempt(writer: RunWriter, index: int, *rows: Row, **more: pl.DataFrame) -> TrialRecord:
    record = make_record(run_id=writer.run_id, index=index)
    own = [replace(row, trial_id=record.trial_id) for row in rows]
    record = replace(record, tables={"switches": frame_of(Row, own), **more})
    writer.add(record)
    return record


ONE = Row("", "hard", 7, gap_ns=1.5)
TWO = Row("", "soft", 8, 9, valid=False)


def test_rows_are_read_with_their_trials_before_and_after_the_run_is_finished(store: Store) -> None:
    with store.create("failover", {}, {}) as writer:
        first = attempt(writer, 0, ONE, TWO)
        writer.add(make_record(run_id=writer.run_id, index=1))
        second = attempt(writer, 2, ONE, heard=pl.DataFrame({"trial_id": ["a"], "gap_ns": [2.0]}))
        assert len(list((writer.path / "parts").iterdir())) == 3
        before = [writer.run.table(name) for name in ("switches", "heard")]
        assert not writer.run.has_table("others")
    run = store.open("last")
    assert run.table("switches")["trial_id"].to_list() == [first.trial_id] * 2 + [second.trial_id]
    assert repr(rows_of(Row, run.table("switches"))[1]) == repr(replace(TWO, trial_id=first.trial_id))
    assert not (run.path / "parts").exists()
    for old, name in zip(before, ("switches", "heard"), strict=True):
        assert run.table(name).equals(old)


def test_a_table_of_an_earlier_version_is_completed_with_the_defaults() -> None:
    rows = [ONE, replace(ONE, trial_id="t", limit=None)]
    whole = frame_of(Row, [replace(row, gap_ns=nan) for row in rows])
    assert completed(Row, whole.drop("limit", "gap_ns", "valid")).select(whole.columns).equals(whole)
    assert completed(Row, whole.drop("kind"))["kind"].to_list() == [None, None]
    assert completed(Row, whole).equals(whole)


def test_a_disk_that_refuses_the_trial_has_no_rows_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = store.create("failover", {}, {})
    attempt(writer, 0, ONE)

    def full(path: Path, content: bytes) -> None:
        raise StoreError("no space is left")

    monkeypatch.setattr(tables, "write_bytes", full)
    with pytest.raises(StoreError, match="no space"):
        attempt(writer, 1, TWO)
    monkeypatch.undo()
    assert writer.run.trials().height == writer.run.table("switches").height == 1
    writer.finish()


@pytest.mark.parametrize("last", ["series", "switches"])
def test_compacting_that_was_killed_half_way_neither_loses_nor_doubles_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    writer = store.create("failover", {}, {})
    attempt(writer, 0, ONE)
    attempt(writer, 1, TWO)
    write_with = tables.write_with

    def die(path: Path, *rest: object, **more: object) -> None:
        write_with(path, *rest, **more)  # type: ignore[arg-type]
        if path.stem == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(tables, "write_with", die)
    with pytest.raises(KeyboardInterrupt):
        writer.finish()
    monkeypatch.undo()
    assert store.open("last").table("switches").height == 2
    again = store.resume("last")
    attempt(again, 2, ONE)
    assert again.run.table("switches")["count"].to_list() == [7, 8, 7]
    again.finish()
    assert store.open("last").table("switches")["count"].to_list() == [7, 8, 7]


def test_a_run_of_before_loses_the_rows_whose_trial_was_never_kept_when_it_is_resumed(store: Store) -> None:
    """Earlier versions wrote a table before the trial, and may have been killed in between."""
    writer = store.create("failover", {}, {})
    kept = make_record(run_id=writer.run_id)
    writer.add(kept)
    rows = [replace(ONE, trial_id=kept.trial_id), replace(TWO, trial_id="never-kept")]
    writer.put_table("switches", frame_of(Row, rows).drop("valid"))
    writer.put_table("notes", pl.DataFrame({"text": ["no trial"]}))
    writer.finish("interrupted")
    assert store.open("last").table("switches").height == 2
    again = store.resume("last")
    assert again.run.table("switches")["trial_id"].to_list() == [kept.trial_id]
    attempt(again, 1, TWO)
    again.finish()
    found = store.open("last").table("switches")
    assert found["count"].to_list() == [7, 8]
    assert [row.valid for row in rows_of(Row, found.head(1).drop("valid"))] == [True]
    assert store.open("last").table("notes").height == 1


def test_parts_of_before_have_no_rows_of_their_own(store: Store) -> None:
    writer = store.create("failover", {}, {})
    attempt(writer, 0, ONE)
    (part,) = (writer.path / "parts").iterdir()
    pl.read_parquet(part).drop("own.names", "own.rows").write_parquet(part)
    assert not writer.run.has_table("switches")
    attempt(writer, 1, TWO)
    assert writer.run.table("switches")["count"].to_list() == [8]
    writer.finish()


def test_a_damaged_part_is_named(store: Store) -> None:
    writer = store.create("failover", {}, {})
    attempt(writer, 0, ONE)
    (part,) = (writer.path / "parts").iterdir()
    part.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(StoreError, match=r"000000-001\.parquet is damaged .*; delete it"):
        writer.run.table("switches")


def test_own_tables_are_exported_while_the_run_is_being_written(store: Store, tmp_path: Path) -> None:
    writer = store.create("failover", {}, {})
    attempt(writer, 0, ONE)
    writer.run.export(tmp_path / "out")
    assert (tmp_path / "out" / "switches.csv").read_text().count("\n") == 2
    writer.finish()


def test_the_tables_of_all_runs_are_no_studys_own(store: Store) -> None:
    writer = store.create("failover", {}, {})
    with pytest.raises(ValueError, match="'calls'"):
        attempt(writer, 0, calls=pl.DataFrame())
    writer.finish()


def test_columns_are_the_fields_of_the_row() -> None:
    assert schema_of(Row) == {
        "trial_id": pl.String(),
        "kind": pl.String(),
        "count": pl.Int64(),
        "limit": pl.Int64(),
        "gap_ns": pl.Float64(),
        "valid": pl.Boolean(),
    }
    assert dict(frame_of(Row, []).schema) == schema_of(Row)
    with pytest.raises(TypeError, match="no column"):
        schema_of(Wrong)


def test_what_is_not_known_is_null_and_comes_back() -> None:
    frame = frame_of(Row, [ONE, TWO])
    assert frame["limit"].to_list() == [None, 9]
    assert frame["gap_ns"].to_list() == [1.5, None]
    assert repr(rows_of(Row, frame.with_columns(later=1))) == repr([ONE, TWO])


def test_the_columns_of_trials_are_as_ever() -> None:
    """Whoever reads the tables of runs relies on names, order and types."""
    stored = json.loads((Path(__file__).parent / "columns.json").read_text())
    written = {
        table: {name: str(kind) for name, kind in tables.table_schema(table).items()}
        for table in tables.TABLES
    }
    assert json.dumps(written) == json.dumps(stored)
