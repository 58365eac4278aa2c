from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.base.errors import StoreError
from weirlab.store import Run, RunWriter, Store, tables
from weirlab.testing import make_record, make_result, make_spec


@pytest.fixture
def writer(store: Store) -> RunWriter:
    return store.create("profile", {}, {})


def add(writer: RunWriter, index: int, attempt: int = 1, invalid: tuple[str, ...] = ()) -> None:
    writer.add(make_record(run_id=writer.run_id, index=index, attempt=attempt, invalid=invalid))


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir() if not entry.name.startswith(".writer")}


def test_trials_in_another_state_of_the_host_are_invalid_in_the_list_of_runs_and_in_exports_too(
    store: Store, writer: RunWriter, tmp_path: Path
) -> None:
    """One definition: the list of runs once counted only what was invalid when it was measured."""
    for index, handover_ns in enumerate((66.0, 67.0, 68.0, 245.0)):
        record = make_record(run_id=writer.run_id, index=index)
        writer.add(replace(record, host=replace(record.host, handover_ns=handover_ns)))
    add(writer, 4, invalid=("sender late",))
    writer.finish()
    (listed,) = store.runs()
    assert (listed.trials, listed.invalid) == (5, 2)
    trials = store.open(writer.run_id).trials()
    assert listed.invalid == trials.filter(~pl.col("valid")).height
    store.open(writer.run_id).export(tmp_path / "out", "parquet")
    exported = pl.read_parquet(tmp_path / "out" / "trials.parquet")
    assert exported.select("valid", "invalid").equals(trials.select("valid", "invalid"))


def test_an_attempt_is_readable_as_soon_as_it_is_added(store: Store, writer: RunWriter) -> None:
    add(writer, 0, invalid=("sender late",))
    add(writer, 0, attempt=2)
    trials = store.open(writer.run_id).trials()
    assert trials.select("index", "attempt", "valid").rows() == [(0, 1, False), (0, 2, True)]


def test_finishing_changes_the_files_and_not_what_is_read(writer: RunWriter) -> None:
    for index in (2, 0, 1):
        add(writer, index)
    before = [frame.sort(pl.all()) for frame in frames(writer.run)]
    writer.finish()
    assert names(writer.path) == {"manifest.json", *(f"{table}.parquet" for table in tables.TABLES)}
    for old, new in zip(before, frames(writer.run), strict=True):
        assert old.equals(new.sort(pl.all()))


def frames(run: Run) -> list[pl.DataFrame]:
    return [run.trials(), run.histograms(), run.series(), run.flows()]


def test_a_run_without_trials_has_empty_tables(writer: RunWriter) -> None:
    writer.finish()
    assert [frame.height for frame in frames(writer.run)] == [0, 0, 0, 0]
    assert writer.run.observations() == []


def test_done_are_the_trials_with_a_valid_attempt(writer: RunWriter) -> None:
    add(writer, 0)
    add(writer, 1, invalid=("steal",))
    add(writer, 1, attempt=2, invalid=("steal",))
    assert writer.done == {0}
    assert writer.attempts == {0: 1, 1: 2}


def test_a_search_that_prepared_a_run_is_no_finished_item_but_that_of_a_search_is(store: Store) -> None:
    for kind, finished in (("failover", 1), ("search", 2)):
        with store.create(kind, {}, {}) as writer:
            for index, role in ((0, "search"), (1, "calls")):
                writer.add(make_record(run_id=writer.run_id, index=index, role=role))
        assert writer.finished == finished
        assert store.resume(writer.run_id).finished == finished


def test_a_resumed_run_knows_what_is_done_and_goes_on(store: Store, writer: RunWriter) -> None:
    add(writer, 0)
    writer.finish("interrupted")
    again = store.resume(writer.run_id)
    assert again.run.manifest.status == "running"
    assert again.done == {0}
    add(again, 1)
    assert again.run.trials()["index"].to_list() == [0, 1]
    again.finish()
    run = store.open("last")
    assert run.trials()["index"].to_list() == [0, 1]
    assert run.histograms()["trial_id"].n_unique() == 2
    assert (run.manifest.status, run.manifest.trials) == ("complete", 2)


def test_a_run_that_is_being_written_cannot_be_resumed(store: Store, writer: RunWriter) -> None:
    with pytest.raises(StoreError, match=f"being written by process {os.getpid()}"):
        store.resume(writer.run_id)
    writer.finish("interrupted")
    store.resume(writer.run_id).finish()


WRITER_THAT_HANGS = """
import sys
from pathlib import Path
from weirlab.store import Store
from weirlab.testing import make_record

writer = Store(Path(sys.argv[1])).create("profile", {}, {})
writer.add(make_record(run_id=writer.run_id))
(writer.path / "parts" / ".000001-001.parquet.tmp").write_bytes(b"half")
print(writer.run_id, flush=True)
sys.stdin.read()
"""


def test_a_run_whose_writer_was_killed_counts_as_interrupted_and_can_be_resumed(store: Store) -> None:
    # A process of its own: Polars' threads do not survive a fork.
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER_THAT_HANGS, str(store.root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        run_id = child.stdout.readline().strip()
        assert store.open(run_id).manifest.status == "running"
        with pytest.raises(StoreError, match=f"process {child.pid}"):
            store.resume(run_id)
    finally:
        child.kill()
        child.communicate()
    assert store.open(run_id).manifest.status == "interrupted"
    writer = store.resume(run_id)
    assert writer.done == {0}
    assert names(writer.path / "parts") == {"000000-001.parquet"}


def test_compacting_that_was_killed_half_way_neither_loses_nor_doubles_rows(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(writer, 0)
    add(writer, 1)
    write_with = tables.write_with

    def die_at_series(path: Path, *rest: object, **more: object) -> None:
        if path.stem == "series":
            raise KeyboardInterrupt
        write_with(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "write_with", die_at_series)
    expected = [frame.height for frame in frames(writer.run)]
    with pytest.raises(KeyboardInterrupt):
        writer.finish()
    assert (writer.path / "trials.parquet").exists()
    assert [frame.height for frame in frames(store.open("last"))] == expected
    monkeypatch.undo()
    store.resume(writer.run_id).finish()
    assert [frame.height for frame in frames(store.open("last"))] == expected
    assert not (writer.path / "parts").exists()


def test_parts_are_merged_while_a_long_run_goes_on(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.store.writer._MOST_PARTS", 3)
    for index in range(7):
        add(writer, index)
        assert len(names(writer.path / "parts")) < 3
        seen = store.open(writer.run_id)
        assert seen.manifest.status == "running"
        assert seen.trials()["index"].to_list() == [*range(index + 1)]
        assert {frame["trial_id"].n_unique() for frame in frames(seen)} == {index + 1}
    writer.finish()
    assert store.open("last").trials()["index"].to_list() == [*range(7)]


def test_more_than_a_few_parts_are_merged_before_the_run_is_read(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.store.writer._FEW_PARTS", 2)
    for index, left in ((0, 1), (1, 2), (2, 0), (3, 1)):
        add(writer, index)
        writer.prepare_reading()
        assert len(names(writer.path / "parts")) == left
        assert store.open(writer.run_id).trials()["index"].to_list() == [*range(index + 1)]


def test_parts_that_cannot_be_merged_stay_parts(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("weirlab.store.writer._MOST_PARTS", 2)
    monkeypatch.setattr(tables, "write_with", refuse)
    for index in range(5):
        add(writer, index)
    assert len(names(writer.path / "parts")) == 5
    monkeypatch.undo()
    writer.finish()
    assert store.open("last").trials()["index"].to_list() == [*range(5)]


@pytest.mark.parametrize(
    ("error", "status"), [(None, "complete"), (KeyboardInterrupt, "interrupted"), (ValueError, "failed")]
)
def test_leaving_the_block_finishes_the_run(
    store: Store, error: type[BaseException] | None, status: str
) -> None:
    def work() -> None:
        with store.create("profile", {}, {}) as writer:
            add(writer, 0)
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(error):
            work()
    run = store.open("last")
    assert run.manifest.status == status
    assert run.trials().height == 1


def test_a_finished_run_takes_no_more_trials(writer: RunWriter) -> None:
    writer.finish()
    writer.finish("failed")
    assert writer.run.manifest.status == "complete"
    with pytest.raises(StoreError, match="resume it"):
        add(writer, 0)


def test_an_attempt_cannot_be_overwritten(writer: RunWriter) -> None:
    add(writer, 0)
    with pytest.raises(ValueError, match="in the run already"):
        add(writer, 0)
    with pytest.raises(ValueError, match="does not belong"):
        writer.add(make_record(run_id="other", index=1))


def test_json_beside_the_tables_is_kept_and_replaced(writer: RunWriter) -> None:
    assert not writer.has("plan")
    writer.put_json("plan", {"rates": np.array([1.5, np.inf]), "n": np.int64(3), "names": {"b", "a"}})
    assert writer.run.get_json("plan") == {"rates": [1.5, None], "n": 3, "names": ["a", "b"]}
    writer.put_json("plan", [1])
    writer.finish()
    assert writer.run.get_json("plan") == [1]
    with pytest.raises(StoreError, match="has no models"):
        writer.get_json("models")


@pytest.mark.parametrize("name", ["manifest", "../x", "", "A", "a.b"])
def test_json_names_cannot_leave_the_run_or_hide_its_manifest(writer: RunWriter, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        writer.put_json(name, 1)


def test_a_hundred_thousand_flows_fit_into_one_attempt(writer: RunWriter) -> None:
    spec = make_spec(1e6, flows=100_000, duration_s=0.2)
    result = make_result(1e6, flows=100_000, duration_s=0.2)
    writer.add(make_record(result, spec, run_id=writer.run_id))
    writer.finish()
    flows = writer.run.flows()
    assert flows.height == 100_000
    assert flows["sent"].sum() == 200_000
    assert flows["flow"].to_list()[-1] == 99_999
