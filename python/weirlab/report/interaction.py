"""Interaction with the charts of a page: selecting in legends, and zooming.

Charts are built without it, so that saved pictures and notebooks stay plain; :func:`interactive` adds it to
charts on a page, where ``page.js`` handles the mouse.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

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
