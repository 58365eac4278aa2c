"""The page about a run whose trials alternated between two devices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weirlab.cli.quantities import plural
from weirlab.devices.comparison import turns, wording
from weirlab.devices.comparison.study import ComparisonOutcome, compare_turns
from weirlab.report.figure import Figure
from weirlab.report.rows import RowMark, RowText, intervals
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Table, Tile
from weirlab.store import Run


def page(run: Run) -> Story:
    """The verdict, its intervals, and the change at every setting; ``InputError`` without valid pairs."""
    outcome = compare_turns(run)
    manifest, facts = vars(run.manifest), run.manifest.facts
    names = [str(run.manifest.scenario[side]) for side in turns.SIDES]
    verdict = tuple(wording.tables(outcome)[: 1 + bool(outcome.rates) + bool(outcome.rules_met)])
    settings = Table(
        "Change by setting",
        ("Setting", "Quantity", "Median change", "Pairs"),
        [
            (
                setting.text,
                finding.title,
                wording.change(finding, _shown(finding.quantity, match.difference)),
                f"{len(pairs[finding.quantity]):,}",
            )
            for setting, pairs in turns.differences(run).items()
            for finding in outcome.findings
            for match in finding.matches
            if match.place == setting
        ],
    )
    return Story(
        subject=f"{names[1]} against {names[0]}",
        manifest=manifest,
        simulated=run.simulated,
        answer=wording.answer(outcome),
        lede=(
            *wording.ways_out(outcome),
            "Both were there at once. Trials alternated between them, so that what the host did met both "
            "trials of a pair alike; the change is the median over pairs.",
            *outcome.notes,
        ),
        place=place(manifest, facts["lab"], f"{names[0]} and {names[1]}"),
        tiles=tuple(
            Tile(
                finding.title,
                wording.change(finding, finding.change),
                f"{finding.text}, {wording.interval(finding, outcome.terms.certainty)}",
            )
            for finding in outcome.findings
        ),
        chapters=(
            Chapter("verdict", "Verdict", figures=_figures(outcome, names), tables=verdict),
            Chapter("settings", f"{plural(len(settings.rows), 'change')} by setting", tables=(settings,)),
        ),
        terms=(
            ("forwarding rate", "packets/s that arrive while more are sent than the device can forward"),
            ("mean delay, p99 delay, loss", "at half the rate that both forward"),
            ("margin", "the largest change that counts as none"),
        ),
    )


def _figures(outcome: ComparisonOutcome, names: Sequence[str]) -> tuple[Figure, ...]:
    """The change of each quantity with its interval, around the margin."""
    marks = [
        RowMark(one.title, 100 * one.change, 100 * low, 100 * high, 100 * one.margin)
        for one in outcome.findings
        for low, high, _ in [one.rests_on]
        if math.isfinite(one.change) and math.isfinite(low) and math.isfinite(high)
    ]
    text = RowText(
        "changes",
        "verdict",
        f"{names[1]} against {names[0]}: each change with its interval, around the margin.",
        "Change, %; of loss, percentage points",
        "Point: median over pairs; line: its interval; grey: the margin.",
    )
    return intervals(text, marks)


def _shown(quantity: str, difference: float) -> float:
    return difference if quantity == "loss" else math.expm1(difference)
