"""Two runs, or two groups of runs, compared: did the device become slower? Pure.

:mod:`weirlab.model.comparing.matching` finds what both measured alike, :mod:`weirlab.model.comparing.scatter`
knows how far runs of one device are from each other, and :mod:`weirlab.model.comparing.verdicts` says what
follows. ``docs/ci.md`` explains it.
"""

from __future__ import annotations

from weirlab.model.comparing.matching import QUANTITIES, Compared, Match, Place, contrast, digest
from weirlab.model.comparing.scatter import Scatter, Source
from weirlab.model.comparing.verdicts import Finding, Terms, Verdict, compare, overall

__all__ = [
    "QUANTITIES",
    "Compared",
    "Finding",
    "Match",
    "Place",
    "Scatter",
    "Source",
    "Terms",
    "Verdict",
    "compare",
    "contrast",
    "digest",
    "overall",
]
