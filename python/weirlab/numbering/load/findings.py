"""How many calls per second the engines of a plan set up: rows, findings and tables of a load test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import NotMet, Undecided
from weirlab.base.quantities import NOTHING, count, decimals, duration, percent, words
from weirlab.base.tables import Table
from weirlab.numbering.lab.device import PassageRow, device_table, silent

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


_LIMITS: Final = (
    "Number", "Translation", "Decided", "Carried", "Too many", "Set-up", "p99", "Lost", "Jitter", "MOS",
    "Engines' cores",
)  # fmt: skip


def limits(found: LoadFindings) -> Table:
    """A row per number."""
    cells = [
        (
            limit.number,
            limit.translation or NOTHING,
            limit.decided or NOTHING,
            carried(limit),
            count(limit.too_many_per_s),
            *_at_limit(found, limit),
        )
        for limit in found.limits
        if not limit.no_load
    ]
    title = "Calls per second; set-up, speech and work at the highest rate carried"
    return Table(title, _LIMITS, cells, spare=("Decided", "Engines' cores", "Lost", "Jitter"))


def not_loaded(found: LoadFindings) -> Table | None:
    """A row per number that cannot be called many times; None if there are none."""
    cells = [
        (limit.number, limit.translation or NOTHING, limit.no_load) for limit in found.limits if limit.no_load
    ]
    return Table("Not loaded", ("Number", "Translation", "Reason"), cells) if cells else None


def carried(limit: LoadLimitRow) -> str:
    """``at least 640``."""
    return f"{'at least ' if limit.at_least else ''}{count(limit.carried_per_s)}"


def _at_limit(found: LoadFindings, limit: LoadLimitRow) -> tuple[str, ...]:
    """Median and 99th percentile of the set-up time, loss, jitter, MOS, work: of the last good trial."""
    last = next((row for row in reversed(found.at_limit(limit)) if not row.unsent), None)
    if last is None:
        return (NOTHING,) * 6
    work = ", ".join(
        f"{row.engine} {percent(row.cpu_share, 2)}" for row in found.work_of(last) if row.program != "sipp"
    )
    return classed(last.setup_p50_ms), classed(last.setup_p99_ms), *_media(last), work or NOTHING


def _media(row: LoadTrialRow) -> tuple[str, str, str]:
    """Loss, jitter and MOS of the calls with speech."""
    lost = percent(row.media_lost_ratio)
    return lost, duration(row.media_jitter_ms * 1e6), decimals(row.media_mos)


def classed(upper_ms: float) -> str:
    """A class of set-up times by its upper end: ``< 5 ms``."""
    return NOTHING if math.isnan(upper_ms) else f"< {duration(upper_ms * 1e6)}"


def trials(found: LoadFindings) -> Table:
    """A row per trial."""
    columns = (
        "Number", "Calls/s", "Calls", "Unsent", "Failed", "Slow", "Set-up", "p99", "Lost", "Jitter", "MOS",
        "Cores",
    )  # fmt: skip
    cells = [(*_trial(row), _cores(found, row)) for row in found.trials]
    return Table("Trials", columns, cells, details=True)


def through(found: LoadFindings) -> Table | None:
    """Two rows per trial: the packets that passed the device; None if there is none."""
    titles = {row.index: f"{row.number}, {count(row.rate_per_s)} calls/s" for row in found.trials}
    return device_table(found.passed, "Trial", titles, found.device)


def _trial(row: LoadTrialRow) -> tuple[str, ...]:
    counts = (row.rate_per_s, row.calls, row.unsent, row.failed, row.slow)
    return (
        row.number,
        *map(count, counts),
        classed(row.setup_p50_ms),
        classed(row.setup_p99_ms),
        *_media(row),
    )


def _cores(found: LoadFindings, trial: LoadTrialRow) -> str:
    """CPU time of all engines, without SIPp."""
    used = sum(row.cpu_share for row in found.work_of(trial) if row.program != "sipp")
    return percent(used, 2)
