"""A run appears in one step, with its manifest, or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
from pathlib import Path

import pytest

from weirlab.base.errors import StoreError
from weirlab.store import Store, catalogue
from weirlab.store.writer import RunWriter
from weirlab.testing import FakeClock, make_record


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Store:
    return Store(tmp_path / "store", now=clock.now)


def test_an_interruption_while_a_run_is_prepared_leaves_no_folder(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck() -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(catalogue, "versions", struck)
    with pytest.raises(KeyboardInterrupt):
        store.create("trial", {}, {})
    assert store.runs() == []


def test_others_see_a_run_with_its_manifest_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    move = RunWriter.move

    def look(writer: RunWriter, path: Path) -> None:
        seen.append([run.run_id for run in store.runs()])
        move(writer, path)
        seen.append([run.status for run in store.runs()])

    monkeypatch.setattr(RunWriter, "move", look)
    store.create("trial", {}, {})
    assert seen == [[], ["running"]]


def test_what_a_killed_process_was_about_to_begin_goes_with_the_next_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(RunWriter, "move", die)
        patch.setattr(catalogue.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            store.create("trial", {}, {})
    (left,) = os.listdir(store.root)
    assert left.startswith(".")
    (store.root / ".mine.new").mkdir()
    run_id = store.create("trial", {}, {}).run_id
    assert sorted(os.listdir(store.root)) == [".mine.new", run_id]


def test_last_passes_over_the_empty_folder_that_an_earlier_version_left(
    store: Store, clock: FakeClock
) -> None:
    with store.create("trial", {}, {}) as writer:
        writer.add(make_record(run_id=writer.run_id))
    empty = store.root / "20991231-235959-trial-abcd"
    (empty / "parts").mkdir(parents=True)
    (empty / ".writer").touch()
    assert store.open("last").run_id == writer.run_id
    assert [run.status for run in store.runs()] == ["corrupt", "complete"]
    assert "nothing was written into" in store.runs()[0].problem
    with pytest.raises(StoreError, match=r"manifest\.json"):
        store.open(empty.name)


def test_a_run_whose_manifest_was_lost_is_not_passed_over(store: Store) -> None:
    with store.create("trial", {}, {}) as writer:
        writer.add(make_record(run_id=writer.run_id))
    (writer.path / "manifest.json").unlink()
    with pytest.raises(StoreError, match=r"manifest\.json"):
        store.open("last")


def test_an_id_that_is_taken_is_not_used_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["aaaa", "aaaa", "bbbb"])
    random = secrets.token_hex
    monkeypatch.setattr(secrets, "token_hex", lambda n: next(tokens) if n == 2 else random(n))
    first, second = store.create("trial", {}, {}), store.create("trial", {}, {})
    assert (first.run_id[-4:], second.run_id[-4:]) == ("aaaa", "bbbb")
    assert sorted(os.listdir(store.root)) == sorted([first.run_id, second.run_id])


@pytest.mark.usefixtures("caught_signals")
def test_waiting_for_another_process_that_begins_a_run_can_be_interrupted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(fd: int, operation: int) -> None:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it went on waiting")

    monkeypatch.setattr(fcntl, "flock", held)
    with pytest.raises(KeyboardInterrupt):
        store.create("trial", {}, {})
    assert not store.root.exists()
