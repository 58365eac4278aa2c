"""The colours of the graphs by meaning, in both schemes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "data": "#1f6fb2",
    "ack": "#1f8a4c",
    "edge": "#39424d",
    "sack": "#5f8f14",
    "dsack": "#b03a86",
    "again": "#c8500a",
    "timeout": "#c3142d",
    "fast": "#cf5c00",
    "probe": "#7a3fbf",
    "unexplained": "#8a6d00",
    "reordered": "#0e8080",
    "closed": "#8a1023",
    "stamp": "#7a7f2b",
}
DARK: Final[Mapping[str, str]] = {
    "data": "#6cb2f0",
    "ack": "#54c983",
    "edge": "#d5dde6",
    "sack": "#a5c84a",
    "dsack": "#ee86b8",
    "again": "#ff9550",
    "timeout": "#ff6b7d",
    "fast": "#ffab4a",
    "probe": "#bd93ff",
    "unexplained": "#e3c64a",
    "reordered": "#4fd6d6",
    "closed": "#ff4d62",
    "stamp": "#c9cf74",
}
