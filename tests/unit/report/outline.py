"""Reading pages as a browser does, without one."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any


class Outline(HTMLParser):
    """Elements with their attributes and own text, headings, and text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.content: list[str] = []
        """The text within each element, up to the next one."""
        self.words: list[str] = []
        self.headings: list[int] = []
        self._silent = False
        self._within = False
        """Whether text continues what was before it: terms are parts of sentences."""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag == "dfn"
        if self._within:
            return
        self.elements.append((tag, dict(attrs)))
        self.content.append("")
        self._silent = tag in ("script", "style")
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        self._silent = False
        self._within = tag == "dfn"

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._within:
            self.words[-1] += data
        else:
            self.words.append(data)
        if self.content:
            self.content[-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())

    @property
    def title(self) -> str:
        return next(
            text for (tag, _), text in zip(self.elements, self.content, strict=True) if tag == "title"
        )

    def texts(self) -> dict[str, str]:
        """Text by the element's ID."""
        pairs = zip(self.elements, self.content, strict=True)
        return {str(given["id"]): text.strip() for (_, given), text in pairs if "id" in given}

    def having(self, name: str, value: str) -> list[dict[str, str | None]]:
        """Attributes of the elements whose attribute ``name`` has ``value`` among its words."""
        return [given for _, given in self.elements if value in (given.get(name) or "").split()]

    def names_of(self, tag: str) -> list[str]:
        """Accessible names of all elements ``tag``: their label, or else their text."""
        pairs = zip(self.elements, self.content, strict=True)
        return [(given.get("aria-label") or text).strip() for (found, given), text in pairs if found == tag]


def charts(page: str) -> dict[str, Any]:
    """What the script of ``page`` draws: specifications by key, under ``figures``."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)
    return dict(json.loads(found[1])) if found else {"figures": {}}
