"""Specs, limits and results held against their schemas, and specs against limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

HERE = Path(__file__).resolve().parent
DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
LASTS = "PT10S"
INTERVAL = "PT1S"


def schema(name: str) -> dict[str, Any]:
    """The schema of a ``spec``, a ``limit`` or a ``result``."""
    # Installed, the schemas lie in the package; in the repository beside it.
    for folder in (HERE, HERE.parent):
        path = folder / "schema" / f"{name}.json"
        if path.exists():
            return dict(json.loads(path.read_text(encoding="utf-8")))
    raise FileNotFoundError(f"schema/{name}.json")


def problem(name: str, document: Any) -> str:
    """What is wrong with ``document``, a ``spec``, ``limit`` or ``result``; empty if nothing is."""
    errors = sorted(Draft7Validator(schema(name)).iter_errors(document), key=lambda each: list(each.path))
    if not errors:
        return _odd(document) if name == "spec" else ""
    first = errors[0]
    place = ".".join(map(str, first.path))
    return f"{place}: {first.message}" if place else str(first.message)


def seconds(duration: str) -> float:
    """ISO 8601: ``PT1M30S`` is 90."""
    match = DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"not a duration: {duration}")
    days, hours, minutes, rest = match.groups(default="0")
    return int(days) * 86_400 + int(hours) * 3600 + int(minutes) * 60 + float(rest)


def beyond(spec: dict[str, Any], limit: dict[str, Any]) -> Iterator[str]:
    """In what ``spec`` asks for more than ``limit`` allows."""
    if "duration" in limit:
        bounds = limit["duration"]["range"]
        asked = spec.get("duration", LASTS)
        inside = seconds(bounds["lower"]) <= seconds(asked) <= seconds(bounds["upper"])
        if inside == limit["duration"].get("invert", False):
            yield f"duration {asked} is not allowed here"
    for key, usual in (("connections", 1), ("bandwidth", None)):
        if key in limit:
            bounds, value = limit[key]["range"], spec.get(key, usual)
            # Without a bound on the rate all there is may be used.
            inside = value is not None and bounds["lower"] <= value <= bounds["upper"]
            if inside == limit[key].get("invert", False):
                yield f"{key} {'without a bound' if value is None else value} is not allowed here"
    for key in ("reverse", "single-ended"):
        if key in limit and spec.get(key, False) and not limit[key]["match"]:
            yield limit[key].get("fail-message", f"{key} is not allowed here")


def _odd(spec: dict[str, Any]) -> str:
    """What no schema tells."""
    lasts, interval = seconds(spec.get("duration", LASTS)), seconds(spec.get("interval", INTERVAL))
    if not 0.1 <= lasts <= 3600:
        return "duration: 0.1 s to 1 h are possible"
    if not 0.01 <= interval <= lasts:
        return "interval: 0.01 s to the duration are possible"
    return ""
