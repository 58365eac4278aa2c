"""A chart with everything that goes with it: words and data; selecting in legends, and zooming.

Charts are built without interaction, so that saved pictures and notebooks stay plain; :func:`interactive`
adds it to charts on a page, where ``page.js`` handles the mouse.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from weirlab.report import palette, spec
from weirlab.report.axes import QUANTITIES, Chart
from weirlab.report.spec import Spec, layers, mark_type

ZOOMED: Final = "zoomed"
"""Parameter of the chart: whether it is zoomed in."""

_LEGENDS: Final = ("color", "shape", "strokeDash")
_OPACITY: Final = {"point": 0.85}
_FAINT: Final = 0.1
"""Share of the opacity that unselected marks keep."""


def interactive(spec: Spec) -> Spec:
    """A copy of ``spec`` with legends that select and numeric axes that can be zoomed.

    Axes get the parameters ``x_from``, ``x_to``, ``y_from`` and ``y_to``.
    """
    found = copy.deepcopy(spec)
    _pick(found)
    _zoom(found)
    return found


def axes_of_numbers(spec: Spec) -> dict[str, list[float]]:
    """The domains of the numeric axes, ``x`` and ``y``, that have a fixed domain."""
    found = {}
    for channel in ("x", "y"):
        domains = [list(domain) for layer in layers(spec) if (domain := _domain(layer, channel))]
        hidden = any(_hidden(layer, channel) for layer in layers(spec))
        if domains and not hidden and all(domain == domains[0] for domain in domains):
            found[channel] = domains[0]
    return found


def _zoom(spec: Spec) -> None:
    narrowed = axes_of_numbers(spec)
    if not narrowed:
        return
    params = [{"name": ZOOMED, "value": False}]
    for channel, ends in narrowed.items():
        names = (f"{channel}_from", f"{channel}_to")
        params += [{"name": name, "value": end} for name, end in zip(names, ends, strict=True)]
        for layer in layers(spec):
            if _domain(layer, channel):
                layer["encoding"][channel]["scale"]["domain"] = [{"expr": name} for name in names]
    spec["params"] = [*spec.get("params", []), *params]
    for layer in layers(spec):
        if mark_type(layer) == "text":
            continue
        mark = layer["mark"] if isinstance(layer["mark"], dict) else {"type": layer["mark"]}
        # Marks on the edge are not clipped while everything is shown.
        layer["mark"] = {"clip": {"expr": ZOOMED}} | mark


def _domain(layer: Spec, channel: str) -> list[float] | None:
    scale = layer.get("encoding", {}).get(channel, {}).get("scale") or {}
    domain = scale.get("domain")
    if not isinstance(domain, list) or len(domain) != 2:
        return None
    known = all(isinstance(end, int | float) for end in domain)
    return domain if known and domain[0] < domain[1] else None


def _hidden(layer: Spec, channel: str) -> bool:
    """Whether the axis has no labels, so that a reader could not see which part of it is shown."""
    definition = layer.get("encoding", {}).get(channel, {})
    return "axis" in definition and definition["axis"] is None


def _pick(spec: Spec) -> None:
    """Make legend entries select the marks that they stand for."""
    picks: dict[str, str] = {}
    for layer in layers(spec):
        for field in _legend_fields(layer):
            if field not in picks:
                picks[field] = f"pick_{len(picks) + 1}"
                select = {"type": "point", "fields": [field], "toggle": "true"}
                param = {"name": picks[field], "select": select, "bind": "legend"}
                layer["params"] = [*layer.get("params", []), param]
    for layer in layers(spec):
        mine = [picks[field] for field in _fields(layer) if field in picks]
        if mine:
            _fade(layer, mine)


def _fade(layer: Spec, picks: list[str]) -> None:
    mark = layer["mark"] if isinstance(layer["mark"], dict) else {"type": layer["mark"]}
    base = float(mark.get("opacity", _OPACITY.get(mark["type"], 1.0)))
    strength: dict[str, Any] = layer["encoding"].get("opacity") or {"value": base}
    test: dict[str, Any] = {"and": [{"param": pick} for pick in picks]}
    layer["encoding"]["opacity"] = {"condition": {"test": test, **strength}, "value": _FAINT * base}


def _legend_fields(layer: Spec) -> list[str]:
    """Fields of ``layer`` for which a legend lists several values."""
    found = []
    for definition in _nominal(layer):
        listed = (definition.get("scale") or {}).get("domain")
        if definition.get("legend", {}) is not None and (listed is None or len(listed) > 1):
            found.append(definition["field"])
    return list(dict.fromkeys(found))


def _fields(layer: Spec) -> list[str]:
    return list(dict.fromkeys(definition["field"] for definition in _nominal(layer)))


def _nominal(layer: Spec) -> Iterator[Spec]:
    """The nominal encodings of ``layer``, by which its marks differ."""
    for channel in _LEGENDS:
        definition = layer.get("encoding", {}).get(channel, {})
        if definition.get("type") == "nominal":
            yield definition


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
        return bool(axes_of_numbers(self.spec))

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
