"""What connection tracking, a management session and several positions cost, trial against trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weirlab.cli.results import tables
from weirlab.model.effects import Effect
from weirlab.report.figure import Figure
from weirlab.report.numbers import significant
from weirlab.report.rows import RowMark, RowText, intervals
from weirlab.report.story import Chapter

SECTION: Final = "beside"
_SHOWN: Final = {"delay_mean_ns": "mean delay", "forwarding_pps": "forwarding rate"}
"""Below the threshold the one, in overload the other."""


def chapter(found: Sequence[Effect]) -> Chapter:
    """A row for each effect, and all of them as a table."""
    return Chapter(
        SECTION,
        "Tracking, a management session, several positions",
        "Beside",
        figures=figures(found),
        details=tuple(tables.effects(found)),
        folded=True,
    )


def figures(found: Sequence[Effect]) -> tuple[Figure, ...]:
    """Ratios with their intervals."""
    shown = [each for each in found if each.quantity in _SHOWN]
    marks = [
        RowMark(
            _name(each),
            each.ratio,
            each.ratio if math.isnan(each.low) else each.low,
            each.ratio if math.isnan(each.high) else each.high,
        )
        for each in shown
    ]
    if not marks:
        return ()
    most = max(marks, key=lambda mark: abs(math.log(mark.value)))
    text = RowText(
        "beside-grid",
        SECTION,
        f"Largest effect: {most.row}, {significant(most.value)} times that without.",
        "With it, as a multiple of that without",
        "At the same loads; the line is the 95 % interval, from the scatter of the repetitions.",
    )
    return intervals(text, marks, log=True)


def _name(each: Effect) -> str:
    where = each.places or f"{each.position:g} rules"
    return f"{each.kind}, {where}: {_SHOWN[each.quantity]}"
