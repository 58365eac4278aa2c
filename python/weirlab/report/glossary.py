"""Terms of a page, explained where they first stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

PAGE: Final = Path(__file__).with_suffix(".md")
"""The glossary, also a page of the documentation."""
_ROW: Final = re.compile(r"^\| (\*\*.+?) \| (.+) \|$", re.M)
_NAME: Final = re.compile(r"\*\*(.+?)\*\*")
_PLAIN: Final = frozenset(
    {"call", "device", "engine", "evidence", "gap", "lab", "link", "load", "path", "run", "switch", "tree"}
)
"""What nobody looks up on a page about it."""


class Glossary:
    """The terms of Weir and ``own``, those of one page, which come first."""

    def __init__(self, own: Iterable[tuple[str, str]]) -> None:
        listed = [(name, meaning) for names, meaning in own for name in names.split(", ")]
        self._meanings = {name.lower(): meaning for name, meaning in (*_known(), *listed)}
        longest = sorted(self._meanings, key=len, reverse=True)
        self._terms = re.compile(rf"\b({'|'.join(map(re.escape, longest))})(?=s?\b)", re.I)

    def mark(self, text: str) -> Markup:
        """``text`` as HTML; a term that the page has for the first time gets its meaning as a tooltip."""
        parts, end = [], 0
        for found in self._terms.finditer(text):
            if (meaning := self._meanings.pop(found[0].lower(), None)) is not None:
                term = Markup('<dfn tabindex="0" title="{}">{}</dfn>').format(meaning, found[0])
                parts += [escape(text[end : found.start()]), term]
                end = found.end()
        return Markup("").join([*parts, escape(text[end:])])


@cache
def _known() -> tuple[tuple[str, str], ...]:
    return tuple(_rows(PAGE.read_text(encoding="utf-8")))


def _rows(page: str) -> Iterator[tuple[str, str]]:
    for names, meaning in _ROW.findall(page):
        for name in _NAME.findall(names):
            if name not in _PLAIN:
                yield name, re.sub(r"[`*]", "", meaning[:1].upper() + meaning[1:])
