"""All sources side by side: a row per period, a column per source and characteristic; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from weirlab.base.errors import InputError
from weirlab.trace.times import Window

USUAL: Final = ("throughput_bps", "rtt_us", "snd_cwnd", "snd_wnd_bytes", "notsent_bytes", "total_retrans")
RECEIVING: Final = ("throughput_bps", "rqueue_bytes", "rcv_wnd_bytes")
CAPTURED: Final = (
    "throughput_bps", "flight_bytes", "cwnd_bytes", "window_bytes", "rtt_us", "retransmissions",
    "duplicate_acks",
)  # fmt: skip
CAPTURES: Final[Mapping[str, str]] = {
    "client": "capture",
    "server": "server_capture",
    "between": "between_capture",
}
"""The names of captures, by the end at which they were made."""


def axis(
    sources: Mapping[str, pl.DataFrame], chosen: Mapping[str, Sequence[str]], period_ns: int, start_ns: int
) -> pl.DataFrame:
    """One row per period of ``period_ns`` from ``start_ns`` on.

    Parameters
    ----------
    sources
        Tables with ``time_ns`` and characteristics, by name. The last value in a period counts;
        ``app_bytes`` and ``acked_bytes`` become ``throughput_bps``.
    chosen
        Which characteristics of which source, in order.

    Returns
    -------
    polars.DataFrame
        ``time_ns`` (the beginning of the period, since 1970), then ``source.characteristic``; null if a
        source reported nothing in a period.
    """
    parts = [
        _periods(rows, name, chosen.get(name, ()), period_ns, start_ns) for name, rows in sources.items()
    ]
    if not parts:
        return pl.DataFrame(schema={"time_ns": pl.Int64})
    found = parts[0]
    for part in parts[1:]:
        found = found.join(part, on="period", how="full", coalesce=True)
    found = found.sort("period").with_columns((pl.col("period") * period_ns + start_ns).alias("time_ns"))
    # The handshake is before the start.
    found = found.filter(pl.col("period") >= 0)
    names = [name for name in found.columns if name not in ("period", "time_ns")]
    return found.select("time_ns", *names)


def within(table: pl.DataFrame, window: Window, start_ns: int) -> pl.DataFrame:
    """The periods of ``table`` that begin in ``window``.

    Raises
    ------
    InputError
        There is none.
    """
    first, last = _limits(window, start_ns)
    found = table.filter(pl.col("time_ns") >= first, pl.col("time_ns") < last)
    if found.is_empty():
        raise InputError("nothing was measured between --from and --to")
    return found


def coarser(table: pl.DataFrame, period_ns: int, start_ns: int) -> pl.DataFrame:
    """``table`` with one row per ``period_ns``: throughput is averaged, otherwise the last value counts."""
    names = [name for name in table.columns if name != "time_ns"]
    merged = [
        pl.col(name).mean() if name.endswith("_bps") else pl.col(name).drop_nulls().last() for name in names
    ]
    period = ((pl.col("time_ns") - start_ns) // period_ns * period_ns + start_ns).alias("time_ns")
    return table.group_by(period, maintain_order=True).agg(merged)


def _limits(window: Window, start_ns: int) -> tuple[int, int]:
    add = start_ns if window.relative else 0
    first = -(1 << 62) if window.from_ns is None else window.from_ns + add
    last = 1 << 62 if window.to_ns is None else window.to_ns + add
    return first, last


def _periods(
    rows: pl.DataFrame, name: str, chosen: Sequence[str], period_ns: int, start_ns: int
) -> pl.DataFrame:
    counter = next((each for each in ("app_bytes", "acked_bytes") if each in rows.columns), None)
    period = ((pl.col("time_ns") - start_ns) // period_ns).alias("period")
    kept = [each for each in chosen if each in rows.columns]
    wanted = [pl.col(each).drop_nulls().last().alias(f"{name}.{each}") for each in kept]
    if counter is not None and "throughput_bps" in chosen:
        wanted.insert(0, pl.col(counter).drop_nulls().last().alias("counted"))
    found = rows.sort("time_ns").group_by(period, maintain_order=True).agg(wanted)
    if "counted" not in found.columns:
        return found
    # There are gaps: periods without any report, or with a report of something else.
    counted = pl.col("counted").cast(pl.Int64).forward_fill().fill_null(0)
    grown = counted.diff().fill_null(counted)
    # What an end has counted by its first report, it has since the start; a capture may begin at any time.
    first = pl.col("period").clip(0) + 1 if counter == "app_bytes" else 1
    lasted = pl.col("period").diff().fill_null(first) * period_ns
    throughput = (grown * 8e9 / lasted).alias(f"{name}.throughput_bps")
    others = [column for column in found.columns if column not in ("period", "counted")]
    return found.select("period", throughput, *others)
