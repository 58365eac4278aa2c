"""A running watch: a table redrawn on a terminal, otherwise an occasional line, or JSON Lines."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.base.quantities import NOTHING, duration
from weirlab.base.quoting import printable
from weirlab.base.tables import Table
from weirlab.cli import layout, live
from weirlab.cli.options.sockets import shown
from weirlab.trace.quantities import bit_rate, count, percent, plural
from weirlab.transfers.tcp.causes import LIVE_S, CauseLog, ConnectionCause
from weirlab.transfers.tcp.connections import owner
from weirlab.transfers.tcp.show.tables import WAYS_IN_WORDS
from weirlab.transfers.tcp.watching import ConnectionTally, Samples

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

SHOW_EVERY_S: Final = 0.25
DIAGNOSE_EVERY_NS: Final = 1_000_000_000
_WAITING: Final = "waiting for a matching connection; Ctrl-C ends it"
MOST_ROWS: Final = 30
MOST_COLUMNS: Final = 10
"""Fields that a terminal has room for; if more are kept, the usual columns are shown."""


def screen(
    stream: TextIO, names: Sequence[str], causes: CauseLog | None, *, quiet: bool
) -> WatchLines | WatchScreen:
    """The observer that suits ``stream``, to be closed at the end; ``names`` are the fields to show, or
    empty for the usual columns."""
    if quiet or not stream.isatty():
        return WatchLines(stream, quiet=quiet)
    return WatchScreen(stream, names, causes)


class WatchLines(live.LiveLines):
    """A plain line at most every ten seconds."""

    def __init__(
        self, stream: TextIO, *, quiet: bool = False, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, now_s)
        self._quiet = quiet

    def waiting(self) -> None:
        self.note(_WAITING)

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        if not self._quiet:
            self.line(lambda: sentence(progress, noun(samples)))


class WatchScreen(live.LiveScreen):
    """Why the busiest connections are not faster, and a row per connection, redrawn four times a second."""

    def __init__(
        self,
        stream: TextIO,
        names: Sequence[str],
        causes: CauseLog | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, SHOW_EVERY_S, now_s)
        self._names = tuple(names)
        self._causes = LiveCauses(causes, self._say) if causes is not None else None
        self._said: list[str] = []
        self._noun = "sample"
        self._latest: dict[int, dict[str, int]] = {}
        self._before: dict[int, tuple[int, dict[str, int]]] = {}

    def waiting(self) -> None:
        self.draw(lambda _: _WAITING)

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        self._keep(samples)
        self._noun = noun(samples)
        if self._causes is not None:
            self._causes.samples(samples, progress, tallies)
        if tallies:
            self.draw(lambda columns: self._drawn(progress, tallies, columns))

    def _drawn(
        self, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally], columns: int
    ) -> RenderableType:
        table = self._chosen(progress) if self._names else self._usual(progress, tallies)
        return _drawn(self._said, table, sentence(progress, self._noun), columns)

    def _say(self, causes: Sequence[ConnectionCause]) -> None:
        self._said = [cause.line for cause in causes]

    def _keep(self, samples: Samples) -> None:
        """Keep the latest row of each connection."""
        for row, number in enumerate(samples.connection):
            self._latest[int(number)] = {
                name: int(values[row])
                for name, (values, there) in samples.fields.items()
                if name in self._names and there[row]
            }

    def _usual(self, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]) -> Table:
        from weirlab._engine import tcp_states

        states = tcp_states()
        columns = [
            "Local", "Remote", "Process", "State", "Out", "In", "RTT", "cwnd", "Retransmitted", "Missed",
        ]  # fmt: skip
        rows = []
        for number, (one, tally) in enumerate(zip(progress["connections"], tallies, strict=True)):
            if one["ended_ns"] is not None or not tally.last_ns:
                continue
            rtt_us, cwnd = tally.last.get("rtt_us"), tally.last.get("snd_cwnd")
            rows.append(
                [
                    shown(one["local"]),
                    shown(one["remote"]),
                    owner(one["pid"], one["process"]),
                    states[tally.last.get("state", 0)],
                    self._rate(number, tally, "bytes_acked"),
                    self._rate(number, tally, "bytes_received"),
                    duration(rtt_us * 1e3) if rtt_us else NOTHING,
                    count(cwnd) if cwnd else NOTHING,
                    count(tally.last.get("total_retrans", 0)),
                    count(one["missed"]) if self._noun == "sample" else NOTHING,
                ]
            )
            self._before[number] = (tally.last_ns, tally.last)
        return Table("", columns, rows, spare=("Missed", "cwnd", "State", "Process"))

    def _rate(self, number: int, tally: ConnectionTally, name: str) -> str:
        before_ns, before = self._before.get(number, (tally.first_ns, tally.first))
        lasted_s = (tally.last_ns - before_ns) / 1e9
        if lasted_s <= 0 or name not in before or name not in tally.last:
            return NOTHING
        return bit_rate((tally.last[name] - before[name]) * 8 / lasted_s)

    def _chosen(self, progress: Mapping[str, Any]) -> Table:
        columns = ["Local", "Remote", *self._names]
        rows = [
            [
                shown(one["local"]),
                shown(one["remote"]),
                *(count(row[name]) if name in row else NOTHING for name in self._names),
            ]
            for number, one in enumerate(progress["connections"])
            if one["ended_ns"] is None and (row := self._latest.get(number)) is not None
        ]
        return Table("", columns, rows)


class LiveCauses:
    """Diagnoses the last seconds once per second of samples, and hands the result to ``say``."""

    def __init__(self, causes: CauseLog, say: Callable[[Sequence[ConnectionCause]], None]) -> None:
        self._causes, self._say, self._due_ns = causes, say, 0

    def waiting(self) -> None:
        pass

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        now_ns = max((tally.last_ns for tally in tallies), default=0)
        self._due_ns = self._due_ns or now_ns + DIAGNOSE_EVERY_NS
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + DIAGNOSE_EVERY_NS
            self._say(self._causes.causes(progress, LIVE_S))


class SampleLines:
    """A JSON document per sample or event."""

    def __init__(self, names: Sequence[str], say: Callable[[Mapping[str, Any]], None]) -> None:
        self._names, self._say = names, say

    def waiting(self) -> None:
        pass

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        columns = [(name, *samples.fields[name]) for name in self._names]
        events = samples.events()
        for row, number in enumerate(samples.connection):
            one = progress["connections"][number]
            self._say(
                {
                    "kind": "tcp watch event" if events else "tcp watch sample",
                    "connection": int(number),
                    "local": one["local"],
                    "remote": one["remote"],
                    "time_ns": int(samples.time_ns[row]),
                    **({"event": events[row]} if events else {}),
                    **{name: int(values[row]) for name, values, there in columns if there[row]},
                }
            )


def evidence(one: ConnectionCause) -> Table:
    """All causes of one connection, the largest first."""
    rows = [
        [finding.cause.held, percent(finding.share), finding.confidence, "; ".join(finding.evidence)]
        for finding in one.findings
    ]
    name = (
        f"{shown(one.connection['local'])} {'to' if one.sends else 'from'} {shown(one.connection['remote'])}"
    )
    return Table(name, ("Cause", "Share", "Confidence", "Evidence"), rows, ("Evidence",))


def noun(samples: Samples) -> str:
    """The word for what is counted."""
    return "sample" if samples.kind is None else "event"


def sentence(progress: Mapping[str, Any], counted: str = "sample") -> str:
    """The progress so far, in samples or events."""
    made = progress["connections"]
    samples = sum(each["samples"] for each in made)
    missed = sum(each["missed"] for each in made) + progress["lost"]
    live = sum(each["ended_ns"] is None for each in made)
    way = WAYS_IN_WORDS.get(progress["by"], "")
    return (
        f"{plural(live, 'connection')} watched, {plural(samples, counted)}{way}, {count(missed)} missed; "
        "Ctrl-C ends it"
    )


def _drawn(above: Sequence[str], table: Table, below: str, columns: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    more = len(table.rows) - MOST_ROWS
    others = f"{plural(more, 'more connection')} not shown; " if more > 0 else ""
    top = layout.lines(replace(table, rows=table.rows[:MOST_ROWS]), columns, note=False)
    return Group(
        *(Text(printable(line), style="bold" if number == 0 else "") for number, line in enumerate(above)),
        Text("\n".join(top)),
        Text(f"{others}{below}", style="dim"),
    )


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
