"""Whatever stands in a file of a stored run: it is told, no internal error."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weirlab.base.errors import WeirError
from weirlab.jobs.inventory import show
from weirlab.store import Store
from weirlab.store.manifest import MANIFEST_FILE
from weirlab.studies.commands import tables
from weirlab.studies.registry import study_of

from .answers import ADDED_RUNS, PARALLEL, RUNS, TCP, TCP_EARLIER, unpacked

TEXTS = (
    "[]",
    "5",
    "{}",
    '{"summary": [], "settings": [[]], "specs": [5], "a": []}',
    '"text"',
    "[[null]]",
    "nul",
)
FRAMES = (pl.DataFrame({"a": [1]}), pl.DataFrame({"trial_id": [5]}))

KINDS = [*RUNS, *ADDED_RUNS, TCP, TCP_EARLIER]

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(unpacked(tmp_path_factory.mktemp("inputs")) / "store")


def damages(folder: Path) -> Iterator[tuple[Path, Damage]]:
    """Every file of a run but its manifest, and what may happen to it."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".json" and path.name != MANIFEST_FILE:
            yield from ((path, lambda path, text=text: path.write_text(text)) for text in TEXTS)
        if path.suffix == ".parquet":
            yield path, Path.unlink
            yield path, lambda path: path.write_bytes(path.read_bytes()[:-20])
            yield from ((path, partial(put, frame)) for frame in FRAMES)


def put(frame: pl.DataFrame, path: Path) -> None:
    with path.open("wb") as file:
        frame.write_parquet(file)


def looked_at(store: Store, run_id: str) -> None:
    """What ``weir show`` and the page of a run in the browser need."""
    opened = store.open(run_id)
    tables.run(show(store, run_id))
    study_of(opened).headlines(opened)


@pytest.mark.parametrize("run_id", KINDS)
def test_a_damaged_file_is_told(run_id: str, store: Store, tmp_path: Path) -> None:
    folder, whole = store.root / run_id, tmp_path / "whole"
    shutil.copytree(folder, whole)
    failures: list[Any] = []
    for path, damage in damages(folder):
        damage(path)
        try:
            looked_at(store, run_id)
        except WeirError:
            pass
        except Exception as error:
            failures.append((path.name, path.read_bytes()[:60] if path.exists() else None, repr(error)))
        shutil.copy2(whole / path.name, path)
    assert failures == []


@pytest.mark.parametrize(
    ("run_id", "table"),
    [(TCP, "transfers"), (TCP, "samples"), (TCP_EARLIER, "axis"), (PARALLEL, "parallel")],
)
def test_a_table_with_other_columns_is_named_with_run_and_column(
    run_id: str, table: str, store: Store, tmp_path: Path
) -> None:
    """Reported: the message was an internal error about a column."""
    path = store.root / run_id / f"{table}.parquet"
    shutil.copy2(path, tmp_path)
    put(pl.DataFrame({"trial_id": [5]}), path)
    try:
        with pytest.raises(WeirError, match=rf"the table {table} of run {run_id} is damaged: .*column \w+"):
            looked_at(store, run_id)
    finally:
        shutil.copy2(tmp_path / path.name, path)
