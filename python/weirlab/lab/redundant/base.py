"""What a redundant pair is made of: what shares the addresses, what shares the states, what happened when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weirlab.lab.redundant.machine import Machine
from weirlab.lab.redundant.terms import EventKind, Firewall, Role, Side


@dataclass(frozen=True)
class Event:
    """Something that was done to the pair; times are CLOCK_MONOTONIC."""

    kind: EventKind
    firewall: Firewall
    """Whom it was done to."""
    began_ns: int
    took_ns: int
    """Until the last command was carried out; not until the pair had reacted."""
    detail: Mapping[str, int | str]
    """What is known of its steps; those in ns count from ``began_ns``, e.g. ``links_down_ns`` of a cut."""

    @property
    def ended_ns(self) -> int:
        return self.began_ns + self.took_ns


@dataclass(frozen=True)
class Transition:
    """A firewall got or lost the virtual address of a side; CLOCK_MONOTONIC."""

    at_ns: int
    firewall: Firewall
    side: Side
    holds: bool


class AddressProtocol(Protocol):
    """Which of the two firewalls holds the virtual addresses; see ``Keepalived`` and ``Ucarp``."""

    @property
    def name(self) -> str:
        """``keepalived`` or ``ucarp``."""

    @property
    def preferred(self) -> Firewall:
        """Who is master when both are well."""

    @property
    def expected_failover_s(self) -> tuple[float, float]:
        """How long after the preferred master's sudden death the other one takes over: earliest, latest.

        By the protocol's own timers: it depends on when the last advertisement was sent.
        """

    @property
    def patience_s(self) -> float:
        """How long a firewall that hears nothing waits, at most, before it becomes master."""

    @property
    def ends_to_step_down(self) -> bool:
        """Whether a master steps down by ending its daemons."""

    def links(self, side: Side) -> tuple[str, ...]:
        """Names of the interfaces by which packets of ``side`` may come in."""

    def check(self) -> list[str]:
        """What is missing to use it, one sentence each with the way out."""

    def facts(self) -> Mapping[str, object]:
        """Version and settings."""

    def start(self, machine: Machine, scripts: Mapping[Role, str]) -> None:
        """Start the daemons; ``scripts`` are run when the firewall becomes what they are for."""

    def lower(self, machine: Machine) -> str:
        """Let the master step down; how."""

    def raise_again(self, machine: Machine, other: Machine) -> str:
        """Undo :meth:`lower`; how."""

    def role(self, news: str) -> tuple[Side, Role] | None:
        """What a line that a daemon reported says of a side; None where it says nothing."""
