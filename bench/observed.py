"""The observations of one run as a small Parquet file: enough to fit and to score again."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import polars as pl

from weirlab.records import Observation
from weirlab.store import Run

ROLES = ("profile", "verify")
_COLUMNS = [field.name for field in fields(Observation) if field.name != "extra"]


def write(run: Run, path: Path) -> None:
    """Write the valid trials of ``run`` to ``path``, atomically."""
    frames = []
    for role in ROLES:
        rows = [{name: getattr(each, name) for name in _COLUMNS} for each in run.observations(role)]
        if rows:
            frames.append(pl.DataFrame(rows).with_columns(role=pl.lit(role)))
    part = path.with_suffix(".part")
    pl.concat(frames).write_parquet(part)
    part.replace(path)


def read(path: Path) -> dict[str, list[Observation]]:
    """The trials in ``path`` by role."""
    frame = pl.read_parquet(path)
    return {
        role: [
            Observation(**row)
            for row in frame.filter(pl.col("role") == role).select(_COLUMNS).iter_rows(named=True)
        ]
        for role in ROLES
    }
