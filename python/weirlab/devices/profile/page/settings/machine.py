"""Clock, temperature and memory of the machine over the load, where it tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import plural, significant
from weirlab.report.vega import alt

SECTION: Final = "machine"
CHANGED: Final = 0.01
"""Share by which the clock of a trial differs from the median from which on it is marked."""
_FEWEST: Final = 3


@dataclass(frozen=True)
class MachineQuantity:
    """A column of the trials."""

    column: str
    name: str
    unit: str
    factor: float = 1.0


QUANTITIES: Final = (
    MachineQuantity("frequency_mhz", "Clock of the CPU", "MHz"),
    MachineQuantity("temperature_c", "Temperature of the CPU", "°C"),
    MachineQuantity("memory_used_bytes", "Memory in use", "MB", 1e-6),
)


def figures(evidence: ProfileEvidence) -> Iterator[Figure]:
    """A chart for each quantity that the machine tells."""
    if evidence.simulated:
        return
    for what in QUANTITIES:
        if what.column not in evidence.profile.columns:
            continue
        known = evidence.profile.filter(pl.col(what.column).is_not_null())
        if known.height < _FEWEST:
            continue
        frame = known.select(
            load_kpps=(pl.col("achieved_pps") / 1e3).round_sig_figs(4),
            value=(pl.col(what.column).cast(pl.Float64) * what.factor).round_sig_figs(6),
            clock=clock(known),
        ).sort("load_kpps")
        yield Figure(
            f"machine-{what.column.partition('_')[0]}",
            SECTION,
            what.name,
            _takeaway(frame, what),
            "A point for each trial of the profile; crosses: trials whose clock is 1 % off, or more.",
            f"{what.name} over the load.",
            _chart(frame, what),
            frame,
        )


def clock(trials: pl.DataFrame) -> pl.Expr:
    """``other`` for trials whose clock differs from the median by a hundredth or more, else ``usual``."""
    if "frequency_mhz" not in trials.columns:
        return pl.lit("usual")
    own = pl.col("frequency_mhz")
    off = (own / own.median() - 1).abs() >= CHANGED
    return pl.when(off).then(pl.lit("other")).otherwise(pl.lit("usual"))


def _takeaway(frame: pl.DataFrame, what: MachineQuantity) -> str:
    low, high = axes.extent(frame, "value")
    span = f"{what.name}: {significant(low, 4)} to {significant(high, 4)} {what.unit}"
    others = int((frame["clock"] == "other").sum())
    if what.column != "frequency_mhz" or not others:
        return f"{span}."
    return f"{span}; {plural(others, 'trial')} ran at another clock."


def _chart(frame: pl.DataFrame, what: MachineQuantity) -> alt.Chart:
    marks = ["usual", "other"]
    low, high = axes.extent(frame, "value")
    room = max(0.05 * (high - low), 0.002 * high, 0.5)
    drawn: alt.Chart = (
        alt.Chart(axes.data(frame))
        .mark_point(filled=True, size=36, opacity=0.8)
        .encode(
            x=alt.X("load_kpps:Q", title="Offered load, kpps", axis=axes.number_axis(6)),
            y=alt.Y(
                "value:Q", title=f"{what.name}, {what.unit}", **axes.numbers((low - room, high + room), 5)
            ),
            color=axes.colour("clock", marks, palette.models(2), "Clock"),
            shape=axes.shape("clock", marks, ["circle", "cross"], "Clock"),
            tooltip=[
                alt.Tooltip("load_kpps:Q", title="kpps", format=",.4~g"),
                alt.Tooltip("value:Q", title=what.unit, format=",.6~g"),
                alt.Tooltip("clock:N", title="clock"),
            ],
        )
        .properties(**axes.framed(200))
    )
    return drawn
