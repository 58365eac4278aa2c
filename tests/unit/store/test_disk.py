"""A disk that refuses: one message that names the path and the way out, and nothing half-written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pytest

from weirlab.base.errors import DiskFull, StoreError
from weirlab.store import RunWriter, Store
from weirlab.store.files import write_bytes
from weirlab.testing import make_record

REFUSALS = [
    (errno.ENOSPC, "no space is left"),
    (errno.EDQUOT, "quota"),
    (errno.EROFS, "read-only"),
    (errno.EACCES, "permission denied"),
    (errno.EIO, "input/output error"),
]


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let writing fail after the file has been made, as a full disk does."""

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, fail)


@pytest.fixture
def writer(store: Store) -> RunWriter:
    writer = store.create("profile", {}, {})
    writer.add(make_record(run_id=writer.run_id))
    return writer


@pytest.mark.parametrize(("number", "told"), REFUSALS)
def test_a_disk_that_refuses_an_attempt_is_named_and_complete_ones_stay(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    with monkeypatch.context() as patch:
        refuse(patch, number)
        with pytest.raises(StoreError, match=told) as caught:
            writer.add(make_record(run_id=writer.run_id, index=1))
    assert str(writer.path / "parts") in str(caught.value)
    assert "--store" in str(caught.value)
    assert [path.name for path in (writer.path / "parts").iterdir()] == ["000000-001.parquet"]
    assert writer.done == {0}
    assert store.open("last").trials()["index"].to_list() == [0]


def test_a_disk_that_is_full_when_finishing_leaves_all_trials_readable(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(frame: pl.LazyFrame, file: BinaryIO, **more: Any) -> None:
        file.write(b"PAR1")
        raise pl.exceptions.ComputeError("IO error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr(pl.LazyFrame, "sink_parquet", full)
        with pytest.raises(StoreError, match="no space is left on the disk; free some space"):
            writer.finish()
    assert not list(writer.path.glob("*.parquet"))
    assert not list(writer.path.glob(".*.tmp"))
    assert store.open("last").trials().height == 1
    store.resume("last").finish()
    assert (writer.path / "trials.parquet").exists()


def test_the_error_of_the_work_comes_before_that_of_the_full_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        with store.create("profile", {}, {}):
            refuse(monkeypatch, errno.ENOSPC)
            raise RuntimeError("the device caught fire")

    with pytest.raises(RuntimeError, match="caught fire") as caught:
        work()
    assert any("no space" in note for note in caught.value.__notes__)
    monkeypatch.undo()
    assert store.runs()[0].status == "interrupted"


@pytest.mark.parametrize(("number", "told"), REFUSALS)
def test_a_run_that_cannot_begin_leaves_no_folder(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    store.root.mkdir()
    with monkeypatch.context() as patch:
        refuse(patch, number)
        with pytest.raises(StoreError, match=told):
            store.create("profile", {}, {})
    assert list(store.root.iterdir()) == []


def test_a_store_that_cannot_be_made_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        with pytest.raises(StoreError, match="permission denied") as caught:
            store.create("profile", {}, {})
    assert str(store.root) in str(caught.value)


def test_a_store_in_a_folder_that_nobody_may_look_into_is_named(
    tmp_path: Path, close: Callable[[Path], None]
) -> None:
    store = Store(tmp_path / "private" / "store")
    close(tmp_path / "private")
    for use in (lambda: store.create("profile", {}, {}), store.runs, lambda: store.open("last")):
        with pytest.raises(StoreError, match="permission denied") as caught:
            use()
        assert str(store.root) in str(caught.value)


@pytest.mark.parametrize("below", [False, True])
def test_a_file_where_the_store_should_be_is_named(tmp_path: Path, below: bool) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    store = Store(file / "store" if below else file)
    with pytest.raises(StoreError, match="--store DIR") as caught:
        store.create("profile", {}, {})
    assert str(file) in str(caught.value)
    assert file.read_text() == "x"


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_part_is_named_and_the_rest_readable_once_it_is_gone(
    store: Store, writer: RunWriter, content: bytes
) -> None:
    writer.add(make_record(run_id=writer.run_id, index=1))
    writer.finish("interrupted")
    writer = store.resume("last")
    writer.add(make_record(run_id=writer.run_id, index=2))
    bad = writer.path / "parts" / "000002-001.parquet"
    bad.write_bytes(content)
    for read in (writer.run.trials, writer.run.histograms, writer.finish, lambda: store.resume("last")):
        with pytest.raises(StoreError, match="delete it") as caught:
            read()
        assert str(bad) in str(caught.value)
    bad.unlink()
    assert store.resume("last").done == {0, 1}


def test_a_damaged_table_is_named(store: Store, writer: RunWriter) -> None:
    writer.finish()
    bad = writer.path / "trials.parquet"
    bad.write_bytes(bad.read_bytes()[:-20])
    with pytest.raises(StoreError, match="restore it from a copy") as caught:
        store.open("last").trials()
    assert str(bad) in str(caught.value)


def test_a_table_of_something_else_is_damage(store: Store, writer: RunWriter) -> None:
    writer.finish()
    pl.DataFrame({"a": [1]}).write_parquet(writer.path / "flows.parquet")
    with pytest.raises(StoreError, match=r"flows\.parquet is damaged"):
        store.open("last").flows()


def test_damaged_json_is_named(writer: RunWriter) -> None:
    (writer.path / "plan.json").write_text("{")
    with pytest.raises(StoreError, match=r"plan\.json is damaged"):
        writer.get_json("plan")


def test_writing_in_place_of_an_old_file_keeps_the_old_one_until_the_new_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_bytes(path, b"old")
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC)
        with pytest.raises(StoreError):
            write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_store_that_cannot_hold_its_first_run_is_not_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC)
        with pytest.raises(DiskFull, match="no space"):
            store.create("profile", {}, {})
    assert not store.root.exists()
    store.root.mkdir()
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC)
        with pytest.raises(DiskFull):
            store.create("profile", {}, {})
    assert list(store.root.iterdir()) == []


def test_an_export_that_fills_the_disk_leaves_no_new_folder(
    store: Store, writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.finish()
    (tmp_path / "there").mkdir()
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC)
        for name in ("new", "there"):
            with pytest.raises(StoreError, match="no space"):
                store.open("last").export(tmp_path / name)
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "there").iterdir()) == []


def test_a_run_that_cannot_be_resumed_on_a_full_disk_is_as_before(
    store: Store, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.finish()
    before = sorted(path.name for path in writer.path.iterdir())
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC)
        with pytest.raises(StoreError, match="no space"):
            store.resume("last")
    assert sorted(path.name for path in writer.path.iterdir()) == before
    assert store.runs()[0].status == "complete"
