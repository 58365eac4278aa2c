"""What a search left in its run, in the page's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from weirlab.report.numbers import SPACE, rate, rules

SEARCH: Final = "search"
"""Label of the trials that look for a bound."""

Point = Mapping[str, Any]


@dataclass(frozen=True)
class Searched:
    """A run of kind ``search`` or ``rfc2544``.

    ``found`` is the run's result: a mapping per setting, as ``weirlab.measure`` writes it. ``trials`` are
    all attempts.
    """

    manifest: Mapping[str, Any]
    trials: pl.DataFrame
    found: Sequence[Point]

    @property
    def device(self) -> str:
        return str((self.manifest.get("facts") or {}).get("dut", "device"))

    @property
    def lab(self) -> str:
        return str((self.manifest.get("facts") or {}).get("lab", ""))

    @property
    def asked(self) -> Mapping[str, Any]:
        """What the scenario says about the search or the tests."""
        scenario = self.manifest.get("scenario") or {}
        return dict(scenario.get(self.manifest.get("kind", "")) or {})

    @property
    def spoiled(self) -> pl.DataFrame:
        return self.trials.filter(~pl.col("valid"))

    def of(self, point: Point, label: str = SEARCH) -> pl.DataFrame:
        """Attempts in the setting of ``point``, in order."""
        same = (
            (pl.col("position") == point["position"])
            & (pl.col("stateful") == point["stateful"])
            & (pl.col("sizes_text") == point["sizes_text"])
        )
        return self.trials.filter(same & (pl.col("label") == label)).sort("index", "attempt")

    def where(self, point: Point) -> str:
        """``64-byte frames, 100 rules``."""
        text = str(point["sizes_text"])
        frames = f"{int(text):,}-byte frames" if text.isdigit() else f"frames {text}"
        if self.device in ("ruleset", "none"):
            return frames
        state = ", stateful" if point["stateful"] else ""
        return f"{frames}, {rules(point['position'])}{state}"


def goals(point: Point) -> list[Mapping[str, Any]]:
    """What was found for each goal of a setting, in order."""
    return list(point.get("goals") or [])


def carried(found: Mapping[str, Any]) -> str:
    """``702 kpps``, ``at least 1.80 Mpps``, ``less than 1.00 kpps``."""
    pps = found["conditional_throughput_pps"]
    if pps is None:
        return f"less than {rate(found['upper_pps'])}" if found["upper_pps"] else "nothing"
    return f"{'at least ' if found['at_least'] else ''}{rate(pps)}"


def interval(found: Mapping[str, Any]) -> str:
    """Between which loads the bound lies, to the packet."""
    lower, upper = found["lower_pps"], found["upper_pps"]
    if lower is None:
        return f"too much even at {upper:,.0f}{SPACE}pps, the lowest load tried"
    if found["at_least"] or upper is None:
        return f"{lower:,.0f}{SPACE}pps was the highest load that could be offered"
    # With a loss let pass, less is forwarded than offered.
    what = "at a load between" if found["goal"]["loss_ratio"] else "between"
    return f"{what} {lower:,.0f} and {upper:,.0f}{SPACE}pps"
