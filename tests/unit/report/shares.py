"""Shares in the sentences of a page, and in its tables: one quantity has one source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from weirlab.base.tables import Table
from weirlab.report.story import Story

_SHARE = re.compile(r"(\d[\d,]*(?:\.\d+)?)[\s\u00a0]%")


def shares(texts: Iterable[str]) -> set[str]:
    """The numbers before a sign of per cent."""
    return {number for text in texts for number in _SHARE.findall(text)}


def said(story: Story) -> tuple[str, ...]:
    """What a page says before its chapters."""
    return (story.answer, *story.lede)


def cells(story: Story) -> Iterator[str]:
    """What stands in tables, lists, facts and key numbers of ``story``."""
    for tile in story.tiles:
        yield from (tile.value, tile.note)
    for part in (part for chapter in story.chapters for part in chapter.whole()):
        yield from (value for _, value in part.facts or ())
        yield from part.said
        yield from cells_of((*part.tables, *part.details))


def cells_of(tables: Iterable[Table]) -> Iterator[str]:
    for table in tables:
        for row in table.rows:
            yield from row
