"""Letter values: the boxes of a box plot, as far out as the number of values allows.

H. Hofmann, H. Wickham and K. Kafadar, "Letter-Value Plots: Boxplots for Large Data", Journal of
Computational and Graphical Statistics 26, 2017: the box of the box plot holds half of the values, the next
one three quarters, and so on, as long as there are enough values to know the box's ends; what lies outside
of the last is drawn as points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.rows import RowText
from weirlab.report.vega import alt

F64 = npt.NDArray[np.float64]

_Z95: Final = 1.96
_BELOW: Final = 10
"""Pixels from the middle of a row to its marks: the name stands above."""
_THICKEST: Final = 20
"""Pixels of the innermost box; each further one has ``_THINNER`` of it."""
_THINNER: Final = 0.78
_PALE: Final = 0.25
_MOST: Final = 7
"""Boxes of a histogram: more cannot be told apart."""


@dataclass(frozen=True)
class LetterValues:
    """Boxes from the widest to the half, as share of the values and both ends; the median; the rest."""

    boxes: tuple[tuple[float, float, float], ...]
    median: float
    outside: tuple[float, ...] = ()


def letter_values(values: F64) -> LetterValues:
    """Of finite values with shape (n,), n >= 1.

    Boxes stop where the 95 % confidence interval of the next one's end would reach into the box
    before; with fewer than about a dozen values only the half remains.
    """
    ordered = np.sort(values)
    n = len(ordered)
    depth = (1 + n) / 2
    boxes = []
    for i in range(1, _letters(n) + 1):
        depth = (1 + math.floor(depth)) / 2
        boxes.append((1 - 0.5**i, _at_depth(ordered, depth), _at_depth(ordered, n + 1 - depth)))
    _, low, high = boxes[-1]
    outside = ordered[(ordered < low) | (ordered > high)]
    return LetterValues(tuple(reversed(boxes)), float(np.median(ordered)), tuple(map(float, outside)))


def of_histogram(upper: F64, count: F64) -> LetterValues:
    """Of as many values as ``count`` says up to each ``upper`` end of a bin; at least one.

    A box ends at the end of its bin; what lies outside of the last box is left out.
    """
    reached = np.cumsum(count)
    n = float(reached[-1])

    def quantile(share: float) -> float:
        return float(upper[np.searchsorted(reached, share * n, side="left")])

    boxes = [
        (1 - 0.5**i, quantile(0.5 ** (i + 1)), quantile(1 - 0.5 ** (i + 1)))
        for i in range(1, min(_letters(round(n)), _MOST) + 1)
    ]
    return LetterValues(tuple(reversed(boxes)), quantile(0.5))


def _letters(n: int) -> int:
    """How many boxes ``n`` values allow."""
    return max(math.floor(math.log2(n) - math.log2(2 * _Z95**2)) + 1, 1)


def _at_depth(ordered: F64, depth: float) -> float:
    """The value at a rank from 1 to n, halves included."""
    return float(0.5 * (ordered[math.floor(depth) - 1] + ordered[math.ceil(depth) - 1]))


def boxes(text: RowText, found: Mapping[str, LetterValues], *, log: bool = False) -> tuple[Figure, ...]:
    """A row of boxes for each of ``found``: the thickest holds half of the values; nothing without any."""
    rows: list[dict[str, Any]] = []
    for name, values in found.items():
        spans = [(share, low, high) for share, low, high in values.boxes]
        spans += [(0.0, values.median, values.median), *((-1.0, one, one) for one in values.outside)]
        rows += [
            {"row": name, "share": rounded(100 * share), "low": rounded(low), "high": rounded(high)}
            for share, low, high in spans
        ]
    if not rows:
        return ()
    data = pl.DataFrame(rows, infer_schema_length=None)
    base, y = alt.Chart(axes.data(data)), axes.rows(list(found))
    low, high = axes.extent(data, "low", "high")
    if log:
        domain = axes.log_domain(low, high)
        scale, axis = axes.log(domain), axes.log_axis(domain)
    else:
        constant = max(abs(low), abs(high)) / 50
        scale = alt.Scale(type="symlog", constant=max(constant, 1e-9), domain=[low, high], nice=True)
        axis = axes.number_axis(5)
    x = alt.X("low:Q", title=text.x, scale=scale, axis=axis)
    tooltip = [
        alt.Tooltip("row:N", title="of"),
        alt.Tooltip("share:Q", title="share, %", format=".4~g"),
        alt.Tooltip("low:Q", title="from", format=",.4~g"),
        alt.Tooltip("high:Q", title="to", format=",.4~g"),
    ]
    colour = palette.LIGHT["model-a"]
    shares = sorted({share for values in found.values() for share, _, _ in values.boxes}, reverse=True)
    layers = [
        # The half is thickest. The boxes are pale: their edges are not.
        base.transform_filter(f"datum.share === {rounded(100 * share)}")
        .mark_bar(
            height=_THICKEST * _THINNER ** (len(shares) - 1 - place),
            yOffset=_BELOW,
            fill=colour,
            stroke=colour,
            strokeWidth=0.8,
            fillOpacity=_PALE,
            opacity=1,
        )
        .encode(x=x, x2="high:Q", y=y, tooltip=tooltip)
        for place, share in enumerate(shares)
    ]
    layers += [
        base.transform_filter("datum.share === 0")
        .mark_tick(height=24, thickness=2, yOffset=_BELOW, color=palette.LIGHT["model-b"])
        .encode(x=x, y=y, tooltip=tooltip),
        base.transform_filter("datum.share < 0")
        .mark_point(size=20, yOffset=_BELOW, color=colour)
        .encode(x=x, y=y),
        axes.row_names(base, y),
    ]
    chart = alt.LayerChart(layer=layers, **axes.framed(axes.ROW * len(found)))
    described = f"{text.x}: letter-value boxes for each of {', '.join(found)}."
    return (Figure(text.key, text.section, "", text.title, text.caption, described, chart, data),)
