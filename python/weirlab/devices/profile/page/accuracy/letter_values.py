"""Letter values of the models' errors: the table that the letter-value plots draw.

H. Hofmann, H. Wickham and K. Kafadar, "Letter-Value Plots: Boxplots for Large Data", Journal of
Computational and Graphical Statistics 26, 2017: the box of the box plot holds half of the
errors, the next one three quarters, and so on, as long as there are enough errors to know the
box's ends; what lies outside of the last is drawn as points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.model.base import F64
from weirlab.model.score import Deviations
from weirlab.report.numbers import rounded

_Z95: Final = 1.96

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


@dataclass(frozen=True)
class LetterValues:
    """Boxes from the widest to the half, as share of the errors and both ends; the median; the rest."""

    boxes: tuple[tuple[float, float, float], ...]
    median: float
    outside: tuple[float, ...]


def letter_values(values: F64) -> LetterValues:
    """Of finite values with shape (n,), n >= 1.

    Boxes stop where the 95 % confidence interval of the next one's end would reach into the box
    before; with fewer than about a dozen values only the half remains.
    """
    ordered = np.sort(values)
    n = len(ordered)
    deepest = max(math.floor(math.log2(n) - math.log2(2 * _Z95**2)) + 1, 1)
    depth = (1 + n) / 2
    boxes = []
    for i in range(1, deepest + 1):
        depth = (1 + math.floor(depth)) / 2
        boxes.append((1 - 0.5**i, _at_depth(ordered, depth), _at_depth(ordered, n + 1 - depth)))
    _, low, high = boxes[-1]
    outside = ordered[(ordered < low) | (ordered > high)]
    return LetterValues(tuple(reversed(boxes)), float(np.median(ordered)), tuple(map(float, outside)))


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


def _at_depth(ordered: F64, depth: float) -> float:
    """The value at a rank from 1 to n, halves included."""
    return float(0.5 * (ordered[math.floor(depth) - 1] + ordered[math.ceil(depth) - 1]))
