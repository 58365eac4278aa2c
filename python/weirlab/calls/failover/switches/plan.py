"""A redundant pair as it is measured, which of its switches to measure, and in which order. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np

from weirlab.base.closing import Closable
from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.external import ExternalPair
from weirlab.lab.redundant.base import Firewall, PairEvent, Transition
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.records import EngineResult, HostSample
from weirlab.traffic.spec import Traffic

Kind = Literal["soft", "hard", "return"]
KINDS: Final[Mapping[str, str]] = {"soft": "steps down", "hard": "dies", "return": "comes back"}
"""What the master does, by kind of event."""

_SHARING: Final[Mapping[str, str]] = {
    "direct": "",
    "cached": ", external cache",
    "off": ", no conntrackd",
    "unknown": "",
}
"""What is not usual about conntrackd, by the word that scenarios use for it."""


AT_ONCE: Final = Conntrackd()
"""States go into the other firewall's kernel at once."""


@dataclass(frozen=True)
class PairSpec:
    """What shares the addresses, what shares the connection states, and whether addresses are translated."""

    protocol: Keepalived | Ucarp | ExternalPair
    states: Conntrackd = AT_ONCE
    nat: bool = False
    name: str = ""
    """What the user calls it; left out: :attr:`text` tells."""

    @property
    def advert_s(self) -> float:
        """Time between two advertisements; 0 if it is not known."""
        if isinstance(self.protocol, ExternalPair):
            return 0.0
        return self.protocol.advert_s if isinstance(self.protocol, Keepalived) else self.protocol.advbase_s

    @property
    def preempt(self) -> bool:
        """Does the preferred firewall take over again when it comes back?"""
        return self.protocol.preempt

    @property
    def sharing(self) -> Literal["direct", "cached", "off", "unknown"]:
        """How states get to the other firewall's kernel."""
        if isinstance(self.protocol, ExternalPair):
            return "unknown"
        if self.states.mode == "off":
            return "off"
        return "cached" if self.states.external_cache else "direct"

    @property
    def text(self) -> str:
        """For people: ``keepalived 0.1 s``, ``ucarp 1 s, no conntrackd``."""
        nat = ", NAT" if self.nat else ""
        if isinstance(self.protocol, ExternalPair):
            return self.name or "your own pair"
        return self.name or f"{self.protocol.name} {self.advert_s:g} s{_SHARING[self.sharing]}{nat}"

    def to_json(self) -> dict[str, Any]:
        """All settings in plain values."""
        return {
            "text": self.text,
            "protocol": self.protocol.name,
            "advert_s": self.advert_s,
            "sharing": self.sharing,
            "nat": self.nat,
            "settings": asdict(self.protocol),
            "states": asdict(self.states),
        }


def named_event(pair: str, kind: str) -> str:
    """``keepalived 0.1 s, master dies``."""
    return f"{pair}, master {KINDS[kind]}"


class PairControls(Protocol):
    """What a switch does to a pair; see :class:`~weirlab.lab.redundant.pair.FirewallPair`."""

    @property
    def transitions(self) -> Sequence[Transition]: ...

    def settle(self) -> object: ...

    def close_admission(self) -> int: ...

    def step_down(self) -> PairEvent: ...

    def cut(self) -> PairEvent: ...

    def restore(self) -> PairEvent: ...

    def master(self) -> Firewall | Literal["both"] | None: ...

    def states(self, firewall: Firewall) -> int: ...

    def surviving(self) -> int: ...

    def clear_states(self) -> None: ...


class PairLab(Protocol):
    """What a switch needs of ``weirlab.calls.failover.lab.RedundantLab``; see there."""

    @property
    def lab(self) -> str: ...

    @property
    def dut(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, object]: ...

    @property
    def looks_inside(self) -> bool:
        """Whether master and connection states are known."""

    @property
    def expected_failover_s(self) -> tuple[float, float]: ...

    @property
    def pair(self) -> PairControls: ...

    def run(self, traffic: Traffic, during: Callable[[], object] | None = None) -> EngineResult: ...

    def at(self, event: Callable[[], object], at_ns: int) -> None: ...

    def calls_begun(self) -> int:
        """How many calls have reached the pair since its traffic began; at least so many."""

    def counters(self) -> dict[str, int]: ...

    def host(self) -> HostSample: ...

    def __enter__(self) -> PairLab: ...

    def __exit__(self, *exc: object) -> None: ...


OpenPair = Callable[[PairSpec], AbstractContextManager[PairLab]]


class PairBed(Closable):
    """A pair as a :class:`~weirlab.lab.base.TestBed`, so that a switch is a trial like any other."""

    def __init__(self, lab: PairLab) -> None:
        self.pair_lab = lab
        self.during: Callable[[], object] | None = None
        """What happens beside the next traffic."""

    @property
    def lab(self) -> str:
        return self.pair_lab.lab

    @property
    def dut(self) -> str:
        return self.pair_lab.dut

    @property
    def backend(self) -> str:
        return self.pair_lab.backend

    @property
    def facts(self) -> Mapping[str, object]:
        return self.pair_lab.facts

    def set_rules(self, rules: object) -> None:
        """The pair has its own rules."""

    def set_cross_traffic(self, on: bool) -> None:
        """Nobody manages the pair meanwhile."""

    def run(self, traffic: Traffic) -> EngineResult:
        return self.pair_lab.run(traffic, self.during)

    def counters(self) -> dict[str, int]:
        return self.pair_lab.counters()

    def host(self) -> HostSample:
        return self.pair_lab.host()

    def close(self) -> None:
        """The pair is closed by whoever opened it."""


IN_FLIGHT_NS: Final = 20_000_000
"""Packets that departed so shortly before the event may have been lost by it."""

CALM_NS: Final = NS_PER_S
"""How long after the last call is back order has returned, too."""


@dataclass(frozen=True)
class Timing:
    """The course of a trial, in s."""

    warmup_s: float = 0.5
    event_s: float = 3.0
    """From when all calls stand, and the warm-up has passed, to the event, at most: it comes up to an
    advertisement (and half of this) earlier, see ``Planned.early_s``."""
    after_s: float = 13.0
    """From the event to the end; at least."""
    affected_s: float = 10.0
    """The conversation that the event falls on: what callers heard in so long from it on."""
    last_part_s: float = 2.0
    """Streams that are heard within this time before the end are alive."""
    settled_calls_s: float = 1.5
    """Allowed from the beginning of the traffic until all calls stand."""

    @property
    def duration_s(self) -> float:
        """Recorded time."""
        return self.settled_calls_s + self.event_s + self.after_s

    def needed_s(self, latest_s: float) -> float:
        """How much of a trial must follow the event; the timers may take up to ``latest_s``."""
        return max(self.affected_s, self._over_s(latest_s)) + self.last_part_s

    def check(self, latest_s: float, what: str) -> None:
        """Raise ``InputError`` where the trial ends too soon after the pair called ``what`` takes over.

        ``latest_s`` is how long that may take by the pair's own timers.
        """
        needed_s = self.needed_s(latest_s)
        if self.after_s < needed_s - 1e-9:
            why = (
                f"its timers take up to {latest_s:.3g} s"
                if self._over_s(latest_s) > self.affected_s
                else f"what is heard in {self.affected_s:g} s from the event on is told by itself"
            )
            raise InputError(
                f"{what}: a trial that ends {self.after_s:g} s after the event is too short: {why}, and the "
                f"last {self.last_part_s:g} s tell which calls are alive; give at least "
                f"{math.ceil(needed_s - 1e-9)} s (after_s, --after)"
            )

    @staticmethod
    def _over_s(latest_s: float) -> float:
        """By when a switch is over that takes a fifth longer than its timers say."""
        return latest_s * 1.2 + CALM_NS / NS_PER_S


USUAL_TIMING: Final = Timing()


@dataclass(frozen=True)
class SwitchWindows:
    """Parts of a trial; from and to in ns from the event. ``after`` is empty where not all was over."""

    before: tuple[float, float]
    affected: tuple[float, float]
    during: tuple[float, float]
    after: tuple[float, float]

    def named(self) -> dict[str, tuple[float, float]]:
        """Every window by its name."""
        return {"before": self.before, "affected": self.affected, "during": self.during, "after": self.after}

    def absolute(self, window: tuple[float, float], event_ns: int) -> tuple[int, int]:
        """``window`` on the clock that ``event_ns`` was read from."""
        return event_ns + round(window[0]), event_ns + round(window[1])


def windows(begin_ns: float, end_ns: float, resumed_ns: float, affected_ns: float) -> SwitchWindows:
    """The parts of a trial that was recorded from ``begin_ns`` to ``end_ns``, counted from the event.

    ``resumed_ns`` is when the last stream that came back was back; 0 where none was interrupted.
    """
    over = min(max(resumed_ns, 0.0) + CALM_NS, end_ns)
    return SwitchWindows(
        before=(max(begin_ns, -affected_ns), 0.0),
        affected=(0.0, min(affected_ns, end_ns)),
        during=(0.0, over),
        after=(over, end_ns),
    )


BUILD_S = 6.0
"""What it takes to build a pair and have it agree on a master, beside its timers; experience corrects it."""


@dataclass(frozen=True)
class FailoverPlan:
    """One switch to measure; ``repetition`` counts from 1.

    ``early_s`` is by how much the event comes before its time: somewhere between two advertisements, not
    always at the same place, which settles how long the other firewall waits.
    """

    index: int
    pair: PairSpec
    kind: Kind
    repetition: int
    early_s: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.pair.text}: {self.kind}, run {self.repetition}"


def plan(
    pairs: Sequence[PairSpec], kinds: Sequence[Kind], repetitions: int, seed: int
) -> tuple[FailoverPlan, ...]:
    """Every kind of event with every pair, ``repetitions`` times.

    Round by round, so that a host that slowly changes treats all alike; within a round at random.
    """
    rng = np.random.default_rng(seed)
    every = [(pair, kind) for pair in pairs for kind in kinds]
    found: list[FailoverPlan] = []
    for repetition in range(1, repetitions + 1):
        for i in rng.permutation(len(every)):
            pair, kind = every[i]
            early_s = float(rng.uniform(0, pair.advert_s))
            found.append(FailoverPlan(len(found), pair, kind, repetition, early_s))
    return tuple(found)


def expected_s(planned: FailoverPlan, timing: Timing) -> float:
    """Expected wall time of one undisturbed switch, building the pair included."""
    latest_s = planned.pair.protocol.expected_failover_s[1]
    waits = 2 if planned.kind == "return" else 1
    return timing.warmup_s + timing.duration_s + BUILD_S + waits * latest_s


def estimate_s(switches: Iterable[FailoverPlan], timing: Timing) -> float:
    """Expected wall time of all ``switches`` when none has to be repeated."""
    return sum(expected_s(planned, timing) for planned in switches)
