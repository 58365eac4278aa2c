"""The page around every report: styles, scripts and charts inside one HTML file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from weirlab.report import bundle, palette
from weirlab.report.figure import Figure

_TEMPLATES: Final = Path(__file__).parent / "templates"


def assembled(template: str, figures: Sequence[Figure], **values: Any) -> str:
    """HTML of ``template`` (which extends ``base.html``) with ``values`` and all that ``figures`` need.

    ``base.html`` asks for ``subject``, ``run_id``, ``run_name``, ``simulated``, ``answer``,
    ``lede``, ``caution``, ``place``, ``where_note``, ``tiles``, ``command`` and ``scenario``.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            style=Markup(
                _asset("report.css")
                .replace("/*LIGHT*/", palette.css_variables(palette.LIGHT))
                .replace("/*DARK*/", palette.css_variables(palette.DARK))
            ),
            code=Markup(_asset("report.js")),
            bundle=Markup(bundle.script() if figures else ""),
            charts=_json(
                {
                    "config": palette.css_driven(palette.chart_config()),
                    "light": palette.LIGHT,
                    "figures": {f.key: _embedded(f) for f in figures},
                }
            ),
        )
    )


def _embedded(figure: Figure) -> dict[str, Any]:
    chart = figure.chart.to_dict()
    chart.pop("config", None)
    return {"title": figure.title, "panel": figure.panel, "spec": palette.css_driven(chart)}


def _json(value: Any) -> Markup:
    """JSON that cannot end the ``script`` element it stands in."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
