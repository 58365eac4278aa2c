"""Graphs drawn by a separate script, for content that figures cannot show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class Graphs:
    """Graphs that a chapter draws with a separate script.

    Parameters
    ----------
    markup:
        The elements in the chapter that hold the graphs.
    style, script:
        CSS and JavaScript; the latter with its licence, safe inside a ``script`` element.
    data:
        The content of the element ``data``, which the script reads as JSON.
    light, dark:
        Colours by name; each becomes a CSS variable.
    drawn_by:
        The library, for the credits.
    """

    markup: Markup
    style: str
    script: str
    data: Mapping[str, Any]
    light: Mapping[str, str]
    dark: Mapping[str, str]
    drawn_by: str


@dataclass(frozen=True)
class Drawing:
    """A picture that needs no script.

    Parameters
    ----------
    markup:
        SVG and the elements that belong to it.
    style:
        CSS.
    """

    markup: Markup
    style: str
