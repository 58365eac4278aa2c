"""Legends that select and axes that can be narrowed, as they stand in a chart's definition."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from weirlab.devices.profile.page import gather
from weirlab.devices.profile.page.drawing import draw
from weirlab.report import bundle, palette, spec
from weirlab.report.figure import axes_of_numbers, interactive

POINTS: dict[str, Any] = {
    "data": {"values": [{"x": 1, "y": 2, "kind": "a"}, {"x": 3, "y": 4, "kind": "b"}]},
    "mark": {"type": "point", "opacity": 0.9},
    "encoding": {
        "x": {"field": "x", "type": "quantitative", "scale": {"domain": [0, 5]}},
        "y": {"field": "y", "type": "quantitative", "scale": {"domain": [0, 9], "type": "linear"}},
        "color": {"field": "kind", "type": "nominal"},
    },
}


def test_a_chart_is_left_as_it_is() -> None:
    before = copy.deepcopy(POINTS)
    interactive(POINTS)
    assert before == POINTS


def test_axes_with_set_ends_can_be_narrowed_and_marks_are_then_clipped() -> None:
    found = interactive(POINTS)
    assert found["encoding"]["x"]["scale"]["domain"] == [{"expr": "x_from"}, {"expr": "x_to"}]
    assert {each["name"]: each.get("value") for each in found["params"] if "value" in each} == {
        "zoomed": False, "x_from": 0, "x_to": 5, "y_from": 0, "y_to": 9,
    }  # fmt: skip
    assert found["mark"]["clip"] == {"expr": "zoomed"}


@pytest.mark.parametrize(
    "change",
    [
        {"scale": {}},
        {"scale": {"domain": ["a", "b"]}},
        {"scale": {"domain": [5, 0]}},
        {"scale": {"domain": [0, 5]}, "axis": None},
    ],
)
def test_other_axes_stay_whole(change: dict[str, Any]) -> None:
    chart = copy.deepcopy(POINTS)
    chart["encoding"]["x"] = {"field": "x", "type": "quantitative"} | change
    assert list(axes_of_numbers(chart)) == ["y"]


def test_an_entry_of_a_legend_singles_its_marks_out() -> None:
    found = interactive(POINTS)
    (pick,) = (each for each in found["params"] if each.get("bind") == "legend")
    assert pick["select"]["fields"] == ["kind"]
    opacity = found["encoding"]["opacity"]
    assert opacity["condition"] == {"test": {"and": [{"param": pick["name"]}]}, "value": 0.9}
    assert opacity["value"] < 0.1


def test_a_legend_of_one_entry_has_nothing_to_select() -> None:
    chart = copy.deepcopy(POINTS)
    chart["encoding"]["color"]["scale"] = {"domain": ["a"]}
    assert "opacity" not in interactive(chart)["encoding"]


def test_charts_of_a_page_still_compile(small_run: Any, models: Any) -> None:
    for figure in {one.section: one for one in draw(gather(small_run, models))}.values():
        chart = interactive(figure.spec) | {"config": palette.chart_config(), "width": 600}
        assert "NaN" not in bundle.svg(chart), figure.key


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        ([], 0),
        ([{"x": 1, "y": 2}], 1),
        ([{"x": 1, "y": 2}, {"x": 1, "y": 3}], 1),
        ([{"x": 1, "y": 2}, {"x": 2, "y": None}], 1),
        ([{"x": 1, "y": 2}, {"x": 2, "y": 3}], 2),
    ],
)
def test_places_over_an_axis_of_numbers_are_counted_once(rows: list[dict[str, Any]], places: int) -> None:
    assert spec.places({**POINTS, "data": {"values": rows}}) == places


def test_in_rows_every_mark_counts() -> None:
    chart = copy.deepcopy(POINTS)
    chart["encoding"]["y"] = {"field": "kind", "type": "nominal"}
    chart["data"]["values"] = [{"x": 1, "kind": "a"}, {"x": 1, "kind": "b"}]
    assert spec.places(chart) == 2
