"""Colours and chart style: one light palette in the charts, swapped for the dark one by CSS.

Charts use plain light colours, so they look right wherever they are drawn. The page
replaces every such colour by a CSS variable (:func:`css_driven`); the browser then follows
``prefers-color-scheme`` and print without redrawing anything.

The ramp for rule counts runs from blue over violet and rose to orange, with monotone lightness in
both schemes (readable with any colour vision); models and CPU states use the set of Okabe and Ito
(2008). Every distinction by colour is repeated by shape, dash or position.
"""

from __future__ import annotations

from typing import Any, Final

_RAMP_LIGHT: Final = ("#1d2f8f", "#6a2bb0", "#b03a86", "#cd4a33", "#c26900")
_RAMP_DARK: Final = ("#6f9bff", "#b18cff", "#ee86b8", "#ff9d78", "#ffc95c")
_RAMP_STEPS: Final = 13


def _interpolated(anchors: tuple[str, ...], steps: int) -> tuple[str, ...]:
    channels = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in anchors]
    colours = []
    for step in range(steps):
        place = step / (steps - 1) * (len(anchors) - 1)
        left = min(int(place), len(anchors) - 2)
        share = place - left
        mixed = (round(a + (b - a) * share) for a, b in zip(channels[left], channels[left + 1], strict=True))
        colours.append("#" + "".join(f"{c:02x}" for c in mixed))
    return tuple(colours)


_NAMED_LIGHT: Final = {
    "ink": "#1b2026",
    "soft": "#59626d",
    "grid": "#e3e7ec",
    "paper": "#fefefe",
    "model-a": "#0072b2",
    "model-b": "#c8500a",
    "model-c": "#00795a",
    "cpu-user": "#00865f",
    "cpu-nice": "#6d8c1c",
    "cpu-system": "#0071b1",
    "cpu-irq": "#cd5500",
    "cpu-softirq": "#a57200",
    "cpu-iowait": "#5f6a77",
    "cpu-steal": "#b8559a",
    "cpu-idle": "#8a939e",
}
_NAMED_DARK: Final = {
    "ink": "#eceff3",
    "soft": "#a5afbb",
    "grid": "#303844",
    "paper": "#171c23",
    "model-a": "#56b4e9",
    "model-b": "#ff9550",
    "model-c": "#3fd0a4",
    "cpu-user": "#1fb98c",
    "cpu-nice": "#a9c55a",
    "cpu-system": "#4fa8e0",
    "cpu-irq": "#e8762c",
    "cpu-softirq": "#f0b73a",
    "cpu-iowait": "#b3bdc9",
    "cpu-steal": "#dd93ba",
    "cpu-idle": "#6e7986",
}

LIGHT: Final[dict[str, str]] = _NAMED_LIGHT | {
    f"ramp-{i}": colour for i, colour in enumerate(_interpolated(_RAMP_LIGHT, _RAMP_STEPS))
}
DARK: Final[dict[str, str]] = _NAMED_DARK | {
    f"ramp-{i}": colour for i, colour in enumerate(_interpolated(_RAMP_DARK, _RAMP_STEPS))
}
_NAME_OF: Final = {colour: name for name, colour in LIGHT.items()}
assert len(_NAME_OF) == len(LIGHT), "two roles share a colour: css_driven could not tell them apart"

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
CPU_STATES: Final = ("steal", "irq", "softirq", "system", "user", "nice", "iowait", "idle")
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


def ramp(n: int) -> list[str]:
    """``n`` colours spread evenly over the ramp, for ordered series."""
    if n < 2:
        return [LIGHT["ramp-0"]]
    return [LIGHT[f"ramp-{round(i * (_RAMP_STEPS - 1) / (n - 1))}"] for i in range(n)]


def shapes(n: int) -> list[str]:
    """``n`` point shapes, repeating only beyond seven series."""
    return [SHAPES[i % len(SHAPES)] for i in range(n)]


def cpu(states: list[str]) -> list[str]:
    """The colours of CPU states."""
    return [LIGHT[f"cpu-{state}"] for state in states]


def models(n: int) -> list[str]:
    """Colours of ``n`` models in the order of their names' appearance."""
    names = ("model-a", "model-b", "model-c")
    return [LIGHT[names[i % len(names)]] for i in range(n)]


def dashes(n: int) -> list[list[float]]:
    """``n`` line dashes, from solid to dotted, repeating only beyond four lines."""
    patterns = ([1.0, 0.0], [7.0, 3.0], [4.0, 3.0], [2.0, 2.0])
    return [patterns[i % len(patterns)] for i in range(n)]


def chart_config() -> dict[str, Any]:
    """The Vega-Lite configuration that all charts share, in light colours on a clear background."""
    text = {"labelFont": FONT, "titleFont": FONT, "labelColor": LIGHT["soft"], "titleColor": LIGHT["soft"]}
    axis = text | {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": LIGHT["grid"],
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "labelOverlap": "greedy",
    }
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 2,
        "view": {"stroke": None},
        "axis": axis,
        # A title above the axis leaves the width to the data on a phone and needs no rotated text.
        "axisY": {
            "titleAngle": 0,
            "titleAlign": "left",
            "titleAnchor": "end",
            "titleBaseline": "bottom",
            "titleX": 0,
            "titleY": -8,
        },
        "axisX": {"titlePadding": 10, "domain": True, "domainColor": LIGHT["soft"], "grid": False},
        "legend": text
        | {
            "orient": "top",
            "direction": "horizontal",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 4,
            "columnPadding": 14,
            "rowPadding": 4,
            "symbolStrokeWidth": 2,
            "symbolSize": 70,
            "symbolBaseFillColor": LIGHT["soft"],
            "symbolBaseStrokeColor": LIGHT["soft"],
            "labelLimit": 270,
            "titleLimit": 340,
            "offset": 30,
            "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 8}},
        },
        "title": {
            "font": FONT,
            "subtitleFont": FONT,
            "fontSize": 15,
            "subtitleFontSize": 12,
            "color": LIGHT["ink"],
            "subtitleColor": LIGHT["soft"],
            "anchor": "start",
            "frame": "group",
            "offset": 16,
            "subtitlePadding": 6,
            "lineHeight": 20,
        },
        "line": {"strokeWidth": 1.8},
        "point": {"filled": True, "size": 46, "opacity": 0.85},
    }


def css_driven(value: Any) -> Any:
    """``value`` (a chart as JSON) with every palette colour replaced by its CSS variable."""
    if isinstance(value, dict):
        return {key: css_driven(item) for key, item in value.items()}
    if isinstance(value, list):
        return [css_driven(item) for item in value]
    if isinstance(value, str) and value in _NAME_OF:
        return f"var(--{_NAME_OF[value]})"
    return value


def css_variables(scheme: dict[str, str]) -> str:
    """Declarations of all palette variables, for a CSS rule."""
    return " ".join(f"--{name}: {colour};" for name, colour in scheme.items())
