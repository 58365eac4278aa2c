"""What is damaged is named, with its file, and never hides what is whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from weirlab.base.errors import StoreError
from weirlab.cli.program.app import app
from weirlab.store import Store
from weirlab.testing import FakeClock, make_record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two whole runs of two trials each; ``bad`` is the newer one."""
    clock = FakeClock()
    store = Store(tmp_path / "store", now=clock.now)
    for _ in range(2):
        clock.advance(60)
        with store.create("profile", {"name": "rules"}, {"lab": "sim", "dut": "iptables"}) as writer:
            writer.add(make_record(run_id=writer.run_id))
            writer.add(make_record(run_id=writer.run_id, index=1))
    return store


def bad(store: Store) -> Path:
    return store.root / store.open("last").run_id


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def weir(store: Store, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--store", str(store.root), *arguments])


DAMAGE: dict[str, Any] = {
    "scenario": None,
    "created": 5,
    "facts": [],
    "kind": 5,
    "run_id": [1],
    "versions": "1.0",
    "host": {},
    "kernel": False,
    "trials": "many",
    "invalid": -1,
    "finished": 1e300,
    "calibration": [],
    "status": ["complete"],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_manifest_hides_no_other_run_and_every_command_names_it(store: Store, name: str) -> None:
    path = bad(store) / "manifest.json"
    run_id = path.parent.name
    change(path, **{name: DAMAGE[name]})
    listed = weir(store, "runs", "--json")
    assert listed.exit_code == 0
    assert [run["status"] for run in json.loads(listed.stdout)["runs"]] == ["corrupt", "complete"]
    for command in (
        ("show", run_id),
        ("report", run_id),
        ("fit", run_id),
        ("export", run_id, "--out", str(store.root / "data")),
    ):
        told = weir(store, *command)
        assert (told.exit_code, command) == (6, command)
        assert str(path) in told.stderr
        assert name in told.stderr


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, '{"trials": ' + "9" * 5000 + "}", ""])
def test_json_that_python_cannot_take_is_damage(store: Store, content: str) -> None:
    path = bad(store) / "manifest.json"
    path.write_text(content)
    listed = weir(store, "runs")
    assert listed.exit_code == 0
    assert "corrupt" in listed.stdout
    told = weir(store, "show", path.parent.name)
    assert told.exit_code == 6
    assert str(path) in told.stderr


def test_a_run_that_nobody_may_look_into_hides_no_other_and_is_not_called_empty(
    store: Store, close: Callable[[Path], None]
) -> None:
    folder = bad(store)
    (store.root / ".index.sqlite").unlink(missing_ok=True)
    close(folder)
    listed = weir(store, "runs", "--json")
    assert listed.exit_code == 0
    closed, other = json.loads(listed.stdout)["runs"]
    assert (closed["status"], other["status"]) == ("corrupt", "complete")
    assert "permission denied" in closed["problem"]
    for run in (folder.name, "last"):
        told = weir(store, "show", run)
        assert told.exit_code == 6
        assert f"{folder}/manifest.json: permission denied" in told.stderr


@pytest.mark.parametrize("content", [{}, [], {"handover_ns": "slow"}, {"handover_ns": None}, 5])
def test_a_damaged_host_state_is_named(store: Store, content: Any) -> None:
    path = bad(store) / "host.json"
    path.write_text(json.dumps(content))
    told = weir(store, "show", path.parent.name)
    assert told.exit_code == 6
    assert str(path) in told.stderr


@pytest.mark.parametrize("section", ["dut", "profile"])
@pytest.mark.parametrize("content", [[1], "iptables", 5])
def test_a_scenario_whose_sections_are_none_is_damage(store: Store, section: str, content: Any) -> None:
    path = bad(store) / "manifest.json"
    change(path, scenario={section: content})
    told = weir(store, "fit", path.parent.name)
    assert told.exit_code == 6
    assert f"scenario.{section}" in told.stderr


def test_a_table_that_was_deleted_is_told_and_never_an_empty_complete_run(store: Store) -> None:
    path = bad(store) / "trials.parquet"
    path.unlink()
    listed = store.runs()
    assert [run.status for run in listed] == ["corrupt", "complete"]
    assert "is missing, with all 2 attempts" in listed[0].problem
    for command in ("show", "report", "fit"):
        told = weir(store, command, path.parent.name)
        assert told.exit_code == 6
        assert str(path) in told.stderr
    # What was measured again would mix with what the other tables still hold.
    with pytest.raises(StoreError, match="is missing"):
        store.resume(path.parent.name)


def test_a_table_shorter_than_the_manifest_says_is_damage(store: Store) -> None:
    path = bad(store) / "trials.parquet"
    with path.open("rb") as file:
        frame = pl.read_parquet(file)
    with path.open("wb") as file:
        frame.head(1).write_parquet(file)
    assert "holds 1 of the 2 attempts" in store.runs()[0].problem
    with pytest.raises(StoreError, match="holds 1 of the 2 attempts"):
        store.open(path.parent.name).trials()


def test_a_run_whose_compaction_was_killed_is_whole(store: Store) -> None:
    writer = store.resume("last")
    writer.add(make_record(run_id=writer.run_id, index=2))
    manifest = writer.run.manifest
    writer._lock.release()
    change(writer.path / "manifest.json", **{**vars(manifest), "status": "complete", "trials": 3})
    assert [run.problem for run in store.runs()] == ["", ""]
    assert store.open("last").trials().height == 3
