"""A store may come from elsewhere: whatever lies in the place of a file, nothing hangs or fills memory."""

from __future__ import annotations

import json
import os
import shutil
import socket
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from weirlab.base.errors import StoreError
from weirlab.cli.program.app import app
from weirlab.store import Store, tables
from weirlab.testing import FakeClock, make_record


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs; the newer one has JSON and a table of its study."""
    clock = FakeClock()
    store = Store(tmp_path_factory.mktemp("whole"), now=clock.now)
    for _ in range(2):
        clock.advance(60)
        with store.create("profile", {"name": "rules"}, {"lab": "sim", "dut": "iptables"}) as writer:
            writer.add(make_record(run_id=writer.run_id))
            writer.put_json("host", {"handover_ns": 80.0})
            writer.put_table("extra", pl.DataFrame({"trial_id": ["a"], "n": [1]}))
    return store.root


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(whole, tmp_path / "store", symlinks=True))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_file(path: Path) -> None:
    other = path.parent.parent / "elsewhere"
    other.write_text("{}")
    path.symlink_to(other)


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    # A path of a socket may have 107 bytes.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def vast(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


OTHERS = [pipe, link_to_zeros, link_to_a_file, folder, listening, vast]
Put = Callable[[Path], None]


def replaced(store: Store, name: str, put: Put) -> Path:
    path = store.open("last").path / name
    path.unlink()
    put(path)
    return path


def weir(store: Store, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--store", str(store.root), *arguments])


@pytest.mark.parametrize("put", OTHERS)
def test_what_is_no_manifest_makes_its_run_corrupt_and_hides_no_other(store: Store, put: Put) -> None:
    path = replaced(store, "manifest.json", put)
    listed = json.loads(weir(store, "runs", "--json").stdout)["runs"]
    assert [run["status"] for run in listed] == ["corrupt", "complete"]
    assert str(path) in listed[0]["problem"]
    for command in (["show"], ["export", "--out", str(store.root / "out")], ["report"], ["fit"]):
        told = weir(store, command[0], path.parent.name, *command[1:])
        assert (told.exit_code, command) == (6, command)
        assert str(path) in told.stderr


@pytest.mark.parametrize("put", OTHERS)
@pytest.mark.parametrize("table", ["trials", "histograms", "extra"])
def test_what_is_no_table_is_named(store: Store, table: str, put: Put) -> None:
    path = replaced(store, f"{table}.parquet", put)
    told = weir(store, "export", path.parent.name, "--out", str(store.root / "out"))
    assert told.exit_code == 6
    assert str(path) in told.stderr
    assert store.runs()[1].status == "complete"


@pytest.mark.parametrize("put", OTHERS)
def test_what_is_no_json_is_named(store: Store, put: Put) -> None:
    path = replaced(store, "host.json", put)
    for command in (["show"], ["export", "--out", str(store.root / "out")]):
        told = weir(store, command[0], path.parent.name, *command[1:])
        assert told.exit_code == 6
        assert str(path) in told.stderr


@pytest.mark.parametrize("put", OTHERS)
def test_what_is_no_lock_is_not_held_and_cannot_be_taken(store: Store, put: Put) -> None:
    path = replaced(store, ".writer", put)
    assert store.runs()[0].status == "complete"
    if put is not vast:
        with pytest.raises(StoreError, match=r"\.writer"):
            store.resume(path.parent.name)


@pytest.mark.parametrize("put", OTHERS)
def test_what_is_no_part_is_named(store: Store, put: Put) -> None:
    parts = store.open("last").path / "parts"
    parts.mkdir()
    put(parts / "000009-001.parquet")
    with pytest.raises(StoreError, match=r"000009-001\.parquet"):
        store.open("last").trials()


def test_parts_are_neither_read_nor_written_through_a_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    parts = store.open("last").path / "parts"
    parts.symlink_to(tmp_path / "elsewhere")
    for access in (lambda: store.open("last").trials(), lambda: store.resume("last")):
        with pytest.raises(StoreError, match="symbolic link"):
            access()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_json_of_very_many_values_is_damage(store: Store) -> None:
    path = store.open("last").path / "host.json"
    path.write_text(f"[{'[],' * 9_000_000}0]")
    with pytest.raises(StoreError, match="more than 8,000,000 values"):
        store.open("last").get_json("host")


def bomb(path: Path, rows: int) -> None:
    """A small file that decodes to 16 bytes for each of ``rows``."""
    # Nulls take the same memory as empty texts, and are written in a thirtieth of the time.
    nothing = pl.Series("trial_id", [None], dtype=pl.String).new_from_index(0, rows)
    with path.open("wb") as file:
        pl.DataFrame([nothing]).write_parquet(file, statistics=False)


@pytest.fixture(scope="module")
def large_bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bomb") / "bomb.parquet"
    bomb(path, 100_000_000)
    return path


@pytest.mark.parametrize("table", ["trials", "series", "extra"])
def test_a_small_table_that_decodes_to_much_is_refused_with_the_way_out(
    store: Store, table: str, large_bomb: Path
) -> None:
    path = store.open("last").path / f"{table}.parquet"
    shutil.copy(large_bomb, path)
    assert path.stat().st_size < 2_000_000
    told = weir(store, "export", path.parent.name, "--out", str(store.root / "out"))
    assert told.exit_code == 6
    assert str(path) in told.stderr
    assert "WEIR_MAX_TABLES=" in told.stderr


def test_a_part_that_decodes_to_much_is_refused(store: Store) -> None:
    parts = store.open("last").path / "parts"
    parts.mkdir()
    bomb(parts / "000009-001.parquet", 10_000_000)
    for access in (lambda: store.open("last").trials(), lambda: store.resume("last")):
        with pytest.raises(StoreError, match="000009-001"):
            access()


def test_parts_that_together_decode_to_much_are_refused(store: Store) -> None:
    run = store.open("last")
    parts = run.path / "parts"
    parts.mkdir()
    for number in range(30):
        bomb(parts / f"{number + 9:06d}-001.parquet", 50_000)
    with pytest.raises(StoreError, match="WEIR_MAX_TABLES"):
        run.trials()


def test_an_export_has_one_table_in_memory_at_a_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.open("last")
    for number in range(5):
        run.put_table(f"own-{number}", pl.DataFrame({"a": [number]}))
    read_own, frames, most = tables.read_own, list[weakref.ref[pl.DataFrame]](), 0

    def read(run_path: Path, table: str, most_bytes: int) -> pl.DataFrame | None:
        nonlocal most
        most = max(most, sum(frame() is not None for frame in frames))
        found = read_own(run_path, table, most_bytes)
        assert found is not None
        frames.append(weakref.ref(found))
        return found

    monkeypatch.setattr(tables, "read_own", read)
    assert len([path for path in run.export(tmp_path / "out") if path.name.startswith("own-")]) == 5
    assert most <= 1


def test_a_study_s_rows_within_a_part_that_decode_to_much_are_refused(store: Store, large_bomb: Path) -> None:
    run = store.open("last")
    (run.path / "parts").mkdir()
    row = {"trial_id": ["b"], "own.names": [["gaps"]], "own.rows": [[large_bomb.read_bytes()]]}
    with (run.path / "parts" / "000009-001.parquet").open("wb") as file:
        pl.DataFrame(row).write_parquet(file)
    assert run.own_tables == ["extra", "gaps"]
    with pytest.raises(StoreError, match="WEIR_MAX_TABLES"):
        run.table("gaps")


def test_one_long_text_in_every_row_is_refused(store: Store) -> None:
    run = store.open("last")
    text = pl.Series("trial_id", ["x" * 1_000_000]).new_from_index(0, 1100)
    with (run.path / "extra.parquet").open("wb") as file:
        pl.DataFrame([text]).write_parquet(file)
    assert (run.path / "extra.parquet").stat().st_size < 100_000
    with pytest.raises(StoreError, match="1,100 MB"):
        run.table("extra")


def test_more_rows_than_any_study_writes_do_not_become_objects(store: Store) -> None:
    from weirlab.store.columns import HistogramRow

    run = store.open("last")
    with (run.path / "extra.parquet").open("wb") as file:
        pl.DataFrame({"lower_ns": pl.repeat(1, 1_000_001, eager=True)}).write_parquet(file)
    with pytest.raises(StoreError, match="1,000,001 rows"):
        run.rows(HistogramRow, "extra")


def test_a_user_who_trusts_a_run_can_allow_more_or_less(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.open("last").trials().height == 1
    monkeypatch.setenv("WEIR_MAX_TABLES", "1kB")
    with pytest.raises(StoreError, match="WEIR_MAX_TABLES"):
        store.open("last").trials()
    monkeypatch.setenv("WEIR_MAX_TABLES", "much")
    told = weir(store, "show", "last")
    assert told.exit_code == 2
    assert "WEIR_MAX_TABLES" in told.stderr
