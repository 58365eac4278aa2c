"""Which firewall has which virtual address, and since when, according to the kernel of each firewall."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.redundant.base import SIDES, Firewall, Side, Transition

_RTMGRP_IPV4_IFADDR: Final = 0x10
_RTM_NEWADDR: Final = 20
_RTM_DELADDR: Final = 21
_IFA_LOCAL: Final = 2
_MESSAGE: Final = struct.Struct("=IHHII")
_ADDRESS_BYTES: Final = 8
"""Of struct ifaddrmsg."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_BUFFER_BYTES: Final = 1 << 20


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
