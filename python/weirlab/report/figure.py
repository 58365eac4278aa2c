"""A chart with everything that goes with it: sentence, caption, description and data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from weirlab.report import palette
from weirlab.report.axes import QUANTITIES, Chart


@dataclass(frozen=True)
class Figure:
    """One chart with everything that goes with it. ``title`` is the takeaway, a full sentence."""

    key: str
    """Stem of file names and ID in the page."""
    section: str
    panel: str
    """What tells it from its neighbours in the section: frame size, rule count."""
    title: str
    caption: str
    alt: str
    chart: Chart
    data: pl.DataFrame
    switchable: bool = False
    """Whether the page's switch between median, p99 and mean applies."""

    def titled(self) -> Chart:
        """The chart with style, title and (as subtitle) panel, for notebooks."""
        content = self.standalone()
        # Vega-Lite takes it, the schema that Altair checks against does not know it.
        del content["config"]["legend"]["layout"]
        return type(self.chart).from_dict(content)

    def standalone(self) -> dict[str, Any]:
        """As :meth:`titled`, as Vega-Lite JSON."""
        shown = f"{self.panel}; shown: {next(iter(QUANTITIES.values())).lower()}"
        content = self.chart.to_dict()
        subtitle = shown if self.switchable else self.panel
        content["title"] = {"text": _wrapped(self.title), "subtitle": subtitle}
        content["config"] = palette.chart_config()
        return content


def _wrapped(text: str, width: int = 72) -> list[str]:
    """Lines for a chart's title, which does not wrap by itself."""
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
