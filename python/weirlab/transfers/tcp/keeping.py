"""Writes the samples of a watch to a file: Parquet or CSV."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.cli.options.sockets import shown
from weirlab.transfers.tcp.watching import ConnectionTally, Samples

if TYPE_CHECKING:
    import polars as pl

SUFFIXES: Final = (".parquet", ".csv")
_PART_ROWS: Final = 1 << 16
"""Rows that are kept uncompressed at most."""


class SampleFile:
    """Keeps the samples, compressed, until :meth:`write` writes all of them to one file in one step.

    A row is a sample of one connection: ``time_ns`` (since 1970), ``connection`` (its number in the result),
    ``local``, ``remote``, ``event`` (what happened, if ``events`` are kept), and a column for each field,
    empty if the kernel does not report it.
    """

    def __init__(
        self, path: Path, names: Sequence[str], option: str = "--out", *, events: bool = False
    ) -> None:
        if path.suffix not in SUFFIXES:
            raise InputError(f"{option} {files.shown(path)}: the name has to end in {' or '.join(SUFFIXES)}")
        files.check_output(path, option)
        self._path, self._names, self._events = path, tuple(names), events
        self._fresh: list[Samples] = []
        self._ends: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self._rows = 0

    def waiting(self) -> None:
        """Load now what would take time from the connections later; there is nothing to keep yet."""
        import polars as pl  # noqa: F401

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        """Add these samples."""
        if len(samples) == 0 and (self._fresh or self._parts):
            return
        self._ends = [(shown(each["local"]), shown(each["remote"])) for each in progress["connections"]]
        self._fresh.append(samples)
        self._rows += len(samples)
        if self._rows >= _PART_ROWS:
            self._pack()

    def write(self) -> None:
        """Write the file.

        Raises
        ------
        StoreError
            The file cannot be written.
        """
        self._pack()
        files.write(self._path, self._fill)

    def _pack(self) -> None:
        if self._fresh:
            buffer = io.BytesIO()
            self._frame(self._fresh).write_parquet(buffer, compression="zstd", statistics=False)
            self._parts.append(buffer.getvalue())
            self._fresh, self._rows = [], 0

    def _frame(self, parts: Sequence[Samples]) -> pl.DataFrame:
        import numpy as np
        import polars as pl

        connection = np.concatenate([part.connection for part in parts])
        columns = [
            pl.Series("time_ns", np.concatenate([part.time_ns for part in parts]), pl.Int64),
            pl.Series("connection", connection, pl.UInt32),
            *(
                pl.Series(end, [self._ends[number][place] for number in connection], pl.String)
                for place, end in enumerate(("local", "remote"))
            ),
        ]
        if self._events:
            columns.append(
                pl.Series("event", [event for part in parts for event in part.events()], pl.String)
            )
        for name in self._names:
            numbers, there = (
                np.concatenate([part.fields[name][which] for part in parts]) for which in (0, 1)
            )
            values = pl.Series(name, numbers, pl.UInt64)
            columns.append(values.set(pl.Series(~there, dtype=pl.Boolean), None))
        return pl.DataFrame(columns)

    def _fill(self, file: BinaryIO) -> None:
        import polars as pl

        if self._path.suffix == ".csv":
            for number, part in enumerate(self._parts):
                source = io.BytesIO(part)
                pl.read_parquet(source).write_csv(file, include_header=number == 0)
            return
        frames = []
        for part in self._parts:
            source = io.BytesIO(part)
            frames.append(pl.scan_parquet(source))
        pl.concat(frames).sink_parquet(file, compression="zstd")
