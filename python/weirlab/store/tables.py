"""The Parquet files of one run: parts while it is being written, one file per table afterwards.

Each run has the common tables (:data:`weirlab.store.rows.TABLES`) and those of its study.
``merge`` may be killed at any point: it puts the tables in place one by one before it deletes the parts,
and a reader takes from the parts only the rows that the table does not have yet.

What is read takes at most ``most`` bytes of memory; see :mod:`weirlab.store.parquet`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import polars as pl

from weirlab.base.errors import StoreError
from weirlab.base.files import SCRATCH
from weirlab.records import TrialRecord
from weirlab.store.files import telling, write_bytes, write_with
from weirlab.store.parquet import Allowance, InvalidTable
from weirlab.store.rows import (
    OWN,
    OWN_NAMES,
    TABLES,
    completed,
    own_tables,
    part_bytes,
    part_columns,
    part_schema,
    table_of_parts,
    table_schema,
)
from weirlab.store.summary import PARTS_DIR, table_file

_BATCH_BYTES: Final = 64_000_000
"""When the contents of so many parts are in memory, they are decoded."""
_CELL_BYTES: Final = 8
"""A cell of a column that a file lacks takes about so much."""

_UNREADABLE: Final = (pl.exceptions.PolarsError, OSError, InvalidTable)

T = TypeVar("T")


def add_part(run_path: Path, record: TrialRecord) -> None:
    """Write ``record`` as one part, atomically."""
    name = f"{record.index:06d}-{record.attempt:03d}.parquet"
    write_bytes(run_path / PARTS_DIR / name, part_bytes(record))


def read(run_path: Path, table: str, most: int) -> pl.DataFrame:
    """All rows of ``table``; raises ``StoreError`` naming the file that cannot be read."""

    def attempt(parts: list[Path]) -> pl.DataFrame:
        allowance = Allowance(most)
        fresh = _of_parts(parts, part_columns(table), allowance)
        frame = _scan(run_path, table, None if fresh is None else fresh.lazy(), allowance).collect()
        return allowance.bound(table_file(run_path, table), frame)

    return _read(run_path, attempt, most)


def read_own(run_path: Path, table: str, most: int) -> pl.DataFrame | None:
    """All rows of ``table``, one of the study's; None if it does not exist. Raises as :func:`read` does."""

    def attempt(parts: list[Path]) -> pl.DataFrame | None:
        allowance = Allowance(most)
        fresh = own_tables(_of_parts(parts, OWN, allowance), run_path / PARTS_DIR, allowance)
        frame = _own(run_path, table, fresh.get(table, ()), allowance)
        return None if frame is None else allowance.bound(table_file(run_path, table), frame)

    return _read(run_path, attempt, most)


def names_of_own(run_path: Path, most: int) -> list[str]:
    """The names of the study's tables, sorted. Raises as :func:`read` does."""

    def attempt(parts: list[Path]) -> set[str]:
        fresh = _of_parts(parts, (OWN_NAMES,), Allowance(most))
        # Parts written by earlier versions have none.
        return set() if fresh is None else set(fresh[OWN_NAMES].drop_nulls().explode().drop_nulls())

    return sorted(
        ({path.stem for path in run_path.glob("*.parquet")} - set(TABLES)) | _read(run_path, attempt, most)
    )


def drop_orphans(run_path: Path, trial_ids: pl.Series, most: int) -> None:
    """Delete rows of the study's tables whose trials are not in the run.

    Earlier versions wrote these tables before the trial, and may have been killed in between.
    """
    for path in run_path.glob("*.parquet"):
        if path.stem in TABLES:
            continue
        frame = _read_file(run_path, path, Allowance(most))
        if "trial_id" not in frame.columns:
            continue
        whole = frame.filter(pl.col("trial_id").is_in(trial_ids.to_list()))
        if whole.height < frame.height:
            _write(path, whole)


def check_merging(run_path: Path, most: int) -> None:
    """Raise ``StoreError`` if :func:`compact` would have to read what takes more than ``most`` bytes."""

    def attempt(parts: list[Path]) -> None:
        for _ in _contents(parts, list(part_schema()), Allowance(most)):
            pass
        for table in TABLES:
            if (file := table_file(run_path, table)).exists():
                Allowance(most).open(file).close()

    _read(run_path, attempt, most)


def _read(run_path: Path, attempt: Callable[[list[Path]], T], most: int) -> T:
    """The result of ``attempt`` with the parts, tried again if they were merged meanwhile."""
    while True:
        parts = _parts(run_path)
        try:
            return attempt(parts)
        except _UNREADABLE as error:
            # The writer may have merged them meanwhile.
            if set(_parts(run_path)) >= set(parts):
                fallback = StoreError(f"the tables in {run_path} cannot be read: {error}")
                raise _culprit(run_path, most) or fallback from error


def compact(run_path: Path) -> None:
    """Merge all parts of a run that has ended."""
    merge(run_path)
    with suppress(OSError):
        (run_path / PARTS_DIR).rmdir()


def merge(run_path: Path) -> None:
    """Merge the parts so far into one file per table; rows already in a table stay.

    There is no limit on memory: this run was measured here, or was checked by :func:`check_merging`.
    """
    parts = _parts(run_path)
    if not parts:
        return
    allowance = Allowance(sys.maxsize)
    try:
        with telling(run_path / PARTS_DIR, "read"):
            # Once for all tables: reading many parts takes longer than building the tables.
            whole = _of_parts(parts, None, allowance)
        fresh = None if whole is None else whole.lazy()
        for table in TABLES:
            with telling(run_path / PARTS_DIR, "read"):
                frame = _scan(run_path, table, fresh, allowance)
            write_with(table_file(run_path, table), partial(_sink, frame), durable=True)
        with telling(run_path / PARTS_DIR, "read"):
            own = own_tables(whole, run_path / PARTS_DIR, allowance)
        for table, frames in own.items():
            if (rows := _own(run_path, table, frames, allowance)) is not None:
                _write(table_file(run_path, table), rows)
    except (StoreError, InvalidTable) as error:
        raise _culprit(run_path, sys.maxsize) or error from error
    for part in parts:
        with telling(part, "delete"):
            part.unlink(missing_ok=True)


def replace(run_path: Path, table: str, frame: pl.DataFrame) -> None:
    """Replace ``table`` of a run whose parts are merged."""
    _write(table_file(run_path, table), frame)


def sweep(run_path: Path) -> None:
    """Delete files that a killed writer left half-written."""
    for folder in (run_path, run_path / PARTS_DIR):
        for scratch in folder.glob(SCRATCH):
            with telling(scratch, "delete"):
                scratch.unlink(missing_ok=True)


def _parts(run_path: Path) -> list[Path]:
    folder = run_path / PARTS_DIR
    if folder.is_symlink():
        # Parts are written and deleted there.
        raise StoreError(f"{folder} is a symbolic link, where a folder was expected; delete it")
    with telling(folder, "read"):
        return sorted(folder.glob("[0-9]*.parquet"))


def _sink(frame: pl.LazyFrame, file: BinaryIO) -> None:
    frame.sink_parquet(file, compression="zstd")


def _scan(run_path: Path, table: str, parts: pl.LazyFrame | None, allowance: Allowance) -> pl.LazyFrame:
    """``table``: the rows of its file, then those of ``parts`` that the file does not have."""
    file = table_file(run_path, table)
    frames = []
    if file.exists():
        frames.append(_scan_file(file, table, allowance))
    if parts is not None:
        fresh = table_of_parts(parts, table)
        if frames:
            kept = frames[0].select("trial_id").unique()
            fresh = fresh.join(kept, on="trial_id", how="anti")
        frames.append(fresh)
    if not frames:
        return pl.LazyFrame(schema=table_schema(table))
    return pl.concat(frames)


def _own(
    run_path: Path, table: str, fresh: Sequence[pl.DataFrame], allowance: Allowance
) -> pl.DataFrame | None:
    """The rows of a study's table in its file, and the ``fresh`` rows that the file does not have yet."""
    file, frames = table_file(run_path, table), list(fresh)
    if file.exists():
        kept = _read_file(run_path, file, allowance)
        if frames:
            known = kept["trial_id"].unique().to_list()
            frames = [frame.filter(~pl.col("trial_id").is_in(known)) for frame in frames]
        frames.insert(0, kept)
    # Rows of another version of Weir may have other columns.
    return pl.concat(frames, how="diagonal_relaxed") if frames else None


def _write(path: Path, frame: pl.DataFrame) -> None:
    write_with(path, lambda file: frame.write_parquet(file), durable=True)


def _read_file(run_path: Path, path: Path, allowance: Allowance) -> pl.DataFrame:
    try:
        with allowance.open(path) as file:
            return pl.read_parquet(file)
    except _UNREADABLE as error:
        raise StoreError(
            f"{path} is damaged ({error}); restore it from a copy or delete {run_path}"
        ) from error


def _of_parts(
    parts: Sequence[Path], columns: Collection[str] | None, allowance: Allowance
) -> pl.DataFrame | None:
    """These columns of ``parts``, or all; None without parts."""
    schema = part_schema()
    chosen = [name for name in schema if columns is None or name in columns]
    frames = []
    for batch in _contents(parts, chosen, allowance):
        contents: list[bytes] = batch
        frames.append(
            pl.scan_parquet(contents, schema=schema, missing_columns="insert").select(chosen).collect()
        )
    return pl.concat(frames) if frames else None


def _contents(parts: Sequence[Path], columns: Collection[str], allowance: Allowance) -> Iterator[list[bytes]]:
    """The contents of ``parts``, some at a time; not files, since there may be more than may be open."""
    contents: list[bytes] = []
    for part in parts:
        contents.append(allowance.content(part, columns, row_bytes=_CELL_BYTES * len(columns)))
        if sum(map(len, contents)) > _BATCH_BYTES:
            yield contents
            contents = []
    if contents:
        yield contents


def _scan_file(path: Path, table: str, allowance: Allowance) -> pl.LazyFrame:
    """``table`` as read from its file; columns that an earlier version did not write are filled in."""
    schema = table_schema(table)
    with allowance.open(path, row_bytes=_CELL_BYTES * len(schema)) as file:
        if "trial_id" not in pl.read_parquet_schema(file):
            raise StoreError(
                f"{path} is damaged: it has no column trial_id; restore it from a copy or delete its run"
            )
        file.seek(0)
        frame = pl.scan_parquet(file, schema=schema, missing_columns="insert")
    return completed(frame) if table == "trials" else frame


def _culprit(run_path: Path, most: int) -> StoreError | None:
    """The error for the first damaged file of the run; None if all are intact."""
    for file in [*(table_file(run_path, table) for table in TABLES), *_parts(run_path)]:
        if not file.exists():
            continue
        allowance = Allowance(most)
        part = file.parent.name == PARTS_DIR
        try:
            if part:
                own_tables(_of_parts([file], None, allowance), file, allowance)
            else:
                _scan_file(file, file.stem, allowance).collect()
        except StoreError as error:
            return error
        except _UNREADABLE as error:
            remedy = (
                "delete it; the other trials stay readable, and resuming the run measures this one again"
                if part
                else f"restore it from a copy or delete {run_path}"
            )
            return StoreError(f"{file} is damaged ({error}); {remedy}")
    return None
