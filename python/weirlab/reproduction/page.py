"""The page about a reproduction: a chapter for each experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.base.quantities import plural
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.report.rows import RowMark, RowText, intervals
from weirlab.report.story import Chapter, Story
from weirlab.report.tables import Tile
from weirlab.reproduction import tables
from weirlab.reproduction.contract import ReproductionRow
from weirlab.reproduction.findings import ExperimentDisplay, ReproductionFindings
from weirlab.store import Run

MOST_RATIOS: Final = 12
"""Rows of the first chart."""


def page(
    run: Run,
    found: ReproductionFindings,
    shown: Mapping[str, ExperimentDisplay],
) -> Story:
    """The page; each experiment with its claims and values, and what else is ``shown`` of it."""
    about = found.about
    claims = Counter(row.verdict for row in found.claims)
    tiles = (
        Tile("claims hold", str(claims["holds"]), f"of {len(found.claims)}"),
        Tile("claims differ", str(claims["differs"]), "measured here, and not so"),
        Tile("cannot be decided", str(claims["cannot tell"]), "too few or too scattered measurements"),
        Tile("cannot be had here", str(claims["not here"]), "with the reason"),
    )
    chapters = [
        _chapter(
            published,
            [row for row in found.rows if row.experiment == key],
            shown.get(key, ExperimentDisplay()),
        )
        for key, published in about.experiments.items()
    ]
    return Story(
        subject=f"{about.title}, repeated",
        manifest=vars(run.manifest),
        simulated=False,
        answer=found.verdicts(),
        lede=(about.citation,),
        caution="" if not found.left else f"{plural(found.left, 'scenario')} not yet measured.",
        place="",
        tiles=tiles,
        chapters=(
            Chapter("ratios", "Measured here, and published", "Ratios", figures=ratios(found), missing=""),
            Chapter(
                "deviations",
                "How this differs from what was published",
                "differences",
                said=tuple(found.remarks),
            ),
            *(chapter for chapter in chapters if not chapter.empty),
        ),
        terms=(
            ("holds, differs", "a test of the shape of what was measured here; the test is in the table"),
            ("–", "shown beside the published value and not judged: it is the hardware's"),
        ),
    )


def ratios(found: ReproductionFindings) -> tuple[Figure, ...]:
    """The values here as shares of those published: what was measured comes first."""
    rows = sorted((row for row in found.rows if row.ratio > 0), key=lambda row: row.kind != "measured")
    marks = [
        RowMark(name, row.ratio, min(row.ratio, 1.0), max(row.ratio, 1.0))
        for name, row in zip(_names(rows), rows, strict=True)
    ]
    shown = marks[:MOST_RATIOS]
    left = len(marks) - len(shown)
    text = RowText(
        "here-to-published",
        "ratios",
        f"Of {plural(len(marks), 'value')}, {sum(abs(one.value - 1) <= 0.1 for one in marks)} are "
        "within 10 % of what was published.",
        "Here, as a multiple of the published value",
        "The line leads to 1, the published value." + (f" {left} more are in the tables." if left else ""),
    )
    return intervals(text, shown, log=True)


def _names(rows: Sequence[ReproductionRow]) -> list[str]:
    """What the value of each row is, with its experiment and its key as far as these tell it from others."""
    ways = (
        [row.what for row in rows],
        [f"{row.what} ({row.experiment})" for row in rows],
        [f"{row.what} ({row.experiment}, {row.key})" for row in rows],
    )
    times = [Counter(names) for names in ways]
    return [
        next(name for name, found in zip(names, times, strict=True) if found[name] == 1)
        for names in zip(*ways, strict=True)
    ]


def _chapter(
    published: PublishedExperiment,
    rows: list[ReproductionRow],
    shown: ExperimentDisplay,
) -> Chapter:
    made = tables.tables(rows)
    return Chapter(
        published.key,
        published.question,
        published.key,
        intro=published.where,
        figures=shown.figures,
        tables=(*(table for table in made if not table.details), *shown.tables),
        details=tuple(table for table in made if table.details),
        drawing=shown.drawing,
    )
