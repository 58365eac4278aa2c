"""What the page is made from: a run's tables ``capacity`` and ``inside``, and what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from weirlab.report.numbers import rules


@dataclass(frozen=True)
class Findings:
    """A run about capacity.

    Parameters
    ----------
    manifest:
        The run's, as a mapping.
    trials, inside:
        Its tables ``capacity`` and ``inside``; the latter is empty where the device was not looked into.
    found:
        What it keeps under ``capacity``: ``sweep``, ``search``, ``predicted``, ``counters``.
    """

    manifest: Mapping[str, Any]
    trials: pl.DataFrame
    inside: pl.DataFrame
    found: Mapping[str, Any]

    @property
    def valid(self) -> pl.DataFrame:
        """The trials that count, with the rules in words; in order of rules and calls."""
        rows = self.trials.filter("valid").sort("position", "calls", "index")
        names = {position: rules(position) for position in rows["position"].unique().to_list()}
        return rows.with_columns(setup=pl.col("position").replace_strict(names, return_dtype=pl.String))

    @property
    def positions(self) -> list[int]:
        """Matching positions with a valid trial, ascending."""
        return [int(p) for p in self.trials.filter("valid")["position"].unique().sort().to_list()]

    @property
    def simulated(self) -> bool:
        """Was the device a model in software?"""
        return (self.manifest.get("facts") or {}).get("lab") == "sim"


@dataclass(frozen=True)
class Verdict:
    """Most calls at one position by one goal: measured, and predicted."""

    position: int
    goal: str
    mos: float | None
    calls: int | None
    """Measured by the search, or (without loss) by the sweep; None where even the fewest were too many."""
    too_many: int | None
    at_least: bool
    pps: float | None
    by: str
    """``search`` or ``sweep``."""
    predicted: int | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """``400 rules, without loss``."""
        return f"{rules(self.position)}, {self.goal}"

    @property
    def off(self) -> float:
        """Predicted over measured, less 1; NaN where they cannot be compared."""
        if self.predicted is None or not self.calls or self.at_least:
            return math.nan
        return self.predicted / self.calls - 1


def verdicts(findings: Findings) -> list[Verdict]:
    """One per position and goal, as far as they were measured."""
    return list(_verdicts(findings.found))


def _verdicts(found: Mapping[str, Any]) -> Iterator[Verdict]:
    predicted = {(one["position"], one["goal"]["name"]): one["calls"] for one in found.get("predicted") or ()}
    searched = set()
    for one in found.get("search") or ():
        goal = one["goal"]
        searched.add((one["position"], goal["mos"]))
        yield Verdict(
            position=one["position"],
            goal=goal["name"],
            mos=goal["mos"],
            calls=one["calls"],
            too_many=one["too_many"],
            at_least=bool(one["at_least"]),
            pps=one["pps"],
            by="search",
            predicted=predicted.get((one["position"], goal["name"])),
            problem=one.get("problem") or "",
        )
    for one in found.get("sweep") or ():
        if (one["position"], None) in searched:
            continue
        goals = [name for position, name in predicted if position == one["position"] and "loss" in name]
        name = goals[0] if goals else "without loss"
        yield Verdict(
            position=one["position"],
            goal=name,
            mos=None,
            calls=one["carried"],
            too_many=one["dropped"],
            at_least=one["dropped"] is None,
            pps=one["carried_pps"],
            by="sweep",
            predicted=predicted.get((one["position"], name)),
        )
