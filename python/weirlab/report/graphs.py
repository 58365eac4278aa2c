"""Graphs drawn by a script of their own, where figures do not suffice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class Graphs:
    """What a chapter draws by a script of its own.

    Parameters
    ----------
    markup:
        Where they go in the chapter.
    style, script:
        CSS and JavaScript; the latter with its licence, safe inside of a ``script`` element.
    data:
        What the script finds as JSON in the element ``data``.
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
        SVG, and what belongs to it.
    style:
        CSS.
    """

    markup: Markup
    style: str
