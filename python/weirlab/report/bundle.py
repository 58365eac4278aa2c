"""Vega, Vega-Lite and Vega-Embed as one script, and static images, all from vl-convert: no network."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import altair as alt
import vl_convert

VEGALITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Vega-Lite version that Altair writes, as vl-convert names it."""

NOTICE: Final = (
    "Vega, Vega-Lite and Vega-Embed: Copyright University of Washington Interactive Data Lab "
    "and contributors, BSD-3-Clause licence."
)


@cache
def script() -> str:
    """JavaScript that defines ``vegaEmbed``, safe inside a ``script`` element."""
    source = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGALITE))
    return f"/* {NOTICE} */\n" + source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def svg(chart: dict[str, Any]) -> str:
    """``chart`` (Vega-Lite as JSON) as an SVG document."""
    return str(vl_convert.vegalite_to_svg(chart, vl_version=VEGALITE))


def png(chart: dict[str, Any], scale: float = 2.0) -> bytes:
    """``chart`` (Vega-Lite as JSON) as a PNG image, ``scale`` pixels per unit."""
    return bytes(vl_convert.vegalite_to_png(chart, vl_version=VEGALITE, scale=scale))
