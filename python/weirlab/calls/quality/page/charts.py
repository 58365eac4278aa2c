"""The charts: a quantity of every stream, by name where there are few, else over the time of the capture."""

from __future__ import annotations

from typing import Final

import polars as pl

from weirlab.report import axes, palette
from weirlab.report.axes import Domain
from weirlab.report.vega import alt

NAMED: Final = 16
"""Up to this many streams have a row each, with their name."""
OTHERS: Final = "other codecs"
_COLOURS: Final = 3


def codecs(streams: pl.DataFrame) -> list[str]:
    """The codecs of most streams, so many as there are colours to tell apart, then the rest as one."""
    by_size = streams["codec"].value_counts(sort=True)["codec"].to_list()
    return by_size if len(by_size) <= _COLOURS else [*by_size[: _COLOURS - 1], OTHERS]


def over_streams(
    frame: pl.DataFrame, title: str, domain: Domain, kinds: list[str], *, limit: float | None = None
) -> alt.LayerChart:
    """``value`` of every stream of ``frame``; a dashed line at ``limit``."""
    scale = axes.linear(domain)
    value = alt.Axis(format=",~g", tickCount=6)
    base, marked = alt.Chart(axes.data(frame)), _marked(kinds, title)
    if frame.height <= NAMED:
        names = frame["row"].to_list()
        y = axes.rows(names)
        line = base.mark_rule(color=palette.LIGHT["soft"], strokeWidth=1, yOffset=10).encode(
            y=y, x=alt.X("floor:Q", title=title, scale=scale, axis=value), x2="value:Q"
        )
        x = alt.X("value:Q", title=title, scale=scale, axis=value)
        dots = base.mark_point(size=70, opacity=1, yOffset=10).encode(y=y, x=x, **marked)
        layers = [line, axes.row_names(base, y), dots]
        height = axes.ROW * len(names)
    else:
        times = axes.linear((0.0, float(axes.extent(frame, "end_s")[1])))
        begin = alt.X("begin_s:Q", title="Time in the capture, s", scale=times, axis=axes.number_axis(6))
        height_of = alt.Y("value:Q", title=title, scale=scale, axis=value)
        layers = [
            base.mark_rule(strokeWidth=1.2).encode(
                x=begin, x2="end_s:Q", y=height_of, color=marked["color"], tooltip=marked["tooltip"]
            ),
            base.mark_point(size=34, opacity=0.9).encode(x=begin, y=height_of, **marked),
        ]
        height = 300
    if limit is not None:
        layers.insert(0, axes.limit("x" if frame.height <= NAMED else "y", "limit", limit, scale))
    return alt.LayerChart(layer=layers, **axes.framed(height))


def _marked(kinds: list[str], title: str) -> dict[str, alt.SchemaBase | list[alt.Tooltip]]:
    """Colour and shape by codec, and what pointing at a mark tells."""
    legend = alt.Legend(symbolOpacity=1)
    return {
        "color": axes.colour("kind", kinds, palette.models(len(kinds)), "Codec", legend),
        "shape": axes.shape("kind", kinds, title="Codec", legend=legend),
        "tooltip": [
            alt.Tooltip("stream:Q", title="stream"),
            alt.Tooltip("ends:N", title="from > to"),
            alt.Tooltip("codec:N", title="codec"),
            alt.Tooltip("value:Q", title=title, format=",.4~g"),
        ],
    }
