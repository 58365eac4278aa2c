"""A redundant pair of the user's own, between two ports of this machine."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab.base import TrafficActionRunner
from weirlab.lab.redundant.base import EventKind, Firewall, PairEvent, Transition
from weirlab.lab.remote.changes import carry_out
from weirlab.lab.wired.bed import WiredBed
from weirlab.records import EngineResult, HostSample
from weirlab.traffic.spec import Traffic

FORWARDS_WITHIN_S: Final = 60.0
"""A firewall that restarts may take so long."""


@dataclass(frozen=True)
class ExternalPair:
    """Commands of the user's that switch the pair. What goes on inside, Weir cannot see."""

    soft: str = ""
    """Has the master step down."""
    hard: str = ""
    """Has it die."""
    restore: str = ""
    """Undoes either of them."""

    name: ClassVar = "external"
    preempt: ClassVar = False
    expected_failover_s: ClassVar = (0.0, 0.0)
    patience_s: ClassVar = 0.0

    def check(self) -> list[str]:
        """Programs that are missing, a sentence each."""
        found = []
        for command in filter(None, (self.soft, self.hard, self.restore)):
            try:
                programs.located(shlex.split(command))
            except MissingCapability as error:
                found.append(str(error))
        return found

    def facts(self) -> Mapping[str, object]:
        """The commands."""
        return vars(self)


class ExternalLab:
    """Such a pair as a :class:`~weirlab.calls.failover.switches.plan.PairLab`.

    The test bed stays open when the block ends; a pair that was switched is restored.
    """

    lab = "wired"
    dut = "external"
    looks_inside = False
    expected_failover_s = ExternalPair.expected_failover_s
    transitions: Sequence[Transition] = ()

    def __init__(self, bed: WiredBed, pair: ExternalPair) -> None:
        self._bed, self._pair = bed, pair
        self._beside = TrafficActionRunner()
        self._switched = False
        self._left_before = 0

    @property
    def pair(self) -> ExternalLab:
        return self

    @property
    def backend(self) -> str:
        return self._bed.backend

    @property
    def facts(self) -> Mapping[str, object]:
        return self._bed.facts

    def settle(self) -> None:
        """Wait until the pair forwards; raises ``LabError`` if it does not."""
        limit_s = time.monotonic() + FORWARDS_WITHIN_S
        while not self._bed.forwards():
            if time.monotonic() > limit_s:
                raise LabError(
                    f"the pair has not forwarded for {FORWARDS_WITHIN_S:g} s: does the command 'restore' "
                    "undo what the others do?"
                )

    def run(self, traffic: Traffic, during: Callable[[], object] | None = None) -> EngineResult:
        """As :meth:`RedundantLab.run`; raises ``LabError`` if the pair's addresses moved to another MAC."""
        plan = self._bed.compiled(traffic)
        self._bed.prepare(plan)
        self._left_before = self._bed.left()
        with self._beside.running(during):
            result = self._bed.play_once(plan)
        if moved := self._bed.relocated():
            raise LabError(
                f"{moved}, and Weir goes on sending to the first one: a pair can be measured whose addresses "
                "keep their MAC addresses (VRRP with virtual MACs, CARP)"
            )
        return result

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        """As :meth:`RedundantLab.at`."""
        self._beside.at(event, at_ns)

    def step_down(self) -> PairEvent:
        return self._carried_out("soft", self._pair.soft)

    def cut(self) -> PairEvent:
        return self._carried_out("hard", self._pair.hard)

    def restore(self) -> PairEvent:
        self._switched = False
        return self._carried_out("return", self._pair.restore)

    def _carried_out(self, kind: EventKind, command: str) -> PairEvent:
        began_ns = time.monotonic_ns()
        self._switched = kind != "return"
        try:
            carry_out(shlex.split(command), "did not switch the pair")
        except LabError as error:
            # Not to be repeated: what a command that failed has done to the pair, nobody knows.
            raise InputError(str(error)) from error
        return PairEvent(kind, "", began_ns, time.monotonic_ns() - began_ns, {"command": command})

    def close_admission(self) -> int:
        raise InputError("an external pair has rules of its own: admission stays open")

    def clear_states(self) -> None:
        """They are the pair's own."""

    def master(self) -> Firewall | None:
        """Unknown."""
        return None

    def states(self, firewall: Firewall) -> int:
        """Unknown."""
        return 0

    def calls_begun(self) -> int:
        """Frames that have been sent in this trial: each call sends its first before any its second."""
        return self._bed.left() - self._left_before

    def surviving(self) -> int:
        """Unknown."""
        return 0

    def counters(self) -> dict[str, int]:
        return self._bed.counters()

    def host(self) -> HostSample:
        return self._bed.host()

    def __enter__(self) -> ExternalLab:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._switched:
            self.restore()
