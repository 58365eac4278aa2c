"""How many calls per second the engines of a numbering plan set up, and the tables of a load test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import NotMet, Undecided
from weirlab.base.quantities import count, words
from weirlab.numbering.through.rows import PassageRow, silent

if TYPE_CHECKING:
    from weirlab.store import Run


TRIALS: Final = "voice_trials"
WORK: Final = "voice_work"
LIMITS: Final = "voice_limits"


@dataclass(frozen=True)
class LoadTrialRow:
    """A trial: calls to one number at one rate."""

    index: int
    """Number of the trial in its run, from 0."""
    number: str
    """What was dialled."""
    rate_per_s: int
    """Calls to start per second."""
    calls: int
    """Calls that were started."""
    unsent: int
    """Calls that the caller was too slow to start."""
    failed: int
    """Calls that were not answered, or broke off."""
    slow: int
    """Calls whose set-up took longer than the limit."""
    retransmissions: int
    """Messages that the caller sent again."""
    setup_p50_ms: float
    """Median set-up time, from INVITE to 200: the upper end of its class."""
    setup_p99_ms: float
    """99th percentile of the set-up time: the upper end of its class; null above all classes."""
    media_calls: int
    """Calls with speech during the trial that were heard in both directions."""
    media_lost_ratio: float
    """Share of their packets that were lost, in both directions."""
    media_mos: float
    """Lowest MOS of these calls in either direction, without network delay."""
    media_jitter_ms: float = math.nan
    """Highest mean jitter (RFC 3550) of these calls in either direction."""

    @property
    def bad(self) -> int:
        """Calls that failed or were slow."""
        return self.failed + self.slow


@dataclass(frozen=True)
class WorkRow:
    """The work of an engine during a trial."""

    index: int
    """Number of the trial."""
    engine: str
    """The engine; `named` for the name server, `sipp` for callers and callees, `other work` for all programs
    but the lab's."""
    program: str
    """Its program: `kamailio`, `named`, `sipp`."""
    cpu_share: float
    """CPU time of all its processes over the time of the trial; 1 is a whole core."""


@dataclass(frozen=True)
class LoadLimitRow:
    """What the search found for a number."""

    number: str
    """What was dialled."""
    way: str
    """Engines in the order of the plan."""
    decided: str
    """What each proxy decides by in the plan."""
    carried_per_s: float
    """Highest rate of calls that met the goal; null if even the lowest did not."""
    too_many_per_s: float
    """Lowest rate that did not meet it; null if even the highest did."""
    at_least: bool
    """No higher rate could be offered, or other work disturbed it: the engines may carry more."""
    problem: str
    """Why nothing was found; empty otherwise."""
    translation: str = ""
    """Protocols between which gateways translate, as in `SIP to H.323 to SIP`; empty without a gateway."""
    no_load: str = ""
    """Why the number cannot be called many times; empty if it can."""


@dataclass(frozen=True)
class LoadFindings:
    """Every trial of a run, and the results."""

    plan: str
    trials: tuple[LoadTrialRow, ...]
    work: tuple[WorkRow, ...]
    limits: tuple[LoadLimitRow, ...]
    device: str = ""
    """The device that the calls passed; empty for none."""
    passed: tuple[PassageRow, ...] = ()
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
