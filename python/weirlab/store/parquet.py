"""Parquet files of a run. A small file may decode to very much: each is measured before it is decoded."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from weirlab import _engine
from weirlab.base import files
from weirlab.base.amounts import parse_size
from weirlab.base.errors import StoreError
from weirlab.base.quantities import count

VARIABLE: Final = "WEIR_MAX_TABLES"
"""The environment variable that sets how much memory the tables of a run may take, such as ``4GB``."""
MOST_BYTES: Final = 1_000_000_000
"""The same without that variable, in bytes."""


def most_bytes() -> int:
    """How much memory tables that are read at once may take, in bytes."""
    text = os.environ.get(VARIABLE, "")
    return parse_size(text, VARIABLE) if text else MOST_BYTES


class InvalidTable(Exception):
    """A file is no Parquet file, or has in it what Weir never writes."""


@dataclass
class Allowance:
    """Memory that tables may still take, in bytes."""

    left: int

    def open(self, path: Path, row_bytes: int = 0) -> BinaryIO:
        """Open the Parquet file ``path`` on the terms of :meth:`admit`; raises ``OSError``, too."""
        file = files.open_regular(path)
        try:
            self.admit(path, file.fileno(), row_bytes=row_bytes)
        except BaseException:
            file.close()
            raise
        return file

    def content(self, path: Path, columns: Collection[str], row_bytes: int = 0) -> bytes:
        """What is in the Parquet file ``path``, of which ``columns`` will be decoded, on the same terms."""
        with files.open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > self.left:
                raise _refused(path, 1, size, self.left)
            self.admit(path, file.fileno(), columns, row_bytes=row_bytes)
            return file.read(size)

    def admit(
        self, path: Path, source: int | bytes, columns: Collection[str] | None = None, *, row_bytes: int = 0
    ) -> None:
        """Take what the Parquet file ``source`` needs: its content, or a descriptor of it.

        Parameters
        ----------
        path
            Its name for messages.
        columns
            Only these are decoded; None: all.
        row_bytes
            A row takes at least so much, because columns that the file lacks are added.

        Raises
        ------
        InvalidTable
            It is no Parquet file, or has in it what Weir never writes.
        StoreError
            It would take more than is left.
        """
        try:
            rows, taken = _engine.parquet_extent(source, None if columns is None else set(columns))
        except ValueError as error:
            raise InvalidTable(str(error)) from error
        taken = max(taken, rows * row_bytes)
        if taken > self.left:
            raise _refused(path, rows, taken, self.left)
        self.left -= taken

    def bound(self, path: Path, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame``, which was decoded from ``path``, if its texts are not larger than what is left.

        A text that is stored once may be in every row: that takes no memory until the rows are written.
        """
        lengths = frame.select(pl.col(pl.String).str.len_bytes().sum())
        taken = sum(lengths.row(0)) if lengths.height else 0
        if taken > self.left:
            raise _refused(path, frame.height, taken, self.left)
        return frame


def _refused(path: Path, rows: int, taken: int, left: int) -> StoreError:
    def size(number: int) -> str:
        return f"{count(number / 1e6)} MB"

    return StoreError(
        f"{files.shown(path)} would take {size(taken)} of memory for {count(rows)} rows, and {size(left)} "
        "are left of what tables of a run may take; if you trust this run, allow more, such as "
        f"{VARIABLE}=8GB"
    )
