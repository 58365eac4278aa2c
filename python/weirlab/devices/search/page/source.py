"""What a search stored in its run, in the page's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from weirlab.devices.search.rfc2544.suite import Result, Rfc2544Suite
from weirlab.measure.search.goal import GoalResult, SearchGoal
from weirlab.measure.search.throughput import Point, SearchShape, Setting
from weirlab.report.numbers import SPACE, rate, rules

SEARCH: Final = "search"
"""Label of the trials that look for a bound."""


@dataclass(frozen=True)
class SearchRunEvidence:
    """A run of kind ``search`` or ``rfc2544``; ``trials`` are all attempts."""

    manifest: Mapping[str, Any]
    trials: pl.DataFrame
    shape: SearchShape

    @property
    def device(self) -> str:
        return str((self.manifest.get("facts") or {}).get("dut", "device"))

    @property
    def lab(self) -> str:
        return str((self.manifest.get("facts") or {}).get("lab", ""))

    @property
    def spoiled(self) -> pl.DataFrame:
        return self.trials.filter(~pl.col("valid"))

    def of(self, setting: Setting, label: str = SEARCH) -> pl.DataFrame:
        """Attempts in ``setting``, in order."""
        same = (
            (pl.col("position") == setting.rules.position)
            & (pl.col("stateful") == setting.rules.stateful)
            & (pl.col("sizes_text") == setting.sizes_text)
        )
        return self.trials.filter(same & (pl.col("label") == label)).sort("index", "attempt")

    def where(self, setting: Setting) -> str:
        """``64-byte frames, 100 rules``."""
        text = setting.sizes_text
        frames = f"{int(text):,}-byte frames" if text.isdigit() else f"frames {text}"
        return frames if self.device in ("ruleset", "none") else f"{frames}, {setup(setting)}"


@dataclass(frozen=True)
class ThroughputEvidence(SearchRunEvidence):
    """A search, and what it found in each setting."""

    points: Sequence[Point]
    goals: Sequence[SearchGoal]


@dataclass(frozen=True)
class Rfc2544Evidence(SearchRunEvidence):
    """Tests of RFC 2544, and what they found in each setting."""

    results: Sequence[Result]
    suite: Rfc2544Suite


def setup(setting: Setting) -> str:
    """``100 rules, stateful``."""
    return rules(setting.rules.position) + (", stateful" if setting.rules.stateful else "")


def carried(found: GoalResult) -> str:
    """``702 kpps``, ``at least 1.80 Mpps``, ``less than 1.00 kpps``."""
    pps = found.conditional_throughput_pps
    if pps is None:
        return f"less than {rate(found.upper_pps)}" if found.upper_pps else "nothing"
    return f"{'at least ' if found.at_least else ''}{rate(pps)}"


def interval(found: GoalResult) -> str:
    """Between which loads the bound lies, to the packet."""
    lower, upper = found.lower_pps, found.upper_pps
    if lower is None:
        return f"too much even at {upper:,.0f}{SPACE}pps, the lowest load tried"
    if found.at_least or upper is None:
        return f"{lower:,.0f}{SPACE}pps was the highest load that could be offered"
    # With a loss let pass, less is forwarded than offered.
    what = "at a load between" if found.goal.loss_ratio else "between"
    return f"{what} {lower:,.0f} and {upper:,.0f}{SPACE}pps"
