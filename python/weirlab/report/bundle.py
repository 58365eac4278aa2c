"""Vega, Vega-Lite and Vega-Embed as one script, and static images, all from vl-convert: no network."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from weirlab.report.vega import alt, vl_convert

LICENCES: Final = Path(__file__).parent / "templates" / "vega.LICENSES"
"""The licences of everything in the script; ``scripts/licences`` writes this file."""


@cache
def script() -> str:
    """JavaScript that defines ``vegaEmbed``, with its licences, safe inside a ``script`` element."""
    source = str(vl_convert.javascript_bundle("self.vegaEmbed = vegaEmbed;", vl_version=_version()))
    licensed = f"/*\n{LICENCES.read_text(encoding='utf-8')}*/\n{source}"
    return licensed.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def script_of_worker(style: str) -> str:
    """As :func:`script`; in a worker, it draws charts as SVG, and tells the page ``style``, their CSS."""
    code = (LICENCES.parent / "worker.js").read_text(encoding="utf-8")
    return "{" + code.replace("/*VEGA*/", script()).replace("STYLE", json.dumps(style)) + "}"


def _version() -> str:
    """The version of Vega-Lite that Altair writes, as vl-convert names it."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def svg(chart: dict[str, Any]) -> str:
    """``chart`` (Vega-Lite as JSON) as an SVG document."""
    return str(vl_convert.vegalite_to_svg(chart, vl_version=_version()))


def png(chart: dict[str, Any], scale: float = 2.0) -> bytes:
    """``chart`` (Vega-Lite as JSON) as a PNG image, ``scale`` pixels per unit."""
    return bytes(vl_convert.vegalite_to_png(chart, vl_version=_version(), scale=scale))
