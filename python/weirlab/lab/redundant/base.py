"""The parts of a redundant pair: its participants, the address protocol, its events, and its transitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines import machine

Firewall = Literal["a", "b"]


FIREWALLS: Final[tuple[Firewall, ...]] = ("a", "b")
"""``a`` is the preferred master."""


Side = Literal["lan", "wan"]


SIDES: Final[tuple[Side, ...]] = ("lan", "wan")
"""``lan`` is the sender's side, from which calls are admitted."""


Role = Literal["master", "backup"]


ROLES: Final[tuple[Role, ...]] = ("master", "backup")
"""Roles of a firewall, for each side."""


EventKind = Literal["soft", "hard", "return"]
"""The master steps down, it dies, or a dead firewall comes back."""


class FirewallMachine(machine.Machine):
    """The programs of one firewall; ``firewall`` says which one."""

    def __init__(
        self, firewall: Firewall, namespace: Namespace, cpu: int, news: Callable[[str], None]
    ) -> None:
        self.firewall: Firewall = firewall
        super().__init__(f"firewall {firewall}", namespace, cpu, news)


@dataclass(frozen=True)
class PairEvent:
    """Something that was done to the pair; times are CLOCK_MONOTONIC."""

    kind: EventKind
    firewall: Firewall | Literal[""]
    """The firewall it was done to; empty if that is not known."""
    began_ns: int
    took_ns: int
    """Time until the last command was carried out, not until the pair had reacted."""
    detail: Mapping[str, int | str]
    """Details of its steps; times in ns count from ``began_ns``, e.g. ``links_down_ns`` of a cut."""

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
        """The master when both firewalls work."""

    @property
    def expected_failover_s(self) -> tuple[float, float]:
        """How long after the preferred master's sudden death the other one takes over: earliest, latest.

        Follows from the protocol's timers and depends on when the last advertisement was sent.
        """

    @property
    def patience_s(self) -> float:
        """The longest time that a firewall that hears nothing waits before it becomes master."""

    @property
    def ends_to_step_down(self) -> bool:
        """Whether a master steps down by ending its daemons."""

    def links(self, side: Side) -> tuple[str, ...]:
        """Names of the interfaces on which packets of ``side`` may arrive."""

    def check(self) -> list[str]:
        """What is missing to use it, one sentence each with the remedy."""

    def facts(self) -> Mapping[str, object]:
        """Version and settings."""

    def start(self, machine: FirewallMachine, scripts: Mapping[Role, str]) -> None:
        """Start the daemons; ``scripts`` run when the firewall takes their role."""

    def lower(self, machine: FirewallMachine) -> str:
        """Have the master step down; returns how."""

    def raise_again(self, machine: FirewallMachine, other: FirewallMachine) -> str:
        """Undo :meth:`lower`; returns how."""

    def role(self, news: str) -> tuple[Side, Role] | None:
        """Side and role in a line that a daemon reported; None if it has none."""
