"""The Parquet files of one run: parts while it is being written, one file per table afterwards.

Each run has the common tables (:data:`weirlab.store.rows.TABLES`) and those of its study.
``compact`` may be killed at any point: it puts the tables in place one by one before it deletes the parts,
and a reader takes from the parts only the rows that the table does not have yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import polars as pl

from weirlab.errors import StoreError
from weirlab.files import SCRATCH
from weirlab.records import TrialRecord
from weirlab.store.files import telling, write_bytes, write_with
from weirlab.store.rows import (
    TABLES,
    completed,
    own_tables,
    part_bytes,
    part_schema,
    table_of_parts,
    table_schema,
)

PARTS_DIR: Final = "parts"

T = TypeVar("T")


def add_part(run_path: Path, record: TrialRecord) -> None:
    """Write ``record`` as one part, atomically."""
    name = f"{record.index:06d}-{record.attempt:03d}.parquet"
    write_bytes(run_path / PARTS_DIR / name, part_bytes(record))


def read(run_path: Path, table: str) -> pl.DataFrame:
    """All rows of ``table``; raises ``StoreError`` naming the file that cannot be read."""

    def attempt(parts: list[Path]) -> pl.DataFrame:
        return _scan(run_path, table, _scan_parts(parts) if parts else None).collect()

    return _read(run_path, attempt)


def read_own(run_path: Path, table: str) -> pl.DataFrame | None:
    """All rows of ``table``, one of the study's; None if it does not exist. Raises as :func:`read` does."""
    return _read(run_path, lambda parts: _own(run_path, table, own_tables(_scan_parts(parts)).get(table, ())))


def names_of_own(run_path: Path) -> list[str]:
    """The names of the study's tables, sorted. Raises as :func:`read` does."""
    files = {path.stem for path in run_path.glob("*.parquet")} - set(TABLES)
    return sorted(files | _read(run_path, lambda parts: own_tables(_scan_parts(parts)).keys()))


def drop_orphans(run_path: Path, trial_ids: pl.Series) -> None:
    """Delete rows of the study's tables whose trials are not in the run.

    Earlier versions wrote these tables before the trial, and may have been killed in between.
    """
    for path in run_path.glob("*.parquet"):
        if path.stem in TABLES or "trial_id" not in (frame := _read_file(run_path, path)).columns:
            continue
        whole = frame.filter(pl.col("trial_id").is_in(trial_ids.to_list()))
        if whole.height < frame.height:
            _write(path, whole)


def _read(run_path: Path, attempt: Callable[[list[Path]], T]) -> T:
    """The result of ``attempt`` with the parts, tried again if they were compacted meanwhile."""
    while True:
        parts = _parts(run_path)
        try:
            return attempt(parts)
        except (pl.exceptions.PolarsError, OSError) as error:
            # The writer may have compacted the run meanwhile, which happens only once.
            if set(_parts(run_path)) >= set(parts):
                fallback = StoreError(f"the tables in {run_path} cannot be read: {error}")
                raise _culprit(run_path) or fallback from error


def shortage(run_path: Path, found: int, counted: int) -> str:
    """The problem if there are fewer attempts (``found``) than in the manifest (``counted``), or "".

    While there are parts, fewer are accepted: the user may have deleted a damaged one.
    """
    if found >= counted or (run_path / PARTS_DIR).is_dir():
        return ""
    path = _file(run_path, "trials")
    what = f"holds {found} of the {counted}" if path.exists() else f"is missing, with all {counted}"
    return (
        f"{path} is damaged: it {what} attempts in the manifest; restore it from a copy or delete {run_path}"
    )


def problem(run_path: Path, counted: int | None) -> str:
    """What is wrong with the table of trials, as far as can be seen without reading rows; "" if nothing."""
    if not counted or (run_path / PARTS_DIR).is_dir():
        return ""
    path = _file(run_path, "trials")
    if not path.exists():
        return shortage(run_path, 0, counted)
    try:
        with path.open("rb") as file:
            found = pl.scan_parquet(file).select(pl.len()).collect().item()
    except (pl.exceptions.PolarsError, OSError) as error:
        return f"{path} is damaged ({error}); restore it from a copy or delete {run_path}"
    return shortage(run_path, found, counted)


def compact(run_path: Path) -> None:
    """Merge all parts into one file per table; rows already in a table stay."""
    parts = _parts(run_path)
    if not parts:
        with suppress(OSError):
            (run_path / PARTS_DIR).rmdir()
        return
    try:
        with telling(run_path / PARTS_DIR, "read"):
            # Once for all tables: reading many parts takes longer than building the tables.
            fresh = _scan_parts(parts).collect().lazy()
        for table in TABLES:
            with telling(run_path / PARTS_DIR, "read"):
                frame = _scan(run_path, table, fresh)
            write_with(_file(run_path, table), partial(_sink, frame), durable=True)
        with telling(run_path / PARTS_DIR, "read"):
            own = own_tables(fresh)
        for table, frames in own.items():
            if (whole := _own(run_path, table, frames)) is not None:
                _write(_file(run_path, table), whole)
    except StoreError as error:
        raise _culprit(run_path) or error from error
    for part in parts:
        with telling(part, "delete"):
            part.unlink(missing_ok=True)
    with suppress(OSError):
        (run_path / PARTS_DIR).rmdir()


def sweep(run_path: Path) -> None:
    """Delete files that a killed writer left half-written."""
    for folder in (run_path, run_path / PARTS_DIR):
        for scratch in folder.glob(SCRATCH):
            with telling(scratch, "delete"):
                scratch.unlink(missing_ok=True)


def _file(run_path: Path, table: str) -> Path:
    return run_path / f"{table}.parquet"


def _parts(run_path: Path) -> list[Path]:
    with telling(run_path / PARTS_DIR, "read"):
        return sorted((run_path / PARTS_DIR).glob("[0-9]*.parquet"))


def _sink(frame: pl.LazyFrame, file: BinaryIO) -> None:
    frame.sink_parquet(file, compression="zstd")


def _scan(run_path: Path, table: str, parts: pl.LazyFrame | None) -> pl.LazyFrame:
    """``table``: the rows of its file, then those of ``parts`` that the file does not have."""
    file = _file(run_path, table)
    frames = []
    if file.exists():
        frames.append(_scan_file(file, table))
    if parts is not None:
        fresh = table_of_parts(parts, table)
        if frames:
            kept = frames[0].select("trial_id").unique()
            fresh = fresh.join(kept, on="trial_id", how="anti")
        frames.append(fresh)
    if not frames:
        return pl.LazyFrame(schema=table_schema(table))
    return pl.concat(frames)


def _own(run_path: Path, table: str, fresh: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """The rows of a study's table in its file, and the ``fresh`` rows that the file does not have yet."""
    file, frames = _file(run_path, table), list(fresh)
    if file.exists():
        kept = _read_file(run_path, file)
        if frames:
            known = kept["trial_id"].unique().to_list()
            frames = [frame.filter(~pl.col("trial_id").is_in(known)) for frame in frames]
        frames.insert(0, kept)
    # Rows of another version of Weir may have other columns.
    return pl.concat(frames, how="diagonal_relaxed") if frames else None


def _write(path: Path, frame: pl.DataFrame) -> None:
    write_with(path, lambda file: frame.write_parquet(file), durable=True)


def _read_file(run_path: Path, path: Path) -> pl.DataFrame:
    try:
        with path.open("rb") as file:
            return pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise StoreError(
            f"{path} is damaged ({error}); restore it from a copy or delete {run_path}"
        ) from error


def _scan_parts(parts: list[Path]) -> pl.LazyFrame:
    # Read into memory: there may be more parts than the limit on open files.
    contents: list[bytes] = [part.read_bytes() for part in parts]
    return pl.scan_parquet(contents, schema=part_schema(), missing_columns="insert")


def _scan_file(path: Path, table: str) -> pl.LazyFrame:
    """``table`` as read from its file; columns that an earlier version did not write are filled in."""
    with path.open("rb") as file:
        frame = pl.scan_parquet(file, schema=table_schema(table), missing_columns="insert")
    return completed(frame) if table == "trials" else frame


def _culprit(run_path: Path) -> StoreError | None:
    """The error for the first damaged file of the run; None if all are intact."""
    for file in [*(_file(run_path, table) for table in TABLES), *_parts(run_path)]:
        if not file.exists():
            continue
        part = file.parent.name == PARTS_DIR
        try:
            if part:
                _scan_parts([file]).collect()
            else:
                _scan_file(file, file.stem).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            remedy = (
                "delete it; the other trials stay readable, and resuming the run measures this one again"
                if part
                else f"restore it from a copy or delete {run_path}"
            )
            return StoreError(f"{file} is damaged ({error}); {remedy}")
    return None
