"""What was done to the pair, what the pair did about it, and what its timers allowed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from weirlab.base.errors import LabError
from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.plan import CALM_NS, Kind, PairLab, Timing
from weirlab.lab.redundant.base import SIDES, PairEvent, Transition
from weirlab.store.catalogue import utc_now

CALLS_STAND_WITHIN_S: Final = 10.0
_LOOK_EVERY_NS: Final = 50_000_000

Clock = Callable[[], int]
"""CLOCK_MONOTONIC in ns."""


@dataclass(frozen=True)
class SwitchClocks:
    """The clocks of a switch; tests bring their own."""

    ns: Clock = time.monotonic_ns
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], datetime] = utc_now

    def seconds(self) -> float:
        """``ns`` in seconds."""
        return self.ns() / NS_PER_S


CLOCKS: Final = SwitchClocks()


@dataclass
class Occurrence:
    """An event with everything that the pair says about it; filled in while the trial runs."""

    kind: Kind
    event: PairEvent | None = None
    old_master: str = ""
    new_master: str = ""
    expected_s: tuple[float, float] = (0.0, 0.0)
    states_known: int = 0
    """Connection states at the master when admission was closed."""
    states_surviving: int = 0
    """Of these, those at the new master when the trial was over."""
    states_new_master: int = 0
    transitions: tuple[Transition, ...] = ()
    moves: bool = True
    """Is the other firewall to become master?"""
    closed: bool = True
    """Was admission closed, so that a stream can only go on if its state is known?"""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sudden_ns(self) -> int:
        """How long it took until nothing went through a firewall that was cut off: how sudden its death was.

        Its daemons may take longer to end; nobody hears of them any more.
        """
        assert self.event is not None
        return int(self.event.detail.get("links_down_ns", self.event.took_ns))

    def moved_ns(self, side: str) -> float | None:
        """When another firewall held the address of ``side``, from the event; None if none ever did."""
        assert self.event is not None
        for change in self.transitions:
            if change.at_ns < self.event.began_ns or change.side != side or not change.holds:
                continue
            if change.firewall != self.old_master:
                return float(change.at_ns - self.event.began_ns)
        return None

    def switched_by_ns(self, timing: Timing) -> float:
        """By when everything has happened that belongs to the switch: a second after the addresses moved."""
        moved_ns = self.all_moved_ns()
        return timing.affected_s * NS_PER_S if moved_ns is None else moved_ns + CALM_NS

    def all_moved_ns(self) -> float | None:
        """When the last of the addresses had moved."""
        moved = [self.moved_ns(side) for side in SIDES]
        known = [ns for ns in moved if ns is not None]
        return max(known) if len(known) == len(SIDES) else None


def expected_s(kind: Kind, lab: PairLab) -> tuple[float, float]:
    """How long the protocol's timers let the address be nobody's: earliest and latest, in s.

    Only a sudden death is waited for; a master that steps down or takes over says so.
    """
    return lab.expected_failover_s if kind == "hard" else (0.0, 0.0)


def bring_about(
    lab: PairLab,
    found: Occurrence,
    connections: int,
    timing: Timing,
    *,
    close: bool,
    clock: Clock,
    early_s: float = 0.0,
) -> Callable[[], None]:
    """What happens beside the traffic: wait until all calls stand, admit no more, and let it happen.

    Raises (when called)
    --------------------
    LabError
        The calls never stood, or there was no master.
    """
    actions = {"soft": lab.pair.step_down, "hard": lab.pair.cut, "return": lab.pair.restore}

    def act() -> None:
        found.event = actions[found.kind]()

    def during() -> None:
        begun_ns = clock()
        master = lab.pair.master()
        if lab.looks_inside and (master is None or master == "both"):
            raise LabError(
                f"the pair has {'two masters' if master else 'no master'} at the beginning of a trial; its "
                "daemons may miss advertisements because the machine is too busy: raise advert_s, or leave "
                "the machine to Weir"
            )
        found.old_master = master or ""
        while lab.calls_begun() < connections:
            if clock() - begun_ns > CALLS_STAND_WITHIN_S * NS_PER_S:
                raise LabError(
                    f"only {lab.calls_begun():,} of {connections:,} connections had reached the pair "
                    f"{CALLS_STAND_WITHIN_S:g} s after they began: check that packets reach the pair "
                    "(weir doctor), that nf_conntrack_max is large enough, or make fewer calls"
                )
            lab.at(_nothing, clock() + _LOOK_EVERY_NS)
        stand_ns = clock()
        found.closed = close
        if lab.looks_inside:
            found.states_known = lab.pair.close_admission() if close else lab.calls_begun()
        event_s = timing.event_s - min(early_s, timing.event_s / 2)
        lab.at(act, stand_ns + round((timing.warmup_s + event_s) * NS_PER_S))

    return during


def _nothing() -> None:
    """What happens while one waits."""


def look_back(lab: PairLab, found: Occurrence) -> None:
    """After the trial: who is master now, what it knows, and when it got the addresses."""
    if not lab.looks_inside:
        return
    assert found.event is not None
    began_ns = found.event.began_ns
    found.transitions = tuple(t for t in lab.pair.transitions if t.at_ns >= began_ns)
    master = lab.pair.master()
    found.new_master = master or "none"
    if master is not None and master != "both":
        found.states_new_master = lab.pair.states(master)
        found.states_surviving = lab.pair.surviving() if found.closed else found.states_new_master
