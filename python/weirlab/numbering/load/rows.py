"""Tables of a load test: its trials, the work of the engines, what was found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

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
