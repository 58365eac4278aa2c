"""The page about a campaign: the ranking, and small multiples of every measure."""

from __future__ import annotations

from itertools import groupby
from typing import Final

import polars as pl

from weirlab.base.quantities import plural
from weirlab.campaigns import study, tables
from weirlab.campaigns.ranking import ALIKE, RISK, MeasureRow
from weirlab.campaigns.study import CampaignFindings
from weirlab.jobs.status import status_of
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.story import Chapter, Story
from weirlab.report.tables import Tile
from weirlab.report.vega import alt
from weirlab.store import Run

MOST_FIGURES: Final = 60
_SCALES: Final = {"ns": (1e-3, "µs"), "pps": (1e-3, "kpps"), "bps": (1e-6, "Mbit/s"), "ratio": (100.0, "%")}
"""Factor and unit of an axis."""


def page(run: Run) -> Story:
    """The page; the numbers of a step are beside those of the other devices, setting by setting."""
    found = study.stored(run)
    what = "Device" if found.by_device else "Setting"
    ranked = [table for table in tables.tables(found) if table.caption != "Steps without a result"]
    failed = [table for table in tables.tables(found) if table.caption == "Steps without a result"]
    beds = tables.testbeds(found.steps), tables.quarantines(status_of(run))
    figures = _figures(found)
    left_out = "" if len(figures) <= MOST_FIGURES else f"{len(figures) - MOST_FIGURES} more are not drawn."
    return Story(
        subject=str(run.manifest.scenario["name"]),
        manifest=vars(run.manifest),
        simulated=found.simulated,
        answer=found.sentence,
        lede=(),
        caution="",
        place="",
        tiles=(
            Tile("steps measured", str(len(found.steps) - len(found.problems)), f"of {found.planned:,}"),
            Tile("steps without a result", str(len(found.problems)), "with the reason"),
            Tile(
                "test beds", str(len({row.host for row in found.steps if row.host})), "machines that measured"
            ),
        ),
        chapters=(
            Chapter(
                "ranking", "Which are best", "Ranking", tables=tuple(ranked), missing="Nothing to compare."
            ),
            Chapter(
                "measures",
                f"What each {what.lower()} did",
                "Measures",
                figures=tuple(figures[:MOST_FIGURES]),
                note=left_out,
            ),
            Chapter(
                "steps",
                "The steps",
                "Steps",
                intro=f"Each step is a run in the folder steps of run {run.run_id}.",
                tables=tuple(table for table in (*beds, *failed) if table.rows),
                details=(tables.steps(found.steps),),
            ),
        ),
        terms=(
            (
                "worse",
                "differs from the best of the comparison by Welch's test over repetitions; the risk of a "
                f"false difference between any two of a comparison is {RISK:.0%} (Holm)",
            ),
            ("as good", f"the 95 % interval of its difference from the best is within {ALIKE:.0%}"),
            ("cannot tell", "neither a difference nor that is proved: more repetitions may decide"),
        ),
    )


def _figures(found: CampaignFindings) -> list[Figure]:
    def multiple(row: MeasureRow) -> tuple[str, str]:
        return row.scenario, row.measure

    rows = sorted(found.measures, key=lambda row: (*multiple(row), row.setting, row.device, row.step))
    figures: list[Figure] = []
    for (scenario, measure), group in groupby(rows, multiple):
        members = list(group)
        factor, unit = _SCALES[members[0].unit]
        highest = max(row.value for row in members) * factor
        panels = groupby(members, lambda row: row.setting if found.by_device else "")
        for panel, own in panels:
            values = [
                {
                    "row": row.device if found.by_device else row.setting,
                    "value": rounded(row.value * factor),
                    "repetition": row.repetition + 1,
                }
                for row in own
            ]
            title = f"{scenario}: {measure}."
            figures.append(
                _figure(f"measure-{len(figures)}", panel, title, unit, highest, pl.DataFrame(values))
            )
    return figures


def _figure(key: str, panel: str, title: str, unit: str, highest: float, data: pl.DataFrame) -> Figure:
    """One of the small multiples; all of a measure have the same axis, up to ``highest``."""
    names = data["row"].unique(maintain_order=True).to_list()
    base = alt.Chart(axes.data(data))
    y = axes.rows(names)
    x = alt.X("value:Q", title=unit, scale=axes.linear((0.0, highest or 1.0), nice=True))
    points = base.mark_point(size=60, filled=True, yOffset=10, color=palette.LIGHT["model-a"]).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("row:N", title="what"),
            alt.Tooltip("value:Q", title=unit, format=",.4~g"),
            alt.Tooltip("repetition:Q", title="repetition"),
        ],
    )
    layers = [axes.row_names(base, y), points]
    chart = alt.LayerChart(layer=layers, **axes.framed(axes.ROW * len(names)))
    described = f"{title} A row for each of {', '.join(names)}, a point for each repetition, in {unit}."
    caption = f"One point for each repetition; {plural(len(names), 'row')}."
    return Figure(key, "measures", panel, title, caption, described, chart, data)
