"""The page around every story: styles, scripts and charts inside one HTML file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from weirlab.report import bundle, palette
from weirlab.report.figure import Figure, interactive
from weirlab.report.graphs import Graphs

_TEMPLATES: Final = Path(__file__).parent / "templates"


def assembled(
    figures: Sequence[Figure], graphs: Graphs | None, *, style: str = "", source: str, **values: Any
) -> str:
    """The HTML file with ``values``, and with everything that ``figures`` and ``graphs`` need.

    ``style`` is CSS of drawings.
    Saved charts show ``source`` below. ``page.html`` names the values.
    """
    light = palette.LIGHT | (dict(graphs.light) if graphs else {})
    dark = palette.DARK | (dict(graphs.dark) if graphs else {})
    return (
        environment()
        .get_template("page.html")
        .render(
            **values,
            style=Markup(
                _asset("page.css")
                .replace("/*LIGHT*/", palette.css_variables(light))
                .replace("/*DARK*/", palette.css_variables(dark))
                + (graphs.style if graphs else "")
                + style
            ),
            code=Markup(_asset("page.js")),
            bundle=Markup(bundle.script() if figures else ""),
            charts=_json(
                {
                    "config": palette.css_driven(palette.chart_config()),
                    "light": palette.LIGHT,
                    "source": source,
                    "figures": {f.key: _embedded(f) for f in figures},
                }
            ),
            graphs=graphs,
            graphs_data=_json(graphs.data) if graphs else "",
            graphs_script=Markup(graphs.script) if graphs else "",
        )
    )


def _embedded(figure: Figure) -> dict[str, Any]:
    chart = {**figure.spec}
    chart.pop("config", None)
    return {
        "title": figure.title,
        "panel": figure.panel,
        "linked": figure.linked,
        "spec": palette.css_driven(interactive(chart) | {"description": figure.name}),
    }


def _json(value: Any) -> Markup:
    """JSON that cannot end the ``script`` element that contains it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def environment() -> jinja2.Environment:
    """The Jinja environment: everything but markup is escaped, and a missing value is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
