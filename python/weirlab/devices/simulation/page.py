"""The page: delay and loss over the quantity with the most values, a line for each of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import polars as pl

from weirlab.base.errors import InputError
from weirlab.devices.simulation import study
from weirlab.devices.simulation.findings import SimulationFindings, SimulationRow
from weirlab.jobs.progress import RESUME
from weirlab.report import axes
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.report.vega import alt
from weirlab.store import Run

_AXES: Final[dict[str, tuple[str, Callable[[SimulationRow], float]]]] = {
    "load": ("Offered load, kpps", lambda row: row.rate_pps / 1e3),
    "rules": ("Matching position", lambda row: float(row.rules)),
    "frame": ("Frame size, bytes", lambda row: float(row.frame_bytes)),
}
_QUANTITIES: Final[dict[str, tuple[str, Callable[[SimulationRow], float]]]] = {
    "p99": ("99th percentile of the delay, µs", lambda row: row.delay_p99_ns / 1e3),
    "loss": ("Loss, %", lambda row: 100 * row.loss_ratio),
}
_MOST_LINES: Final = 12


def page(run: Run) -> Story:
    """The page about ``run``."""
    found = study.stored(run)
    if not found.rows:
        raise InputError(f"run {run.run_id} was interrupted too early: go on with {RESUME} {run.run_id}")
    manifest = run.manifest
    return Story(
        subject=f"{manifest.facts.get('dut', 'a device')}, simulated",
        manifest=vars(manifest),
        simulated=True,
        answer=found.sentence,
        place=place(vars(manifest), "sim", str(manifest.facts.get("dut", ""))),
        tiles=(Tile("simulations", f"{len(found.rows):,}", f"by {found.asked.simulator}"),),
        chapters=(
            Chapter("sweep", "Delay and loss", "Sweep", figures=tuple(_figures(found)), details=found.tables),
        ),
        terms=(("Matching position", "Rules compared up to and including the one that matches."),),
    )


def _figures(found: SimulationFindings) -> Iterator[Figure]:
    rows = found.combinations
    values = {name: {of(row) for row in rows} for name, (_, of) in _AXES.items()}
    over = max(values, key=lambda name: len(values[name]))
    others = [name for name in values if name != over and len(values[name]) > 1]
    title, x = _AXES[over]

    def line(row: SimulationRow) -> str:
        return ", ".join(f"{name} {_AXES[name][1](row):g}" for name in others) or "all"

    lines = list(dict.fromkeys(map(line, rows)))
    shown = lines[:: -(-len(lines) // _MOST_LINES)]
    for key, (name, y) in _QUANTITIES.items():
        points = [
            {"setup": line(row), "x": rounded(x(row)), "y": rounded(y(row))}
            for row in rows
            if line(row) in shown and y(row) == y(row)
        ]
        data = pl.DataFrame(points, schema={"setup": pl.String, "x": pl.Float64, "y": pl.Float64})
        chart = (
            alt.Chart(axes.data(data))
            .mark_line(point=True)
            .encode(
                alt.X("x:Q", title=title, axis=axes.number_axis(5)),
                alt.Y("y:Q", title=name, scale=alt.Scale(zero=True), axis=axes.number_axis(5)),
                axes.setup_colour(shown, ""),
                axes.setup_shape(shown, ""),
            )
            .properties(**axes.framed(260))
        )
        cut = "" if len(shown) == len(lines) else f"{len(shown)} of {len(lines)} lines are shown."
        yield Figure(key, "sweep", "", f"{name} over {over}", cut, f"{name} over {title}", chart, data)
