"""Few points for many packets: a line keeps its extremes, so that no peak is lost."""

from __future__ import annotations

from typing import Final

import polars as pl

COLUMNS: Final = 4000
"""More columns than a screen has pixels across, so that nothing is lost before zooming in."""

MOST_EVENTS: Final = 5000
"""Up to this many events are kept one by one; of more, every n-th."""


def spans(rows: pl.LazyFrame, low: str, high: str, columns: int = COLUMNS) -> pl.DataFrame:
    """From the least of ``low`` to the greatest of ``high``, with the mean of ``high``, per column of time.

    ``rows`` has ``time_ns``. Up to ``columns`` rows are left as they are. Returns ``time_ns`` (the first of a
    column), ``low``, ``high`` and ``mean``, in order of time.
    """
    extent = rows.select(n=pl.len(), first=pl.col("time_ns").min(), last=pl.col("time_ns").max()).collect()
    number, first, last = extent.row(0)
    if number <= columns:
        alike = {"low": pl.col(low), "high": pl.col(high), "mean": pl.col(high).cast(pl.Float64)}
        return rows.select("time_ns", **alike).sort("time_ns").collect()
    # Integers: a float of ns since 1970 is no longer exact to the nanosecond.
    width_ns = (last - first) // columns + 1
    column = (pl.col("time_ns") - first) // width_ns
    return (
        rows.group_by(column=column)
        .agg(
            pl.col("time_ns").min(),
            low=pl.col(low).min(),
            high=pl.col(high).max(),
            mean=pl.col(high).mean(),
        )
        .sort("column")
        .drop("column")
        .collect()
    )


def events(rows: pl.DataFrame, most: int = MOST_EVENTS) -> pl.DataFrame:
    """All rows, or every n-th if there are more than ``most``, in order of time."""
    return rows.sort("time_ns").gather_every(max(1, -(-len(rows) // most)))
