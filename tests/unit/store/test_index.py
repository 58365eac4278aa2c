"""The index of a store: lists are the same with it and without it, whatever happened to runs and index."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weirlab.base.errors import StoreError
from weirlab.store import RunSummary, Store
from weirlab.store import catalogue as catalogues
from weirlab.store.index import FILE
from weirlab.testing import FakeClock, make_record


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Store:
    return Store(tmp_path / "weir", now=clock.now)


def make_run(store: Store, clock: FakeClock, kind: str = "profile", **scenario: object) -> Path:
    clock.advance(60)
    with store.create(kind, scenario, {"lab": "sim"}) as writer:
        writer.add(make_record(run_id=writer.run_id))
    return writer.path


def listed(root: Path) -> list[RunSummary]:
    """What another process would list."""
    return Store(root).runs()


def unindexed(root: Path) -> list[RunSummary]:
    """The same without an index."""
    (root / FILE).unlink(missing_ok=True)
    return listed(root)


class Reading:
    """Counts the runs whose files are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        whole = catalogues.summary

        def counted(path: Path) -> tuple[RunSummary, bool]:
            self.read.append(path.name)
            return whole(path)

        monkeypatch.setattr(catalogues, "summary", counted)


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_finished_run_is_not_read_to_list_it(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [make_run(store, clock, name=name) for name in ("first", "second")]
    reading = Reading(monkeypatch)
    assert [(run.name, run.trials, run.simulated) for run in listed(store.root)] == [
        ("second", 1, True),
        ("first", 1, True),
    ]
    assert reading.read == []
    (store.root / FILE).unlink()
    listed(store.root)
    assert sorted(reading.read) == sorted(path.name for path in paths)
    listed(store.root)
    assert len(reading.read) == 2


def test_a_list_in_no_time_has_the_newest_runs_and_later_ones_have_all(
    store: Store, clock: FakeClock
) -> None:
    names = [make_run(store, clock).name for _ in range(3)]
    (store.root / FILE).unlink()
    again = Store(store.root)
    for known in (1, 2, 3):
        runs, left = again.known_runs(0.0)
        assert [run.run_id for run in runs] == names[::-1][:known]
        assert left == len(names) - known
    # What was read is kept: a new process need not read it.
    assert len(Store(store.root).known_runs(0.0)[0]) == len(names)
    change(store.root / names[0] / "manifest.json", host="another")
    change(store.root / names[1] / "manifest.json", host="another")
    runs, left = again.known_runs(0.0)
    assert [(run.run_id, run.host) for run in runs][1:] == [(names[1], "another")]
    assert left == 1


def test_runs_that_are_copied_renamed_and_removed_by_hand_are_noticed(store: Store, clock: FakeClock) -> None:
    first, second = make_run(store, clock), make_run(store, clock)
    copied = first.with_name(f"20270101-000000-{first.name[16:]}")
    shutil.copytree(first, copied)
    assert [run.run_id for run in store.runs()] == [copied.name, second.name, first.name]
    shutil.rmtree(second)
    renamed = first.rename(first.with_name(f"20280101-000000-{first.name[16:]}"))
    expected = [renamed.name, copied.name]
    assert [run.run_id for run in store.runs()] == expected
    assert [run.run_id for run in listed(store.root)] == expected
    assert store.runs() == unindexed(store.root)


def edit_manifest(path: Path) -> None:
    change(path / "manifest.json", scenario={"name": "edited"})


def damage_manifest(path: Path) -> None:
    with (path / "manifest.json").open("r+b") as file:
        file.write(b"[")


def drop_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def cut_trials(path: Path) -> None:
    os.truncate(path / "trials.parquet", 100)


def drop_trials(path: Path) -> None:
    (path / "trials.parquet").unlink()


def empty(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def draw_report(path: Path) -> None:
    (path / "report.html").write_text('<h1 id="answer-title">Carries  3 Mpps</h1>')


CHANGES = [edit_manifest, damage_manifest, drop_manifest, cut_trials, drop_trials, empty, draw_report]


@pytest.mark.parametrize("edit", CHANGES)
def test_a_run_that_is_changed_by_hand_is_listed_as_it_is(
    store: Store, clock: FakeClock, edit: Callable[[Path], None]
) -> None:
    path = make_run(store, clock, name="rules")
    before = store.runs()
    edit(path)
    after = store.runs()
    assert after != before
    assert after == listed(store.root) == unindexed(store.root)


def test_a_run_that_is_written_is_running_until_its_writer_is_gone(store: Store) -> None:
    writer = store.create("profile", {}, {})
    for _ in range(2):
        assert [run.status for run in (*store.runs(), *listed(store.root))] == ["running"] * 2
    writer._lock.release()
    for _ in range(2):
        assert [run.status for run in (*store.runs(), *listed(store.root))] == ["interrupted"] * 2
    resumed = store.resume("last")
    assert store.runs()[0].status == "running"
    resumed.finish()
    assert store.runs()[0].status == listed(store.root)[0].status == "complete"


def no_database(path: Path) -> None:
    path.write_bytes(b"nonsense" * 1000)


def cut_short(path: Path) -> None:
    os.truncate(path, 5000)


def nothing(path: Path) -> None:
    os.truncate(path, 0)


def damaged(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


def other_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


def other_table(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (run_id TEXT)")
        connection.execute("PRAGMA user_version = 1")


def endless_view(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        connection.execute(f"CREATE VIEW runs AS {numbers}")
        connection.execute("PRAGMA user_version = 1")


def wrong_types(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET trials = 'many', name = x'ff'")


def long_text(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET name = hex(zeroblob(10000000))")


def write_ahead(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def journal(path: Path) -> None:
    path.with_name(f"{path.name}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    other = path.parent.parent / "other.sqlite"
    path.rename(other)
    path.symlink_to(other)


DAMAGE = [
    no_database, cut_short, nothing, damaged, other_version, other_table, endless_view, wrong_types,
    long_text, write_ahead, journal, pipe, link,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_index_that_cannot_be_used_is_made_again(
    store: Store, clock: FakeClock, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Enough for several pages.
    for number in range(8):
        make_run(store, clock, name=f"run {number} {'x' * 900}")
    expected = store.runs()
    damage(store.root / FILE)
    assert listed(store.root) == expected
    reading = Reading(monkeypatch)
    assert listed(store.root) == expected
    assert reading.read == []
    assert (store.root / FILE).is_file()
    assert not (store.root / FILE).is_symlink()


def test_an_index_that_lies_about_files_counts_only_for_their_stamp(store: Store, clock: FakeClock) -> None:
    path = make_run(store, clock, name="true")
    with sqlite3.connect(store.root / FILE) as connection:
        connection.execute("UPDATE runs SET name = 'false', stamp = 'of other files'")
    assert [run.name for run in listed(store.root)] == ["true"]
    assert path.name == listed(store.root)[0].run_id


def test_a_store_that_may_not_be_written_is_listed_with_its_index_and_without(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(store, clock)
    expected = store.runs()
    connect = sqlite3.connect

    def read_only(address: str, **more: Any) -> sqlite3.Connection:
        if not (store.root / FILE).exists():
            raise sqlite3.OperationalError("unable to open database file")
        return connect(address.replace("mode=rwc", "mode=ro").replace("mode=rw", "mode=ro"), **more)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    reading = Reading(monkeypatch)
    assert listed(store.root) == expected
    assert reading.read == []
    change(store.root / expected[0].run_id / "manifest.json", scenario={"name": "new"})
    for _ in range(2):
        assert listed(store.root)[0].name == "new"
    (store.root / FILE).unlink()
    assert listed(store.root)[0].name == "new"
    assert not (store.root / FILE).exists()


def test_an_error_of_the_disk_is_not_kept(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run(store, clock)
    (store.root / FILE).unlink()
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> None:
            raise PermissionError(13, "Permission denied")

        patch.setattr("weirlab.base.files.stored.open_regular", fail)
        assert listed(store.root)[0].status == "corrupt"
    assert listed(store.root)[0].status == "complete"
    assert path.name == listed(store.root)[0].run_id


def test_a_damaged_run_is_told_with_its_path_after_the_store_was_moved(
    store: Store, clock: FakeClock, tmp_path: Path
) -> None:
    path = make_run(store, clock)
    damage_manifest(path)
    assert str(store.root) in store.runs()[0].problem
    moved = store.root.rename(tmp_path / "moved")
    assert str(moved) in listed(moved)[0].problem
    assert str(store.root) not in listed(moved)[0].problem
    assert listed(moved)[0].path == moved / path.name


@pytest.mark.parametrize("name", ["\ud800", "a\x00b", "x" * 1_000_000, "'; DROP TABLE runs; --", 5, [1]])
def test_any_name_is_kept(store: Store, clock: FakeClock, name: object) -> None:
    path = make_run(store, clock)
    change(path / "manifest.json", scenario={"name": name})
    first = store.runs()
    assert len(first) == 1
    assert listed(store.root) == first == unindexed(store.root)


def test_last_and_beginnings_of_ids_need_no_other_run(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [make_run(store, clock) for _ in range(5)]
    reading = Reading(monkeypatch)
    assert store.open("last").path == paths[4]
    assert store.open("last~3", kind="profile").path == paths[1]
    assert store.open(paths[2].name[:15]).path == paths[2]
    with pytest.raises(StoreError, match="matches 5 runs"):
        store.open("2026")
    assert reading.read == []


def test_lists_made_while_others_write_have_every_run(store: Store, clock: FakeClock) -> None:
    made = {make_run(store, clock).name for _ in range(3)}
    (store.root / FILE).unlink()

    def lists() -> list[set[str]]:
        return [{run.run_id for run in listed(store.root)} for _ in range(20)]

    with ThreadPoolExecutor(3) as pool:
        listing = [pool.submit(lists) for _ in range(3)]
        for _ in range(5):
            make_run(store, clock)
        assert all(found >= made for each in listing for found in each.result())
    assert listed(store.root) == unindexed(store.root)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.sampled_from(["make", "copy", "remove", "list", "forget", *CHANGES, *DAMAGE]), max_size=12
    )
)
def test_whatever_happens_the_list_is_that_without_an_index(tmp_path: Path, steps: list[Any]) -> None:
    clock = FakeClock()
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    store = Store(root, now=clock.now)
    make_run(store, clock)
    for number, step in enumerate(steps):
        runs = sorted(path for path in root.iterdir() if path.is_dir())
        match step:
            case "make":
                make_run(store, clock, name=f"run {number}")
            case "copy" if runs:
                shutil.copytree(
                    runs[-1], runs[-1].with_name(f"2027010{number % 10}-0000{number:02d}-copy-0000")
                )
            case "remove" if runs:
                shutil.rmtree(runs[0])
            case "list":
                store.runs()
            case "forget":
                (root / FILE).unlink(missing_ok=True)
            case _ if step in CHANGES and runs:
                if (runs[-1] / "manifest.json").exists() and (runs[-1] / "trials.parquet").exists():
                    step(runs[-1]) if step is not edit_manifest or _is_json(runs[-1]) else None
            case _ if step in DAMAGE and (root / FILE).is_file() and not (root / FILE).is_symlink():
                store.runs()
                step(root / FILE)
        assert store.runs() == listed(root)
    assert listed(root) == unindexed(root)


def _is_json(path: Path) -> bool:
    try:
        return isinstance(json.loads((path / "manifest.json").read_text()), dict)
    except ValueError:
        return False
