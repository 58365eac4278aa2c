"""The parts of a redundant pair: participants, address protocol, events, and who has which address."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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

_RTMGRP_IPV4_IFADDR: Final = 0x10
_RTM_NEWADDR: Final = 20
_RTM_DELADDR: Final = 21
_IFA_LOCAL: Final = 2
_MESSAGE: Final = struct.Struct("=IHHII")
_ADDRESS_BYTES: Final = 8
"""Of struct ifaddrmsg."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_BUFFER_BYTES: Final = 1 << 20


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


class AddressWatch:
    """Notes every change of the virtual addresses from construction to :meth:`close`.

    Parameters
    ----------
    namespaces:
        Namespace of each firewall.
    virtual:
        Virtual address of each side.
    """

    def __init__(self, namespaces: Mapping[Firewall, Namespace], virtual: Mapping[Side, str]) -> None:
        self._sides = {address: side for side, address in virtual.items()}
        self._holders: dict[Side, set[Firewall]] = {side: set() for side in SIDES}
        self._transitions: list[Transition] = []
        self._changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._sockets = {firewall: namespace.call(_subscribe) for firewall, namespace in namespaces.items()}
        for firewall, sock in self._sockets.items():
            self._selector.register(sock, selectors.EVENT_READ, firewall)
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._listen, name="weir-addresses", daemon=True)
        self._thread.start()

    @property
    def holders(self) -> dict[Side, frozenset[Firewall]]:
        with self._changed:
            return {side: frozenset(holders) for side, holders in self._holders.items()}

    @property
    def transitions(self) -> list[Transition]:
        with self._changed:
            return [*self._transitions]

    def note(self, at_ns: int, firewall: Firewall, side: Side, holds: bool) -> None:
        """Record a change; does nothing if there is none."""
        with self._changed:
            holders = self._holders[side]
            if holds == (firewall in holders):
                return
            (holders.add if holds else holders.discard)(firewall)
            self._transitions.append(Transition(at_ns, firewall, side, holds))
            self._changed.notify_all()

    def close(self) -> None:
        """May be called twice."""
        if self._waker < 0:
            return
        os.close(self._waker)
        self._waker = -1
        self._thread.join()
        os.close(self._wake)
        self._selector.close()
        for sock in self._sockets.values():
            sock.close()

    def _listen(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                data = self._sockets[key.data].recv(_BUFFER_BYTES)
                now_ns = time.monotonic_ns()
                for added, address in changes(data):
                    if (side := self._sides.get(address)) is not None:
                        self.note(now_ns, key.data, side, added)


def changes(data: bytes) -> Iterator[tuple[bool, str]]:
    """IPv4 addresses that were added (or removed) according to a netlink message."""
    while len(data) >= _MESSAGE.size:
        length, kind, *_ = _MESSAGE.unpack_from(data)
        if length < _MESSAGE.size:
            return
        if kind in (_RTM_NEWADDR, _RTM_DELADDR):
            attributes = data[_MESSAGE.size + _ADDRESS_BYTES : length]
            while len(attributes) >= _ATTRIBUTE.size:
                size, name = _ATTRIBUTE.unpack_from(attributes)
                if size < _ATTRIBUTE.size:
                    return
                if name == _IFA_LOCAL:
                    yield kind == _RTM_NEWADDR, socket.inet_ntoa(attributes[_ATTRIBUTE.size : size])
                attributes = attributes[_padded(size) :]
        data = data[_padded(length) :]


def _padded(length: int) -> int:
    """Netlink aligns messages and attributes to 4 bytes."""
    return (length + 3) & ~3


def _subscribe() -> socket.socket:
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.bind((0, _RTMGRP_IPV4_IFADDR))
    return sock
