"""The page about a run."""

from __future__ import annotations

import polars as pl
import pytest

from weirlab.calls.ipsec.endpoints.fakes import FakeEndpointBed
from weirlab.calls.ipsec.endpoints.study import EndpointsStudy
from weirlab.calls.ipsec.published import quality
from weirlab.report.story import Story
from weirlab.store import Store

from .test_study import run, scenario


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return EndpointsStudy().page(
        run(Store(tmp_path_factory.mktemp("store")), FakeEndpointBed(), scenario()).run
    )


def test_the_page_begins_with_the_comparison_and_has_a_chapter_for_each_question(story: Story) -> None:
    assert story.answer.startswith("5 calls, with ESP")
    assert [chapter.key for chapter in story.chapters] == ["jitter", "distributions", "limits", "attempts"]
    assert [tile.label for tile in story.tiles][:2] == ["bypass, idle", "sockets, idle"]
    assert "were compared byte by byte" in story.assurance
    assert "copy mode" in story.where_note


def test_jitter_is_drawn_beside_the_published_one_and_distributions_end_with_the_maximum(
    story: Story,
) -> None:
    figures = {figure.key: figure for figure in story.figures}
    assert [*figures] == [
        "jitter-idle", "jitter-hog", "delta-idle", "delta-hog", "distribution-jitter", "distribution-delay",
        "distribution-lateness",
    ]  # fmt: skip
    longest = figures["delta-hog"].data.filter(pl.col("row").str.starts_with("published"))["value"]
    assert longest.to_list() == [old.delta_max_ms * 1e3 for old in quality()]
    rows = figures["jitter-idle"].data["row"].unique(maintain_order=True).to_list()
    assert rows[:3] == ["1 call, bypass", "1 call, sockets", "1 call, sockets, real-time"]
    assert rows[-2:] == [f"published: {each.what}" for each in quality()]
    delays = figures["distribution-delay"].data
    for _, series in delays.group_by("series"):
        assert series["share"].max() == 1.0
        assert series["share"].is_sorted(descending=True)
    assert "99.9 % of the packets stay below" in figures["distribution-delay"].title
    for figure in story.figures:
        type(figure.chart).from_dict(figure.chart.to_dict())  # Checked against the schema.
