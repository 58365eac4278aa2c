"""How many calls per second the engines of a plan set up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weirlab.base.errors import NotMet, Undecided
from weirlab.base.quantities import count, words
from weirlab.numbering.load.rows import LoadLimitRow, LoadTrialRow, WorkRow
from weirlab.numbering.through.rows import DeviceRow, silent

if TYPE_CHECKING:
    from weirlab.store import Run


@dataclass(frozen=True)
class LoadFindings:
    """Every trial of a run, and the results."""

    plan: str
    trials: tuple[LoadTrialRow, ...]
    work: tuple[WorkRow, ...]
    limits: tuple[LoadLimitRow, ...]
    device: str = ""
    """The device that the calls passed; empty for none."""
    passed: tuple[DeviceRow, ...] = ()
    """Packets that passed the device."""

    @property
    def sentence(self) -> str:
        """The conclusion, in a sentence."""
        sentences = [limit_sentence(limit) for limit in self.limits if not limit.no_load]
        without: dict[str, list[str]] = {}
        for limit in self.limits:
            if limit.no_load:
                without.setdefault(limit.no_load, []).append(limit.translation or limit.number)
        sentences += [f"no rate for {words(names)}: {reason}" for reason, names in without.items()]
        through = f"Through {self.device}{silent(self.passed, 'trial')}, " if self.device else ""
        return through + "; ".join(sentences) + "."

    def at_limit(self, limit: LoadLimitRow) -> list[LoadTrialRow]:
        """The trials of a number at the highest rate that met the goal."""
        return [row for row in self.of(limit) if row.rate_per_s == limit.carried_per_s]

    def of(self, limit: LoadLimitRow) -> list[LoadTrialRow]:
        """All trials of a number."""
        return [row for row in self.trials if row.number == limit.number]

    def work_of(self, trial: LoadTrialRow) -> list[WorkRow]:
        """The work of the engines in a trial."""
        return [row for row in self.work if row.index == trial.index]

    def document(self) -> dict[str, Any]:
        found = {"plan": self.plan, "limits": self.limits, "trials": self.trials, "work": self.work}
        device = {"device": {"name": self.device, "packets": self.passed}} if self.device else {}
        return {**found, **device}

    def problem(self, run: Run | None) -> NotMet | Undecided | None:
        """The error to raise if a number has no result.

        Calls that this host could not make say nothing about the engines.
        """
        without = [limit for limit in self.limits if math.isnan(limit.carried_per_s) and not limit.no_load]
        if not without:
            return None
        message = "; ".join(limit_sentence(limit) for limit in without)
        return Undecided(message) if all(limit.problem for limit in without) else NotMet(message)


def limit_sentence(limit: LoadLimitRow) -> str:
    """The result for a number: ``+420111222001 (core: public): 640 calls/s``."""
    told = ", ".join(filter(None, (limit.translation, limit.decided)))
    by = f" ({told})" if told else ""
    if limit.no_load:
        return f"{limit.number}{by} has no rate: {limit.no_load}"
    if limit.problem:
        return f"{limit.number}{by}: {limit.problem}"
    if math.isnan(limit.carried_per_s):
        return f"{limit.number}{by}: even {count(limit.too_many_per_s)} calls/s are too many"
    least = "at least " if limit.at_least else ""
    return f"{limit.number}{by}: {least}{count(limit.carried_per_s)} calls/s"
