"""Analyses as Polars frames."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Unpack

import polars as pl
from numpy.typing import NDArray

from weirlab.base import files
from weirlab.base.closing import Closable
from weirlab.base.errors import InputError
from weirlab.trace import quantities, schema
from weirlab.trace.analysis import PERIOD_NS, PathText, TraceSettings, analyse
from weirlab.trace.facts import RETRANSMISSIONS, Analysis, Connection, EspFlow, Side, SideName, Stream, sides


def connections(facts: Sequence[Connection]) -> pl.DataFrame:
    """One row per connection, as ``schema.CONNECTIONS``."""
    return pl.DataFrame([_connection(fact) for fact in facts], schema=schema.CONNECTIONS, orient="row")


def directions(facts: Sequence[Connection]) -> pl.DataFrame:
    """Two rows per connection, as ``schema.DIRECTIONS``."""
    return pl.DataFrame(list(_directions(facts)), schema=schema.DIRECTIONS, orient="row")


def streams(facts: Sequence[Stream]) -> pl.DataFrame:
    """One row per voice stream, as ``schema.STREAMS``."""
    types = ("payload_type", "packets", "encoding")
    rows = [
        {**fact, "payload_types": [dict(zip(types, one, strict=True)) for one in fact["payload_types"]]}
        for fact in facts
    ]
    return pl.DataFrame(rows, schema=schema.STREAMS)


def esp(facts: Sequence[EspFlow]) -> pl.DataFrame:
    """One row per ESP flow, as ``schema.ESP``."""
    rows = []
    for fact in facts:
        src_port, dst_port = fact["ports"] or (None, None)
        rows.append({**fact, "src_port": src_port, "dst_port": dst_port})
    return pl.DataFrame(rows, schema=schema.ESP)


def _connection(each: Connection) -> tuple[Any, ...]:
    a, b = sides(each)
    return (
        *(each["id"], a["addr"], a["port"], b["addr"], b["port"], each["vlan"], each["interface"]),
        *(each["first_ns"], each["last_ns"], each["begin"], each["end"], each["place"]),
        *(*each["handshake_ns"], each["idle_max_ns"]),
    )


def _directions(facts: Sequence[Connection]) -> Iterator[tuple[Any, ...]]:
    for fact in facts:
        for name, end in zip(schema.SIDES, sides(fact), strict=True):
            values = _side(end)
            yield (fact["id"], name, end["addr"], end["port"], *(values[column] for column in schema.SIDE))


def _side(end: Side) -> dict[str, Any]:
    options, again = end["options"], end["retransmissions"]
    values: dict[str, Any] = dict(end)
    values["data_first_ns"], values["data_last_ns"] = end["data_ns"] or (None, None)
    values["window_min_bytes"], values["window_max_bytes"] = end["window"] or (None, None)
    values["payload_max_bytes"] = end["payload_max"]
    values["mss_bytes"] = options["mss"] if options else None
    values["window_scale"] = options["window_scale"] if options else None
    values["sack_permitted"] = options["sack"] if options else None
    values["timestamps"] = options["timestamps"] if options else None
    values["flight_max_bytes"], values["flight_mean_bytes"] = end["flight_max"], end["flight_mean"]
    values["retransmissions"], values["retransmissions_bytes"] = again["total"], again["bytes"]
    for cause in (*RETRANSMISSIONS, "fins", "spurious"):
        values[f"retransmissions_{cause}"] = dict(again).get(cause, 0)
    for kind, rtt in (("rtt", end["rtt"]), ("rtt_timestamp", end["rtt_timestamp"])):
        for what, number in rtt.items():
            values[f"{kind}_{what}"] = number
    return values


Time = int | str | datetime
"""ns since 1970; text as ``weir trace --from`` takes it; a date and time with its zone."""

_SYN: Final = 2
_NO_SERIES: Final = (
    "this analysis has no series: ask for them with read(..., series=True), or series='FOLDER' to keep them"
)


class Trace(Closable):
    """What captures show. Times are ns since 1970 (``to_datetime`` converts them), sizes are in bytes.

    A context manager: leaving it removes the series unless a folder of the caller's holds them.

    Attributes
    ----------
    facts : Analysis
        The engine's answer as it came.
    folder : Path or None
        Where the Parquet files are.
    period_ns : int
        Length of a row of ``periods``.
    """

    def __init__(
        self,
        facts: Analysis,
        folder: Path | None,
        temporary: tempfile.TemporaryDirectory[str] | None = None,
        period_ns: int = PERIOD_NS,
    ) -> None:
        self.facts = facts
        self.folder = folder
        self.period_ns = period_ns
        self._temporary = temporary
        self._shifts: dict[int, Mapping[SideName, int]] = {}

    def scale_windows(self, connection: Connection, shifts: Mapping[SideName, int]) -> Connection:
        """``connection`` with the windows of both ends scaled by ``shifts``, as its packets are from now on.

        For whoever knows the scales (RFC 7323 section 2.2) although the capture lacks the handshake that has
        them.
        """
        self._shifts[connection["id"]] = shifts
        a, b = (_scaled(connection[name], shifts[name]) for name in ("a", "b"))
        return {**connection, "a": a, "b": b, "scaled": True}

    @property
    def capture(self) -> dict[str, Any]:
        """What was read, and what was skipped."""
        return dict(self.facts["capture"])

    @cached_property
    def connections(self) -> pl.DataFrame:
        """One row per TCP connection: ends, times (ns), how it began and ended, where it was captured."""
        return connections(self.facts["connections"])

    @cached_property
    def directions(self) -> pl.DataFrame:
        """One row per connection and side that sent: ``from_side`` is ``a`` or ``b``."""
        return directions(self.facts["connections"])

    @cached_property
    def streams(self) -> pl.DataFrame:
        """One row per voice stream."""
        return streams(self.facts["streams"])

    @cached_property
    def esp(self) -> pl.DataFrame:
        """One row per ESP flow."""
        return esp(self.facts["esp"])

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row per TCP packet: ``time_ns``, ``seq`` and ``ack`` (counted from the initial ones, carried on
        beyond 32 bits), ``payload_bytes``, ``window_bytes`` (scaled), ``flags``, ``meaning``,
        ``flight_bytes``, ``sack_blocks``, ``tsval`` (null without time stamps).
        """
        return self.scan_segments().collect()

    @cached_property
    def rtt(self) -> pl.DataFrame:
        """One row per round trip of ``from_side``'s data: ``time_ns``, ``rtt_ns``, ``seq``, ``method``."""
        return self.scan_rtt().collect()

    @cached_property
    def sack(self) -> pl.DataFrame:
        """One row per SACK block that ``from_side`` sent: ``left`` to ``right``, ``duplicate``."""
        return self.scan_sack().collect()

    @cached_property
    def periods(self) -> pl.DataFrame:
        """One row per connection, side and period in which it sent: packets, bytes, round trips, flight."""
        return self.scan_periods().collect()

    def scan_segments(self) -> pl.LazyFrame:
        """``segments`` without loading them: for captures that are larger than memory."""
        frame = self._scan("segments")
        for connection, shifts in self._shifts.items():
            factors = (pl.lit(1 << shifts[name], pl.UInt32) for name in ("a", "b"))
            factor = pl.when(pl.col("from_side") == "a").then(next(factors)).otherwise(next(factors))
            is_scaled = (pl.col("connection") == connection) & (pl.col("flags") & _SYN == 0)
            window = pl.col("window_bytes")
            frame = frame.with_columns(pl.when(is_scaled).then(window * factor).otherwise(window))
        return frame

    def scan_rtt(self) -> pl.LazyFrame:
        """``rtt`` without loading it."""
        return self._scan("rtt")

    def scan_sack(self) -> pl.LazyFrame:
        """``sack`` without loading it."""
        return self._scan("sack")

    def scan_periods(self) -> pl.LazyFrame:
        """``periods`` without loading them."""
        return self._scan("periods")

    def segments_of(self, connection: int, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Columns of ``segments`` of one connection, with codes for words; ``tsval`` is NaN without it."""
        return _columns_of(self.scan_segments(), connection, columns)

    def take_segments_of(self, connection: int, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The same, from the files, which keep them."""
        return self.segments_of(connection, columns)

    def rtt_of(self, connection: int) -> dict[str, NDArray[Any]]:
        """Columns of ``rtt`` of one connection, with codes for words."""
        return _columns_of(self.scan_rtt(), connection, ("time_ns", "rtt_ns", "from_side", "method"))

    def sack_of(self, connection: int) -> dict[str, NDArray[Any]]:
        """Columns of ``sack`` of one connection, with codes for words."""
        columns = ("time_ns", "from_side", "left", "right", "duplicate")
        return _columns_of(self.scan_sack(), connection, columns)

    def close(self) -> None:
        """Remove the series if they are in a temporary folder. Safe to call again."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
            self.folder = None

    def _scan(self, name: str) -> pl.LazyFrame:
        if self.folder is None:
            raise InputError(_NO_SERIES)
        return _scanned(self.folder / f"{name}.parquet")


def read(
    paths: PathText | Sequence[PathText],
    *,
    start: Time | None = None,
    end: Time | None = None,
    series: bool | PathText = False,
    **settings: Unpack[TraceSettings],
) -> Trace:
    """Analyse capture files as one capture.

    Parameters
    ----------
    paths
        pcap or pcapng, plain or compressed; of a rotated record all files, in order.
    start, end
        Only packets from ``start`` on and before ``end``; or ``window``.
    series
        True: series for as long as the ``Trace`` is open; a folder: Parquet files there, which stay.
    settings
        ``filter``, ``window``, ``period_ns``, ``decode_as``, ``keep`` and ``rows``, as in
        :class:`~weirlab.trace.analysis.TraceSettings`.

    Raises
    ------
    InputError
        A file cannot be read or is damaged, or an argument is not understood; the message says which.
    """
    settings.setdefault("window", quantities.window(_moment(start, "start"), _moment(end, "end")))
    temporary = tempfile.TemporaryDirectory(prefix="weir-trace-") if series is True else None
    folder = Path(temporary.name) if temporary else Path(series) if not isinstance(series, bool) else None
    try:
        facts = analyse(paths, series=folder, **settings)
    except BaseException:
        if temporary is not None:
            temporary.cleanup()
        raise
    return Trace(facts, folder, temporary, settings.get("period_ns", PERIOD_NS))


def from_folder(folder: PathText, name: str) -> pl.LazyFrame:
    """A table that ``weir trace --series`` wrote: ``segments``, ``rtt``, ``sack``, ``periods``,
    ``connections`` or ``streams``.

    Raises
    ------
    InputError
        There is no such table in ``folder``.
    """
    return _scanned(Path(folder) / f"{name}.parquet")


def to_datetime(column: str) -> pl.Expr:
    """Times in ``column`` (ns since 1970) as dates in UTC, to the nanosecond."""
    return pl.col(column).cast(pl.Datetime("ns", "UTC"))


def _columns_of(frame: pl.LazyFrame, connection: int, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    types = frame.collect_schema()
    found = {
        # Earlier versions wrote no time stamps.
        "tsval": (pl.col("tsval") if "tsval" in types else pl.lit(None)).cast(pl.Float64).fill_null(math.nan),
        **{name: pl.col(name).cast(pl.Enum(words)).to_physical() for name, words in schema.CODES.items()},
    }
    rows = (
        frame.filter(pl.col("connection") == connection)
        .select(found.get(name, pl.col(name)).alias(name) for name in columns)
        .collect()
    )
    # One after the other, because a column in several chunks is copied.
    return {name: rows.drop_in_place(name).to_numpy() for name in columns}


def _scaled(one: Side, shift: int) -> Side:
    window = one["window"]
    return {**one, "window": window and (window[0] << shift, window[1] << shift)}


def _scanned(path: Path) -> pl.LazyFrame:
    if not path.is_file():
        raise InputError(f"{path} does not exist; write it with weir trace FILE --series {path.parent}")
    with files.open_regular(path) as file:
        frame = pl.scan_parquet(file)
    columns = frame.collect_schema()
    named = [
        pl.lit(pl.Series(words, dtype=pl.Enum(words))).gather(pl.col(name)).alias(name)
        for name, words in schema.CODES.items()
        if name in columns and columns[name].is_integer()
    ]
    flags = [pl.col("duplicate").cast(pl.Boolean)] if "duplicate" in columns else []
    return frame.with_columns(*named, *flags)


def _moment(time: Time | None, name: str) -> quantities.Moment | None:
    match time:
        case None:
            return None
        case int():
            return quantities.Moment(time, relative=False)
        case str():
            return quantities.parse_moment(time, name)
        case datetime():
            if time.tzinfo is None:
                raise InputError(f"{name} {time.isoformat()} has no zone; give it one, such as datetime.UTC")
            return quantities.parse_moment(time.isoformat(), name)
