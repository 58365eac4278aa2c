"""What holds for the pages of every kind of run and of captures: names, contrast, no empty places, order."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from weirlab.base.quantities import NOTHING
from weirlab.devices.profile.page import gather
from weirlab.devices.profile.page import tell as tell_profile
from weirlab.report import export, palette, spec
from weirlab.report.story import Story

from .contrast import contrast, over
from .every_story import DATE, stories
from .outline import Outline, charts
from .shares import cells, said, shares

KINDS = (
    "profile",
    "capacity",
    "failover",
    "monitor",
    "search",
    "rfc2544",
    "calls",
    "quality",
    "trace",
    "voice",
    "parallel",
    "voice_load",
    "endpoints",
)
DEVICES = {
    "profile": "iptables-legacy",
    "capacity": "iptables-legacy",
    "failover": "keepalived",
    "monitor": "tap and tcpdump",
    "search": "nftables",
    "rfc2544": "nftables",
    "calls": "simulated",
    "quality": "calls.pcap",
    "trace": "connection 0 in made.pcap",
    "voice": "numbering plan campus",
    "parallel": "parallel sockets",
    "voice_load": "numbering plan campus",
    "endpoints": "endpoints of calls",
}
MARKS = ("point", "line", "rule", "bar", "rect", "area")


class Made:
    """Pages by kind, each made once."""

    def __init__(self, stories: dict[str, Callable[[], Story]]) -> None:
        self._stories = stories
        self.story = cache(self._story)
        self.html = cache(self._html)
        self.outline = cache(self._outline)
        self.charts = cache(self._charts)

    def _story(self, kind: str) -> Story:
        return self._stories[kind]()

    def _html(self, kind: str) -> str:
        return self.story(kind).html()

    def _outline(self, kind: str) -> Outline:
        return Outline(self.html(kind))

    def _charts(self, kind: str) -> dict[str, Any]:
        return charts(self.html(kind))


@pytest.fixture(scope="module")
def made_pages(small_run: Any, models: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(stories(small_run, models, tmp_path_factory.mktemp("pages")))


@pytest.mark.parametrize("kind", KINDS)
def test_the_title_holds_device_and_date(made_pages: Made, kind: str) -> None:
    title = made_pages.outline(kind).title
    assert DEVICES[kind] in title.lower()
    assert DATE in title


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_in_a_headline_is_in_a_table(made_pages: Made, kind: str) -> None:
    story = made_pages.story(kind)
    assert shares(said(story)) <= shares(cells(story))


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_has_a_name_and_a_description_of_its_own(made_pages: Made, kind: str) -> None:
    if kind == "trace":
        pytest.skip("its graphs are drawn by their script: test_in_browser.py")
    outline = made_pages.outline(kind)
    drawn = outline.having("role", "img")
    names = [each["aria-label"] for each in drawn]
    assert len(names) >= 2
    assert all(names)
    assert len(set(names)) == len(names)
    texts = outline.texts()
    described = [texts[str(each["aria-describedby"])] for each in drawn]
    assert all(len(text) > 10 for text in described)
    embedded = made_pages.charts(kind)["figures"]
    assert {key: figure["spec"]["description"] for key, figure in embedded.items()} == {
        each["id"]: each["aria-label"] for each in drawn if "plot" in str(each["class"]).split()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_button_has_a_name_of_its_own(made_pages: Made, kind: str) -> None:
    names = made_pages.outline(kind).names_of("button")
    assert all(len(name) > 2 for name in names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_and_tables_have_names(made_pages: Made, kind: str) -> None:
    outline = made_pages.outline(kind)
    for role in ("group", "region"):
        assert all(given.get("aria-label") for given in outline.having("role", role))
    ids = [given["id"] for _, given in outline.elements if "id" in given]
    assert len(set(ids)) == len(ids)
    named = {given["aria-labelledby"] for _, given in outline.elements if "aria-labelledby" in given}
    assert named <= set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_no_tile_is_empty(made_pages: Made, kind: str) -> None:
    outline = made_pages.outline(kind)
    pairs = list(zip(outline.elements, outline.content, strict=True))
    shown = [text.strip() for (_, given), text in pairs if given.get("class") == "value"]
    assert shown
    assert not {"", NOTHING} & set(shown)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_graph_comes_before_all_that_is_read_later(made_pages: Made, kind: str) -> None:
    """Between the answer and the first graph stand its own heading and sentences, no sheet and no table."""
    outline = made_pages.outline(kind)
    classes = [str(given.get("class") or given.get("id") or "").split() for _, given in outline.elements]
    graph = next(i for i, words in enumerate(classes) if {"plot", "canvas", "graphs-here"} & set(words))
    before = classes[: graph + 1]
    assert not any({"facts", "dense", "said"} & set(words) for words in before)
    assert not any(tag in ("table", "details") for tag, _ in outline.elements[:graph])


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_shows_more_than_one_point(made_pages: Made, kind: str) -> None:
    for figure in made_pages.story(kind).figures:
        assert spec.places(figure.spec) > 1, figure.key


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_chart_fits_into_a_list_without_axes_and_words(made_pages: Made, kind: str) -> None:
    opening = made_pages.story(kind).opening
    if opening is None or not opening.drawn:
        pytest.skip("it begins with graphs or a drawing")
    image = export.sketch(opening.drawn[0])
    assert image.startswith(b"\x89PNG")
    assert struct.unpack(">II", image[16:24]) == (192, 56)
    assert len(image) < 10_000
    begin = image.index(b"IDAT") + 4
    pixels = zlib.decompressobj().decompress(image[begin:])
    assert len(set(pixels)) > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_marks_stand_out_from_the_page(made_pages: Made, kind: str, scheme: str) -> None:
    """At least 3:1 (WCAG 2.2, 1.4.11), with the opacity that they are drawn with."""
    colours = palette.LIGHT if scheme == "light" else palette.DARK
    for key, figure in made_pages.charts(kind)["figures"].items():
        for layer in spec.layers(figure["spec"]):
            for name, opacity in _drawn(layer):
                seen = over(colours[name], colours["paper"], opacity)
                assert contrast(seen, colours["paper"]) >= 3, (key, layer["mark"], name, opacity)


def _drawn(layer: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Colours of a layer's marks and how opaque they are; of filled areas with an edge the edge counts."""
    mark = layer["mark"]
    if mark["type"] not in MARKS or mark.get("color") == "var(--paper)":
        return
    strength = (
        layer["encoding"].get("opacity", {}).get("condition", {}).get("value", mark.get("opacity", 1.0))
    )
    # What is as the page is parts marks from each other.
    edged = mark.get("stroke", "var(--paper)") != "var(--paper)" or "stroke" in layer["encoding"]
    if edged:
        strength *= mark.get("strokeOpacity", 1.0)
    colours = [mark[name] for name in ("stroke" if edged else "fill", "color") if name in mark]
    for channel in ("color", "stroke"):
        definition = layer["encoding"].get(channel, {})
        colours += (definition.get("scale") or {}).get("range", ())
        colours += [definition["value"]] if "value" in definition else []
    assert colours, mark
    for colour in colours:
        found = re.fullmatch(r"var\(--([a-z0-9-]+)\)", colour)
        assert found, colour
        yield found[1], strength


@pytest.mark.parametrize("kind", KINDS)
def test_legends_select(made_pages: Made, kind: str) -> None:
    for key, figure in made_pages.charts(kind)["figures"].items():
        listed = {
            definition["field"]
            for layer in spec.layers(figure["spec"])
            for channel in ("color", "shape", "strokeDash")
            if (definition := layer["encoding"].get(channel, {})).get("legend", {}) is not None
            and definition.get("type") == "nominal"
            and len(definition["scale"]["domain"]) > 1
        }
        bound = {
            field
            for layer in spec.layers(figure["spec"])
            for param in layer.get("params", ())
            if param.get("bind") == "legend"
            for field in param["select"]["fields"]
        }
        assert bound == listed, key


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "trace"])
def test_charts_can_be_looked_at_closer(made_pages: Made, kind: str) -> None:
    outline, embedded = made_pages.outline(kind), made_pages.charts(kind)["figures"]
    zoomed = [
        given["data-zoom"] for tag, given in outline.elements if tag == "button" and "data-zoom" in given
    ]
    with_axes = [
        key
        for key, figure in embedded.items()
        if any(param["name"].endswith("_from") for param in figure["spec"].get("params", ()))
    ]
    assert len(zoomed) == 3 * len(with_axes)
    assert with_axes


def test_tables_of_errors_are_folded(made_pages: Made) -> None:
    html = made_pages.html("profile")
    assert html.index("<summary>Errors on single held-out trials</summary>") < html.index(
        "<caption>Errors on"
    )


def test_a_single_point_is_told_in_a_sentence_instead(small_run: Any) -> None:
    evidence = gather(small_run, {})
    single = replace(evidence, profile=evidence.profile.head(1), heldout=evidence.heldout.head(0))
    told = tell_profile(single)
    # How its packets were delayed is more than a point.
    assert [figure.section for figure in told.figures] == ["distribution"]
    delay = next(chapter for chapter in told.chapters if chapter.key == "delay")
    assert not delay.empty
    assert delay.figures[0].title in delay.sentences


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
def test_an_unfinished_run_is_told_before_its_answer(made_pages: Made, status: str) -> None:
    story = made_pages.story("failover")
    html = replace(story, manifest={**story.manifest, "status": status}, caution="Mind the gap.").html()
    assert "The run" in html.split("Mind the gap.")[0]
    assert html.index("this is what it ha") < html.index("Mind the gap.") < html.index("<h1")


def test_a_run_of_an_emulated_device_says_so_before_its_answer(made_pages: Made) -> None:
    story = made_pages.story("failover")
    facts = {**(story.manifest.get("facts") or {}), "dut_emulated": True}
    html = replace(story, manifest={**story.manifest, "facts": facts}).html()
    said = "The device&#39;s CPU was emulated (QEMU without KVM)"
    assert said in html.split("<h1")[0]
    assert said not in story.html()


def test_entries_of_a_legend_without_a_colour_take_one_of_the_scheme(made_pages: Made) -> None:
    config = made_pages.charts("failover")["config"]["legend"]
    assert config["symbolBaseFillColor"] == config["labelColor"]
