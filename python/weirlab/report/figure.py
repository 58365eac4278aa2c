"""A chart with everything that goes with it: sentence, caption, description and data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from weirlab.report import interaction, palette, spec
from weirlab.report.axes import QUANTITIES, Chart


@dataclass(frozen=True)
class Figure:
    """One chart with everything that goes with it. ``title`` is the takeaway, a full sentence."""

    key: str
    """Stem of file names and ID in the page."""
    section: str
    panel: str
    """How it differs from its neighbours in the section: frame size, rule count."""
    title: str
    caption: str
    alt: str
    """Alternative text: what is plotted against what, for readers who cannot see the chart."""
    chart: Chart
    data: pl.DataFrame
    switchable: bool = False
    """Whether the page's switch between median, p99 and mean applies."""
    linked: str = ""
    """Figures with the same name here share a horizontal axis: they zoom together, with one cursor."""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite JSON."""
        # Validating against the schema would take half of the page's time; tests do it.
        return dict(self.chart.to_dict(validate=False))

    @property
    def name(self) -> str:
        """The accessible name: short, and unique on the page."""
        return f"{self.panel}: {self.title}" if self.panel else self.title

    @cached_property
    def single_point(self) -> bool:
        """Whether there is nothing to compare: one place on the axis, or none."""
        return spec.places(self.spec) < 2

    @cached_property
    def zoomable(self) -> bool:
        """Whether a numeric axis can be zoomed."""
        return bool(interaction.axes_of_numbers(self.spec))

    def titled(self) -> Chart:
        """The chart with style, title and (as subtitle) panel, for notebooks."""
        content = self.standalone()
        # Vega-Lite accepts it, but the schema that Altair checks against does not have it.
        del content["config"]["legend"]["layout"]
        return type(self.chart).from_dict(content)

    def standalone(self, source: str = "") -> dict[str, Any]:
        """As :meth:`titled`, as Vega-Lite JSON; ``source`` says what was tested, and when."""
        shown = f"shown: {next(iter(QUANTITIES.values())).lower()}" if self.switchable else ""
        content = {**self.spec, "description": self.name}
        subtitle = "; ".join(filter(None, (self.panel, shown, source)))
        content["title"] = {"text": _wrapped(self.title), "subtitle": _wrapped(subtitle, 100)}
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
