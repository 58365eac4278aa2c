"""Whether a run has the attempts that its manifest counts, as far as can be seen without reading tables.

Nothing here imports Polars, which takes longer than listing all runs does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weirlab.base import files

PARTS_DIR: Final = "parts"
"""Folder of a run with one file for each attempt, until they are merged."""
TRIALS: Final = "trials"


def table_file(run_path: Path, table: str) -> Path:
    return run_path / f"{table}.parquet"


def is_empty(run_path: Path) -> bool:
    """Whether this is a folder that an earlier version made for a run but wrote nothing into."""
    parts = run_path / PARTS_DIR
    return not any(found for folder in (run_path, parts) for found in folder.glob("[!.]*") if found != parts)


def shortage(run_path: Path, found: int, counted: int) -> str:
    """The problem if there are fewer attempts (``found``) than in the manifest (``counted``), or "".

    While there are parts, fewer are accepted: the user may have deleted a damaged one.
    """
    if found >= counted or (run_path / PARTS_DIR).is_dir():
        return ""
    path = table_file(run_path, TRIALS)
    what = f"holds {found} of the {counted}" if path.exists() else f"is missing, with all {counted}"
    return (
        f"{path} is damaged: it {what} attempts in the manifest; restore it from a copy or delete {run_path}"
    )


def problem(run_path: Path, counted: int | None) -> str:
    """What is wrong with the table of trials; "" if nothing. Raises ``StoreError`` if it is not a file."""
    if not counted or (run_path / PARTS_DIR).is_dir():
        return ""
    path = table_file(run_path, TRIALS)
    if not path.exists():
        return shortage(run_path, 0, counted)
    from weirlab import _engine

    try:
        with files.open_regular(path) as file:
            found, _ = _engine.parquet_extent(file.fileno(), set())
    except (OSError, ValueError) as error:
        return f"{path} is damaged ({error}); restore it from a copy or delete {run_path}"
    return shortage(run_path, found, counted)
