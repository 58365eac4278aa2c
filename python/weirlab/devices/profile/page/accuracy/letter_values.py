"""Letter values of the models' errors: the table that the letter-value plots draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from weirlab.model.score import Deviations
from weirlab.report.letters import letter_values
from weirlab.report.numbers import rounded

SCHEMA: Final = {
    "quantity": pl.String,
    "source": pl.String,
    "mark": pl.String,
    "share_percent": pl.Float64,
    "low_percent": pl.Float64,
    "high_percent": pl.Float64,
    "trials": pl.Int64,
}
"""``mark`` is ``box``, ``median`` or ``trial`` (one beyond the last box, ``low`` = ``high``)."""


def table(deviations: Sequence[Deviations], names: dict[str, str]) -> pl.DataFrame:
    """Letter values of the relative errors in percent of the quantities in ``names``, in that order."""
    rows: list[dict[str, Any]] = []
    for key, name in names.items():
        for found in (d for d in deviations if d.quantity == key and not d.extrapolated):
            of = letter_values(100 * found.relative)
            common = {"quantity": name, "source": found.model, "trials": len(found.measured)}
            rows += [
                common | {"mark": "box", "share_percent": rounded(100 * share)} | _ends(low, high)
                for share, low, high in of.boxes
            ]
            rows.append(common | {"mark": "median", "share_percent": None} | _ends(of.median, of.median))
            rows += [
                common | {"mark": "trial", "share_percent": None} | _ends(error, error)
                for error in of.outside
            ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _ends(low: float, high: float) -> dict[str, float | None]:
    return {"low_percent": rounded(low), "high_percent": rounded(high)}
