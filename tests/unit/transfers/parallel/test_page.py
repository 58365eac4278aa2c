"""The page about a run."""

from __future__ import annotations

import pytest

from weirlab.report.story import Story
from weirlab.store import Store
from weirlab.transfers.parallel.fakes import FakeParallelBed
from weirlab.transfers.parallel.study import ParallelStudy

from .test_study import run, scenario


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    made = run(Store(tmp_path_factory.mktemp("store")), FakeParallelBed(), scenario(repetitions=1)).run
    return ParallelStudy().page(made)


def test_the_page_begins_with_the_least_share_and_has_a_chapter_per_kind_of_case(story: Story) -> None:
    assert story.answer.startswith("Of what independent streams carry together in 4 cases, MPTCP carries")
    assert [chapter.key for chapter in story.chapters] == ["shares", "case-2", "case-3", "memory", "attempts"]
    assert story.tiles[0].value == "100 %"
    assert "every byte was compared" in story.assurance
    assert not story.warning


def test_every_case_is_drawn_as_bars_and_over_time_by_path(story: Story) -> None:
    keys = [figure.key for figure in story.figures]
    assert keys == [
        "shares-goodput", "shares-time", "shares-paths", "case-2-goodput", "case-2-time", "case-2-paths",
        "case-3-goodput", "case-3-time", "case-3-competitors", "case-3-paths", "memory-peaks",
    ]  # fmt: skip
    figures = {figure.key: figure for figure in story.figures}
    bars = figures["shares-goodput"].data
    assert bars["row"].unique(maintain_order=True).to_list() == [
        "10 Mbit/s + 90 Mbit/s",
        "50 Mbit/s + 50 Mbit/s",
    ]
    assert "round-robin 20 %" in bars["label"].to_list()
    assert set(figures["case-3-paths"].data["series"]) == {"path 1", "path 2", "competitor"}
    assert figures["shares-goodput"].title == (
        "MPTCP carries at least 100 % of the sum, round-robin as little as 20 %."
    )
    assert (
        figures["case-2-paths"].title
        == "With earliest, path 1 carries 47.8 Mbit/s and path 2 carries 35.9 Mbit/s."
    )
    for figure in story.figures:
        type(figure.chart).from_dict(figure.chart.to_dict())  # Checked against the schema.
