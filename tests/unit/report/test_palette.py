"""Colours: readable in both schemes, and all of them driven by CSS in the page."""

from __future__ import annotations

import pytest

from weirlab.report import palette

_PAGE = {"light": palette.LIGHT["paper"], "dark": palette.DARK["paper"]}


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    colours = palette.LIGHT if scheme == "light" else palette.DARK
    assert min(_contrast(colours[name], _PAGE[scheme]) for name in ("ink", "soft")) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_points_stand_out_from_the_page(scheme: str) -> None:
    colours = palette.LIGHT if scheme == "light" else palette.DARK
    drawn = [value for name, value in colours.items() if name.startswith(("ramp-", "model-"))]
    assert min(_contrast(colour, _PAGE[scheme]) for colour in drawn) >= 2.9


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
def test_a_ramp_has_as_many_different_colours_as_asked_for(n: int) -> None:
    assert len(set(palette.ramp(n))) == n


def test_every_palette_colour_becomes_a_variable_that_both_schemes_define() -> None:
    driven = palette.css_driven({"range": [palette.LIGHT["ink"], "#123456"], "n": 3})
    assert driven == {"range": ["var(--ink)", "#123456"], "n": 3}
    assert palette.LIGHT.keys() == palette.DARK.keys()
