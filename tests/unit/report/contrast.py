"""How far colours are apart, by WCAG 2.2 and by OKLab (B. Ottosson, 2020)."""

from __future__ import annotations


def _linear(colour: str) -> list[float]:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours ``#rrggbb``, 1 to 21."""
    luminance = [
        0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in map(_linear, (one, other))
    ]
    return (max(luminance) + 0.05) / (min(luminance) + 0.05)


def over(colour: str, ground: str, opacity: float) -> str:
    """``colour`` as it looks on ``ground``."""
    pairs = ((int(c[i : i + 2], 16) for c in (colour, ground)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(opacity * top + (1 - opacity) * below):02x}" for top, below in pairs)


def distance(one: str, other: str) -> float:
    """Distance in OKLab: 0.02 is just noticeable, black and white are 1 apart."""
    pairs = zip(_oklab(one), _oklab(other), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


def _oklab(colour: str) -> tuple[float, float, float]:
    red, green, blue = _linear(colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )
