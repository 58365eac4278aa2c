"""Tables of a reproduction, for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weirlab.base.quantities import NOTHING, significant
from weirlab.base.tables import Table
from weirlab.reproduction.contract import ReproductionRow

if TYPE_CHECKING:
    from weirlab.reproduction.findings import ReproduciblePublication

VERDICTS: Final = {
    "holds": "holds",
    "differs": "differs",
    "cannot tell": "cannot tell",
    "beside": NOTHING,
    "not here": "not here",
}
CLAIMS: Final = ("Claim", "Verdict", "Found here", "Test")
VALUES: Final = ("Value", "Published", "Here", "Ratio", "Verdict", "Where")


def tables(rows: Sequence[ReproductionRow]) -> Sequence[Table]:
    """The claims, and the values that have a value here; then what cannot be had here, as details."""
    claims = [row for row in rows if row.kind == "claim" and row.verdict != "not here"]
    values = [row for row in rows if row.kind != "claim" and row.verdict != "not here"]
    absent = [row for row in rows if row.verdict == "not here"]
    made = (
        Table("Claims", CLAIMS, [_claim(row) for row in claims], spare=("Test",)),
        Table("Values", VALUES, [_value(row) for row in values], spare=("Where", "Verdict")),
        Table(
            "Not here",
            ("Value or claim", "Published", "Why", "Where"),
            [(row.what, _published(row), row.found, row.where) for row in absent],
            spare=("Where",),
            details=True,
        ),
    )
    return [table for table in made if table.rows]


def _claim(row: ReproductionRow) -> tuple[str, ...]:
    return (row.what, VERDICTS[row.verdict], row.found, row.rule)


def _value(row: ReproductionRow) -> tuple[str, ...]:
    here = NOTHING if math.isnan(row.here) else f"{significant(row.here)} {row.unit}".rstrip()
    ratio = NOTHING if math.isnan(row.ratio) else significant(row.ratio)
    return (row.what, _published(row), here, ratio, VERDICTS[row.verdict], row.where)


def _published(row: ReproductionRow) -> str:
    return f"{row.published} {row.unit}".strip() or NOTHING


def overview(listed: Sequence[ReproduciblePublication]) -> Sequence[Table]:
    """The publications, for ``weir reproduce`` without an argument, and what of them is not made here."""
    columns = ("Publication", "Title", "Experiments here", "Claims", "Values", "Quick", "Full")
    rows = [
        (
            each.about.key,
            each.about.title,
            f"{len(each.made)} of {len(each.about.experiments)}",
            str(sum(len(experiment.claims) for experiment in each.about.experiments.values())),
            str(sum(len(experiment.values) for experiment in each.about.experiments.values())),
            each.quick.cell,
            each.full.cell,
        )
        for each in listed
    ]
    absent = [(each.about.key, key, why) for each in listed for key, why in each.left_out.items()]
    return (
        Table("", columns, rows, spare=("Title", "Values", "Claims")),
        Table("Experiments that are not made here", ("Publication", "Experiment", "Why"), absent),
    )
