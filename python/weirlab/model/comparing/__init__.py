"""Two runs, or two groups of runs, compared: did the device become slower? Pure.

:mod:`weirlab.model.comparing.matching` finds the settings that both measured,
:mod:`weirlab.model.comparing.scatter` knows how much runs of one device differ, and
:mod:`weirlab.model.comparing.verdicts` draws the conclusion. ``docs/ci.md`` explains it.
"""

from __future__ import annotations

from weirlab.model.comparing.matching import QUANTITIES, Compared, ComparisonSetting, digest
from weirlab.model.comparing.verdicts import ComparisonFinding, ComparisonTerms, Verdict, compare, overall

__all__ = [
    "QUANTITIES", "Compared", "ComparisonFinding", "ComparisonSetting", "ComparisonTerms", "Verdict",
    "compare", "digest", "overall",
]  # fmt: skip
