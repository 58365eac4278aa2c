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
    """What tells it from its neighbours in the section: frame size, rule count."""
    title: str
    caption: str
    alt: str
    """What is drawn over what, for those who do not see it."""
    chart: Chart
    data: pl.DataFrame
    switchable: bool = False
    """Whether the page's switch between median, p99 and mean applies."""
    linked: str = ""
    """Figures with the same name here have one horizontal axis: they are zoomed together, with one cursor."""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite JSON."""
        # Checking against the schema takes half of the time that a page takes; tests do it.
        return dict(self.chart.to_dict(validate=False))

    @property
    def name(self) -> str:
        """The accessible name: short, and of no other chart on the page."""
        return f"{self.panel}: {self.title}" if self.panel else self.title

    @cached_property
    def single_point(self) -> bool:
        """Whether there is too little to compare: one place on the axis, or nothing at all."""
        return spec.places(self.spec) < 2

    @cached_property
    def zoomable(self) -> bool:
        """Whether an axis of numbers can be narrowed."""
        return bool(interaction.axes_of_numbers(self.spec))

    def titled(self) -> Chart:
        """The chart with style, title and (as subtitle) panel, for notebooks."""
        content = self.standalone()
        # Vega-Lite takes it, the schema that Altair checks against does not know it.
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
