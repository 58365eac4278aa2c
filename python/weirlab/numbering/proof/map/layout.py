"""The layout of a map: a lane per organisation, a column per step from the callers. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.numbering.proof.map.chart import DNS, Chart, Link, Node

WIDTH: Final = 132
HEIGHT: Final = 46
_ACROSS: Final = 84
"""Space between columns, for the links."""
_DOWN: Final = 26
_EDGE: Final = 18
_TITLE: Final = 30
"""Height of a lane's title."""
_BETWEEN: Final = 14


@dataclass(frozen=True)
class Box:
    """A node and its upper left corner, in pixels."""

    node: Node
    column: int
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.y + HEIGHT / 2


@dataclass(frozen=True)
class Lane:
    """An organisation's part of the map, or that of the name servers."""

    title: str
    y: float
    height: float


@dataclass(frozen=True)
class Layout:
    """A map with all places, in pixels."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    boxes: dict[str, Box]

    def path(self, link: Link) -> str:
        """The curve of a link, as in SVG."""
        source, target = self.boxes[link.source], self.boxes[link.target]
        across = target.column - source.column
        if across == 0:
            return _beside(source, target)
        if across < 0:
            return _back(source, target)
        x, y, to, end = source.x + WIDTH, source.middle, target.x, target.middle
        bend = min((to - x) / 2, 70.0)
        if across > 1 and abs(end - y) < HEIGHT:
            # Around the nodes between them.
            above = min(source.y, target.y) - _DOWN * 0.7
            return f"M{x:g},{y:g} C{x + bend:g},{above:g} {to - bend:g},{above:g} {to:g},{end:g}"
        return f"M{x:g},{y:g} C{x + bend:g},{y:g} {to - bend:g},{end:g} {to:g},{end:g}"


def _beside(source: Box, target: Box) -> str:
    """A link within a column: from edge to edge, or around the nodes between."""
    x = source.x + WIDTH
    side = x + min(_ACROSS * 0.45, 16 + abs(target.y - source.y) / 6)
    y, end = source.middle, target.middle
    return f"M{x:g},{y:g} C{side:g},{y:g} {side:g},{end:g} {x:g},{end:g}"


def _back(source: Box, target: Box) -> str:
    """A link to a column further left: below both nodes."""
    x, to = source.x + WIDTH / 2, target.x + WIDTH / 2
    below = max(source.y, target.y) + HEIGHT + _DOWN
    return f"M{x:g},{source.y + HEIGHT:g} C{x:g},{below:g} {to:g},{below:g} {to:g},{target.y + HEIGHT:g}"


def laid_out(chart: Chart) -> Layout:
    """The places of all nodes."""
    columns = _columns(chart)
    count = max(columns.values(), default=0) + 1
    owners = dict.fromkeys((*chart.titles, *(node.organisation for node in chart.nodes if node.kind != DNS)))
    lanes: list[Lane] = []
    boxes: dict[str, Box] = {}
    y = float(_EDGE)
    for owner in (*owners, None):
        inside = [
            node
            for node in chart.nodes
            if (node.kind == DNS if owner is None else node.kind != DNS and node.organisation == owner)
        ]
        if not inside:
            continue
        title = "Name servers" if owner is None else chart.titles.get(owner) or "No organisation"
        if owner is None:
            columns |= _spread(inside, chart.links, columns, count)
        deepest = 0
        used = [0] * count
        for node in inside:
            column = columns[node.name]
            x = _EDGE * 2 + column * (WIDTH + _ACROSS)
            boxes[node.name] = Box(node, column, x, y + _TITLE + used[column] * (HEIGHT + _DOWN))
            used[column] += 1
            deepest = max(deepest, used[column])
        height = _TITLE + deepest * (HEIGHT + _DOWN)
        lanes.append(Lane(title, y, height))
        y += height + _BETWEEN
    width = _EDGE * 4 + count * WIDTH + (count - 1) * _ACROSS
    return Layout(width, y - _BETWEEN + _EDGE, tuple(lanes), boxes)


def _columns(chart: Chart) -> dict[str, int]:
    """Steps of each engine from a caller, by name; engines that no link reaches are at the left."""
    following: dict[str, list[str]] = {}
    reached = set()
    for link in chart.links:
        if link.protocol != DNS:
            following.setdefault(link.source, []).append(link.target)
            reached.add(link.target)
    engines = [node for node in chart.nodes if node.kind != DNS]
    callers = [node.name for node in engines if node.kind == "endpoint" and node.name in following]
    first = dict.fromkeys(callers or [chart.caller])
    found = dict.fromkeys(first, 0)
    waiting = deque(first)
    while waiting:
        name = waiting.popleft()
        for other in following.get(name, ()):
            if other not in found:
                found[other] = found[name] + 1
                waiting.append(other)
    return {node.name: found.get(node.name, 0) for node in engines}


def _spread(
    asked: Sequence[Node], links: Sequence[Link], columns: dict[str, int], count: int
) -> dict[str, int]:
    """Columns of name servers: next to each other, from below the first engine that queries them."""
    asking = [columns[link.source] for link in links if link.protocol == DNS]
    first = min(min(asking, default=0), max(0, count - len(asked)))
    return {node.name: (first + rank) % count for rank, node in enumerate(asked)}
