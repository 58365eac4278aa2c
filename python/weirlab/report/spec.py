"""Functions that inspect charts given as Vega-Lite JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Spec = dict[str, Any]

_NUMBERS: Final = ("quantitative", "temporal")
_POINTS: Final = ("point", "circle", "square")
_SMALL: Final = 9
"""Area of a point of a small chart, in square pixels."""
_SHIFTS: Final = ("dx", "dy", "xOffset", "yOffset")


def layers(spec: Spec) -> list[Spec]:
    """The layers of a chart; a chart without layers is its only one."""
    return list(spec.get("layer") or [spec])


def mark_type(layer: Mapping[str, Any]) -> str:
    """The type of the layer's mark: ``point``, ``line``, ..."""
    mark = layer.get("mark", "")
    return str(mark if isinstance(mark, str) else mark.get("type", ""))


def rows(spec: Spec, layer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The data that ``layer`` draws, before any transforms."""
    own = layer.get("data") or spec.get("data") or {}
    if "name" in own:
        return list((spec.get("datasets") or {}).get(own["name"], ()))
    return list(own.get("values", ()))


def places(spec: Spec) -> int:
    """Number of places with marks on the chart's axes, in the layer with the most.

    On an axis of numbers this is the number of distinct values; in rows it is the number of marks. Limit
    lines and names do not count.
    """
    return max((_places(rows(spec, layer), layer) for layer in _of_data(spec)), default=0)


def bare(spec: Spec) -> Spec:
    """The marks of a chart alone, small, without axes, legends and words."""
    found = {name: about for name, about in spec.items() if name != "title"}
    if "layer" in found:
        found["layer"] = [bare(layer) for layer in found["layer"] if mark_type(layer) != "text"]
    if "encoding" in found:
        found["encoding"] = {name: _unlabelled(name, about) for name, about in found["encoding"].items()}
    if isinstance(mark := found.get("mark"), dict):
        kept = {name: value for name, value in mark.items() if name not in _SHIFTS}
        found["mark"] = kept | ({"size": _SMALL} if mark_type(found) in _POINTS else {})
    return found


def _unlabelled(channel: str, about: Any) -> Any:
    if channel in ("tooltip", "href", "order", "detail") or not isinstance(about, dict) or "value" in about:
        return about
    return {**about, ("axis" if channel in ("x", "y") else "legend"): None}


def _of_data(spec: Spec) -> Iterator[Spec]:
    for layer in layers(spec):
        encoding = layer.get("encoding") or {}
        if (
            mark_type(layer) != "text"
            and "field" in encoding.get("x", {})
            and "field" in encoding.get("y", {})
        ):
            yield layer


def _places(found: Sequence[Mapping[str, Any]], layer: Mapping[str, Any]) -> int:
    x, y = layer["encoding"]["x"], layer["encoding"]["y"]
    # A field computed by a transform is in no row: then every row counts.
    known = [name for name in (x["field"], y["field"]) if any(name in row for row in found)]
    drawn = [row for row in found if all(row.get(name) is not None for name in known)]
    over = y.get("type") in _NUMBERS and x["field"] in known
    return len({row[x["field"]] for row in drawn}) if over else len(drawn)
