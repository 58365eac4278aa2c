"""Colours: readable in both schemes, and all of them driven by CSS in the page."""

from __future__ import annotations

import pytest

from weirlab.report import palette
from weirlab.transfers.trace.page import story as of_traces

from .contrast import contrast, distance

SCHEMES = {
    "light": (palette.LIGHT, of_traces.LIGHT),
    "dark": (palette.DARK, of_traces.DARK),
}
GROUND = ("paper", "grid")
"""What marks are drawn on."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    colours, _ = SCHEMES[scheme]
    assert min(contrast(colours[name], colours["paper"]) for name in ("ink", "soft")) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_mark_stands_out_from_the_page(scheme: str) -> None:
    """3:1, WCAG 2.2 success criterion 1.4.11."""
    colours, traces = SCHEMES[scheme]
    marks = {name: colour for name, colour in colours.items() if name not in GROUND} | dict(traces)
    weak = {name for name, colour in marks.items() if contrast(colour, colours["paper"]) < 3}
    assert weak == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_windows_edge_looks_unlike_every_retransmission(scheme: str) -> None:
    _, traces = SCHEMES[scheme]
    for kind in ("again", "timeout", "fast", "probe", "unexplained", "reordered", "closed"):
        assert distance(traces["edge"], traces[kind]) > 0.12, kind


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_of_a_cpu_can_be_told_apart(scheme: str) -> None:
    colours, _ = SCHEMES[scheme]
    states = [colours[f"cpu-{state}"] for state in palette.CPU_STATES]
    apart = [distance(one, other) for i, one in enumerate(states) for other in states[:i]]
    assert min(apart) > 0.08


def test_the_schemes_have_the_same_colours() -> None:
    assert of_traces.LIGHT.keys() == of_traces.DARK.keys()
    assert not of_traces.LIGHT.keys() & palette.LIGHT.keys()


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
def test_a_ramp_has_as_many_different_colours_as_asked_for(n: int) -> None:
    assert len(set(palette.ramp(n))) == n


def test_every_palette_colour_becomes_a_variable_that_both_schemes_define() -> None:
    driven = palette.css_driven({"range": [palette.LIGHT["ink"], "#123456"], "n": 3})
    assert driven == {"range": ["var(--ink)", "#123456"], "n": 3}
    assert palette.LIGHT.keys() == palette.DARK.keys()
