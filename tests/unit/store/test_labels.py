"""Names, notes, tags and stars of runs, and runs that are removed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from weirlab.base.errors import InputError, StoreError
from weirlab.store import RunSummary, Store, catalogue
from weirlab.store.labels import FOLDER, MOST_NAME, NO_LABEL, RunLabel, label


def made(store: Store) -> str:
    with store.create("trial", {"name": "a trial"}, {}) as writer:
        return writer.run_id


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def test_a_label_is_kept_beside_the_run_and_changes_nothing_in_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run_id = made(store)
    before = digest(tmp_path / run_id)
    store.labels.put(run_id, label(name=" before \n the update ", tags=["b", "a", "b "], star=True, note="x"))
    assert digest(tmp_path / run_id) == before
    (run,) = Store(tmp_path).runs()
    assert run.label == RunLabel("before the update", True, "x", ("a", "b"))
    assert (run.title, run.name) == ("before the update", "a trial")
    # Another process has changed it.
    Store(tmp_path).labels.put(run_id, label(tags=["c"]))
    (run,) = store.runs()
    assert (run.title, run.label.tags) == ("a trial", ("c",))
    store.labels.put(run_id, NO_LABEL)
    assert [*(tmp_path / FOLDER).iterdir()] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "x" * (MOST_NAME + 1)},
        {"tags": ["two words"]},
        {"tags": ["a,b"]},
        {"tags": map(str, range(30))},
    ],
)
def test_what_is_no_label_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError):
        label(**wrong)  # type: ignore[arg-type]


def test_a_damaged_label_hides_no_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run_id = made(store)
    store.labels.put(run_id, label(star=True))
    for content in ("nonsense", '{"name": 3}', '{"tags": ["two words"]}'):
        (tmp_path / FOLDER / f"{run_id}.json").write_text(content)
        assert [run.label for run in Store(tmp_path).runs()] == [NO_LABEL]
        with pytest.raises(StoreError, match="delete"):
            store.labels.one(run_id)


def test_a_run_is_removed_with_its_label_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept, run_id = made(store), made(store)
    store.labels.put(run_id, label(star=True))
    store.remove(run_id)
    assert [run.run_id for run in store.runs()] == [kept]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == sorted([FOLDER, kept])
    assert [*(tmp_path / FOLDER).iterdir()] == []


def test_what_a_new_run_of_another_process_removes_meanwhile_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, rename = Store(tmp_path), os.rename
    run_id = made(store)
    store.labels.put(run_id, label(tags=["a"]))

    def renamed(before: Path, after: Path) -> None:
        # The new run renames its folder, too.
        monkeypatch.undo()
        rename(before, after)
        Store(tmp_path).create("trial", {}, {}).finish()

    monkeypatch.setattr(catalogue.os, "rename", renamed)
    store.remove(run_id)
    assert run_id not in [run.run_id for run in store.runs()]
    assert [*(tmp_path / FOLDER).iterdir()] == []
    assert [path.name for path in tmp_path.glob(".*.new")] == []


def test_a_run_that_is_removed_while_runs_are_listed_is_not_listed_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read = Store(tmp_path), catalogue.summary
    gone, stays = made(store), made(store)

    def late(path: Path) -> tuple[RunSummary, bool]:
        if path.name == gone:
            Store(tmp_path).remove(gone)
        return read(path)

    monkeypatch.setattr(catalogue, "summary", late)
    (tmp_path / ".index.sqlite").unlink()
    assert [run.run_id for run in Store(tmp_path).runs()] == [stays]


def test_a_run_that_is_written_or_elsewhere_is_not_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.create("trial", {}, {}) as writer, pytest.raises(StoreError, match="being written"):
        store.remove(writer.run_id)
    linked = writer.run_id[:-4] + "0000"
    (store.root / linked).symlink_to(store.root / writer.run_id)
    for wrong in (linked, "../store", "last", ""):
        with pytest.raises(StoreError, match="no run"):
            store.remove(wrong)
    assert store.open(writer.run_id).manifest.status == "complete"


def test_a_damaged_run_can_be_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run_id = made(store)
    (tmp_path / run_id / "manifest.json").write_text("nonsense")
    store.remove(run_id)
    assert store.runs() == []
