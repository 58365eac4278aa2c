"""Charts of a report that share one axis: what is done to one is done to all."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from weirlab.report import axes
from weirlab.report.figure import Figure
from weirlab.report.story import Chapter, Story
from weirlab.report.vega import alt

from . import devtools

FRAME = pl.DataFrame({"at": [0.0, 5.0, 10.0], "value": [1.0, 3.0, 2.0]})


def figure(key: str, linked: str, most: float) -> Figure:
    scale = axes.linear((0.0, most))
    x, y = alt.X("at:Q", scale=scale), alt.Y("value:Q", scale=axes.linear((0.0, 4.0)))
    lines = alt.Chart(axes.data(FRAME)).mark_line().encode(x=x, y=y)
    chart = alt.LayerChart(layer=[lines], **axes.framed(120))
    return Figure(key, "s", "", f"Chart {key}.", "", "", chart, FRAME, linked=linked)


@pytest.fixture
def page(browser: devtools.Browser, tmp_path: Path) -> devtools.Page:
    """Two charts with one axis, and one without."""
    figures = (figure("one", "time", 10.0), figure("two", "time", 10.0), figure("alone", "", 10.0))
    chapter = Chapter("c", "Charts", figures=figures)
    story = Story(subject="", answer="Linked.", tiles=(), chapters=(chapter,))
    (tmp_path / "page.html").write_text(story.html())
    page = browser.session(width=1000, height=1500)
    page.open((tmp_path / "page.html").as_uri())
    page.wait_for("document.querySelectorAll('.plot svg').length === 3")
    return page


PLACE = """(() => {
  const box = document.getElementById('one').querySelector('svg').getBoundingClientRect();
  return [box.left + box.width * 0.5, box.top + box.height * 0.4, box.width * 0.2];
})()"""


def labels(key: str) -> str:
    """What the axes of a chart say, in an order of its own: Vega appends what comes anew."""
    texts = f"[...document.querySelectorAll('#{key} .role-axis-label text')]"
    return f"{texts}.map((each) => each.textContent).sort().join(' ')"


def test_a_drag_in_one_chart_narrows_those_with_its_axis(page: devtools.Page) -> None:
    before = page.evaluate(labels("one"))
    assert before == page.evaluate(labels("two")) == page.evaluate(labels("alone"))
    x, y, width = page.evaluate(PLACE)

    def mouse(kind: str, at: float) -> None:
        page.call("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", clickCount=1)

    mouse("mouseMoved", x)
    marks = "[...document.querySelectorAll('.moment')].map((each) => [each.hidden, each.style.left])"
    one, two = page.evaluate(marks)
    assert one == two
    assert not one[0]
    mouse("mousePressed", x)
    mouse("mouseMoved", x + width)
    mouse("mouseReleased", x + width)
    page.wait_for(f"{labels('two')} !== '{before}' && {labels('two')} === {labels('one')}")
    assert page.evaluate(labels("alone")) == before
    page.evaluate("document.querySelector('[data-figure=one] [data-zoom=whole]').click()")
    page.wait_for(f"{labels('two')} === '{before}' && {labels('one')} === '{before}'")
    assert page.browser.problems() == []
