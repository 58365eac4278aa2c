"""The samples of a watch as a file: Parquet or CSV."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from weirlab import files
from weirlab.cli.options.sockets import shown
from weirlab.errors import InputError
from weirlab.studies.tcp.watching import Samples, Tally

if TYPE_CHECKING:
    import polars as pl

SUFFIXES: Final = (".parquet", ".csv")
_PART_ROWS: Final = 1 << 16
"""Rows that are kept as they are, before they are compressed."""


class SampleFile:
    """Keeps the samples, compressed, until :meth:`write` puts all of them into one file in one step.

    A row is a sample of one connection: ``time_ns`` (since 1970), ``connection`` (its number in the result),
    ``local``, ``remote``, ``event`` (what happened, where ``events`` are kept), and a column for each field,
    empty where the kernel does not tell it.
    """

    def __init__(
        self, path: Path, names: Sequence[str], option: str = "--out", *, events: bool = False
    ) -> None:
        if path.suffix not in SUFFIXES:
            raise InputError(f"{option} {files.shown(path)}: the name has to end in {' or '.join(SUFFIXES)}")
        files.check_output(path, option)
        self._path, self._names, self._events = path, tuple(names), events
        self._fresh: list[pl.DataFrame] = []
        self._parts: list[bytes] = []
        self._rows = 0

    def waiting(self) -> None:
        """Nothing to keep yet."""

    def samples(self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[Tally]) -> None:
        """Keep these, too."""
        import polars as pl

        if len(samples) == 0 and (self._fresh or self._parts):
            return
        ends = {end: [shown(each[end]) for each in progress["connections"]] for end in ("local", "remote")}
        columns: dict[str, pl.Series] = {
            "time_ns": pl.Series("time_ns", samples.time_ns, pl.Int64),
            "connection": pl.Series("connection", samples.connection, pl.UInt32),
        }
        for end, names in ends.items():
            columns[end] = pl.Series(end, [names[number] for number in samples.connection], pl.String)
        if self._events:
            columns["event"] = pl.Series("event", samples.events(), pl.String)
        frame = pl.DataFrame(list(columns.values()))
        for name in self._names:
            numbers, there = samples.fields[name]
            values = pl.Series(name, numbers, pl.UInt64)
            frame = frame.with_columns(
                pl.when(pl.Series(there, dtype=pl.Boolean)).then(values).otherwise(None).alias(name)
            )
        self._fresh.append(frame)
        self._rows += len(frame)
        if self._rows >= _PART_ROWS:
            self._pack()

    def write(self) -> None:
        """Write the file.

        Raises
        ------
        StoreError
            The disk refuses.
        """
        self._pack()
        files.write(self._path, self._fill)

    def _pack(self) -> None:
        import polars as pl

        if self._fresh:
            buffer = io.BytesIO()
            pl.concat(self._fresh).write_parquet(buffer, compression="zstd", statistics=False)
            self._parts.append(buffer.getvalue())
            self._fresh, self._rows = [], 0

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
