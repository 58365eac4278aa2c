"""The map of a network: what is in it, where it is, and the ways of calls."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from weirlab.numbering.proof.chart import DNS, Chart, charted
from weirlab.numbering.proof.drawing import HEIGHT, WIDTH, drawn, laid_out
from weirlab.numbering.proof.findings import ProofCallRow
from weirlab.numbering.proof.ways import planned
from weirlab.report.graphs import Drawing

from ..plans import ready_network

PLANS = ("campus", "carriers", "cesnet", "federation")


def chart_of(name: str) -> Chart:
    network = ready_network(name)
    return charted(network, planned(network, fall_back=True))


def row(index: int, way: str, down: str = "", verdict: str = "as planned") -> ProofCallRow:
    return ProofCallRow(
        index=index, number=f"+42000{index}", caller="phone", note="", down=down, way_planned=way, way=way,
        tried="", decided_planned="", decided="", answer_planned=200, answer=200, setup_ms=1.0, codec="alaw",
        there_packets=1, there_lost=0, there_jitter_ms=0.0, there_mos=4.0, back_packets=1, back_lost=0,
        back_jitter_ms=0.0, back_mos=4.0, verdict=verdict, why="",
    )  # fmt: skip


def picture(made: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(re.search(r"<svg viewBox.*?</svg>(?=</div>)", str(made.markup))[0])  # type: ignore[index]


@pytest.mark.parametrize("name", PLANS)
def test_every_engine_and_name_server_has_a_place_of_its_own(name: str) -> None:
    chart = chart_of(name)
    layout = laid_out(chart)
    assert {*layout.boxes} == {node.name for node in chart.nodes}
    boxes = [*layout.boxes.values()]
    for i, one in enumerate(boxes):
        assert one.x >= 0
        assert one.x + WIDTH <= layout.width
        assert one.y + HEIGHT <= layout.height
        for other in boxes[:i]:
            assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT
    assert len({(box.x, box.y) for box in boxes}) == len(boxes)


@pytest.mark.parametrize("name", PLANS)
def test_every_leg_that_the_plan_has_calls_take_is_a_link(name: str) -> None:
    network = ready_network(name)
    calls = planned(network, fall_back=True)
    links = {(link.source, link.target) for link in charted(network, calls).links}
    for call in calls:
        for step in call.way.steps:
            if step.what == "leg":
                assert (step.engine, step.facts["to"]) in links


def test_lanes_are_organisations_and_columns_count_from_the_callers() -> None:
    layout = laid_out(chart_of("federation"))
    assert [lane.title for lane in layout.lanes] == [
        "CESNET", "University of the North", "University of the South", "Name servers",
    ]  # fmt: skip
    columns = {name: box.column for name, box in layout.boxes.items() if box.node.kind != DNS}
    assert columns == {
        "phone": 0, "core": 1, "cyrus": 2, "gw-a": 2, "gk": 3, "hotline": 3, "gw-b": 4, "exchange": 5,
    }  # fmt: skip


def test_choosing_a_call_shows_its_way_and_what_failed() -> None:
    chart = chart_of("campus")
    made = drawn(chart, [row(3, "phone > core > cyrus"), row(4, "phone > core > voicemail", down="desk")])
    svg = picture(made)
    ways = [each.get("class") for each in svg.iter("path") if "way" in (each.get("class") or "").split()]
    assert ways == ["way w3", "way w3", "way w4", "way w4"]
    on = {
        each.find("title").text.split(",")[0]
        for each in svg.iter("g")
        if "n3" in each.get("class", "").split()
    }  # type: ignore[union-attr]
    assert on == {"phone", "core", "cyrus"}
    off = [each for each in svg.iter("g") if "f4" in each.get("class", "").split()]
    assert len(off) == 1
    assert ".map:has(#way-3:checked) .w3" in made.style
    assert 'id="way-4"' in str(made.markup)
    assert "+420004 without desk" in str(made.markup)


def test_without_any_script_the_picture_is_there_and_has_a_name() -> None:
    made = drawn(chart_of("federation"), [])
    assert "<script" not in str(made.markup)
    svg = picture(made)
    assert svg.get("role") == "img"
    assert "8 engines and 1 name server," in (svg.get("aria-label") or "")


def test_foreign_names_are_text() -> None:
    chart = chart_of("campus")
    chart = replace(chart, titles=dict.fromkeys(chart.titles, "<b>&"))
    made = str(drawn(chart, [row(0, "phone > core", verdict="<i>")]).markup)
    assert "<b>" not in made
    assert "<i>" not in made


def test_a_map_is_kept_and_read_again() -> None:
    chart = chart_of("carriers")
    assert Chart.of(chart.document()) == chart
