"""Draws a map as SVG, with its calls: choosing a call shows its way, by style sheets alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup, escape

from weirlab.base.quantities import plural
from weirlab.numbering.proof.chart import DNS, Chart, Link, Node
from weirlab.numbering.proof.findings import ProofCallRow, titled
from weirlab.report.graphs import Drawing

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


_PROTOCOLS: Final = {"sip": "SIP", "h323": "H.323", "mgcp": "MGCP", DNS: "DNS"}
_LEAST: Final = 0.85
"""Scale below which the picture scrolls instead."""
_MOST: Final = 1.25
"""Scale beyond which a small map does not grow."""
_LONGEST: Final = 15
"""Most characters in a box."""
_BAR: Final = 8
"""Width of the bar that represents a device."""

_STYLE: Final = """
.map { margin-top: 1rem; }
.map svg { display: block; width: 100%; height: auto; font: 13px var(--sans); }
.map .lane { fill: var(--page); stroke: var(--line); }
.map .lane-title { fill: var(--soft); font-weight: 600; }
.map .box { fill: var(--paper); stroke: var(--soft); }
.map .endpoint .box { stroke-dasharray: 4 3; }
.map .name { fill: var(--ink); font-weight: 600; }
.map .kind { fill: var(--soft); font-size: 11px; }
.map .link { fill: none; stroke: var(--soft); stroke-width: 1.4; opacity: .75; }
.map .h323 { stroke-dasharray: 8 4; }
.map .mgcp { stroke-dasharray: 2 4; }
.map .link.dns { stroke-width: 1; opacity: .45; }
.map .way { display: none; fill: none; stroke: var(--accent); stroke-width: 4; stroke-linecap: round; }
.map .way.planned { stroke-dasharray: 1 8; }
.map .arrow { fill: var(--soft); } .map .way-arrow { fill: var(--accent); }
.map .device { fill: var(--soft); }
.map .keys { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; list-style: none; margin: .6rem 0 0;
  padding: 0; color: var(--soft); font-size: .8125rem; }
.map .keys svg { display: inline-block; width: 2.2rem; height: .6rem; margin-right: .4rem;
  vertical-align: middle; }
.map label { display: block; cursor: pointer; min-width: 10rem; }
.map input { accent-color: var(--accent); margin: 0 .5rem 0 0; }
.map tr:has(:checked) { background: var(--accent-soft); }
"""


def drawn(chart: Chart, rows: Sequence[ProofCallRow]) -> Drawing:
    """The map, and a row per call that was made."""
    layout = laid_out(chart)
    shown = [row for row in rows if len(_engines(row, layout)) > 1]
    css = _STYLE + "".join(_chosen(row) for row in shown)
    least = f"{layout.width * _LEAST:.0f}px"
    return Drawing(
        Markup(
            '<div class="map">'
            '<div class="card scroll" role="group" aria-label="Map of the network" tabindex="0">'
            f"{_svg(chart, layout, shown, least)}</div>{_keys(chart)}{_table(shown)}</div>"
        ),
        css,
    )


def _engines(row: ProofCallRow, layout: Layout) -> list[str]:
    """Engines on the way that a call took, or should have taken."""
    names = (row.way or row.way_planned).split(" > ")
    return names if all(name in layout.boxes for name in names) else []


def _chosen(row: ProofCallRow) -> str:
    here = f".map:has(#way-{row.index}:checked)"
    return (
        f"{here} .w{row.index} {{ display: inline; }}\n"
        f"{here} .n{row.index} .box {{ stroke: var(--accent); stroke-width: 2.5; fill: var(--accent-soft); "
        "stroke-dasharray: none; }\n"
        f"{here} .f{row.index} .box {{ stroke: var(--warn); stroke-width: 2.5; fill: var(--warn-soft); }}\n"
        f"{here} .d{row.index} {{ fill: var(--accent); }}\n"
    )


def _svg(chart: Chart, layout: Layout, rows: Sequence[ProofCallRow], least: str) -> str:
    engines = sum(node.kind != DNS for node in chart.nodes)
    servers = len(chart.nodes) - engines
    counted = f"{plural(engines, 'engine')} and {plural(servers, 'name server')}"
    title = f"{counted}, in a lane for each organisation, with links between them."
    parts = [
        f'<svg viewBox="0 0 {layout.width:g} {layout.height:g}" role="img" aria-label="{escape(title)}" '
        f'style="min-width:{least};max-width:{layout.width * _MOST:.0f}px">',
        "<defs>",
        *(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" '
            f'markerHeight="{size}" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path class="{name}" d="M0,0L8,4L0,8z"/></marker>'
            for name, size in (("arrow", 8), ("way-arrow", 13))
        ),
        "</defs>",
    ]
    for lane in layout.lanes:
        parts.append(
            f'<rect class="lane" x="8" y="{lane.y:g}" width="{layout.width - 16:g}" '
            f'height="{lane.height:g}" rx="10"/>'
            f'<text class="lane-title" x="20" y="{lane.y + 20:g}">{escape(lane.title)}</text>'
        )
    for link in chart.links:
        parts.append(f'<path class="link {link.protocol}" marker-end="url(#arrow)" d="{layout.path(link)}"/>')
    for row in rows:
        parts += _way(row, layout)
    parts += [_box(box, rows, layout) for box in layout.boxes.values()]
    parts += [_device(layout.boxes[name], chart.device, rows) for name in chart.behind]
    return "".join((*parts, "</svg>"))


def _way(row: ProofCallRow, layout: Layout) -> Iterator[str]:
    planned = "" if row.way else " planned"
    for source, target in pairwise(_engines(row, layout)):
        path = layout.path(Link(source, target, ""))
        yield f'<path class="way{planned} w{row.index}" marker-end="url(#way-arrow)" d="{path}"/>'


def _box(box: Box, rows: Sequence[ProofCallRow], layout: Layout) -> str:
    node = box.node
    on = [f"n{row.index}" for row in rows if node.name in _engines(row, layout)]
    off = [f"f{row.index}" for row in rows if row.down and row.down == node.name]
    classes = " ".join((node.kind, *on, *off))
    name = node.label if len(node.label) <= _LONGEST else f"{node.label[: _LONGEST - 1]}…"
    what = "name server" if node.kind == DNS else node.kind
    told = ", ".join(filter(None, (node.label, what, node.address)))
    x = box.x + WIDTH / 2
    return (
        f'<g class="{classes}"><title>{escape(told)}</title>'
        f'<rect class="box" x="{box.x:g}" y="{box.y:g}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text class="name" x="{x:g}" y="{box.y + 20:g}" text-anchor="middle">{escape(name)}</text>'
        f'<text class="kind" x="{x:g}" y="{box.y + 36:g}" text-anchor="middle">{escape(what)}</text></g>'
    )


def _device(box: Box, title: str, rows: Sequence[ProofCallRow]) -> str:
    """A bar to the right of a caller, for the device that its packets pass."""
    classes = " ".join(("device", *(f"d{row.index}" for row in rows if row.caller == box.node.name)))
    x = box.x + WIDTH - _BAR / 2
    return (
        f'<rect class="{classes}" x="{x:g}" y="{box.y - 4:g}" width="{_BAR}" height="{HEIGHT + 8}" rx="2">'
        f"<title>{escape(title)}</title></rect>"
    )


def _keys(chart: Chart) -> str:
    used = {link.protocol for link in chart.links}
    items = "".join(
        f'<li><svg viewBox="0 0 36 8" aria-hidden="true"><path class="link {key}" d="M0,4H36"/></svg>'
        f"{name}</li>"
        for key, name in _PROTOCOLS.items()
        if key in used
    )
    device = (
        '<li><svg viewBox="0 0 36 8" aria-hidden="true"><rect class="device" x="14" y="0" width="8" '
        f'height="8"/></svg>{escape(chart.device)}: all packets of a caller pass it</li>'
        if chart.device
        else ""
    )
    return f'<ul class="keys" aria-label="Links">{items}{device}<li>Endpoints have dashed frames.</li></ul>'


def _table(rows: Sequence[ProofCallRow]) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr><td><label><input type="radio" name="way" id="way-{row.index}">{escape(titled(row))}</label>'
        "</td>"
        f"<td>{escape(row.way or f'planned: {row.way_planned}')}</td><td>{escape(row.verdict)}</td></tr>"
        for row in rows
    )
    return (
        '<div class="card scroll" role="group" aria-label="Ways of the calls" tabindex="0"><table>'
        "<caption>Choose a call to see its way in the map</caption>"
        '<thead><tr><th scope="col">Call</th><th scope="col">Way</th><th scope="col">Verdict</th></tr>'
        '</thead><tbody><tr><td><label><input type="radio" name="way" checked>None</label></td><td></td>'
        "<td></td></tr>"
        f"{body}</tbody></table></div>"
    )
