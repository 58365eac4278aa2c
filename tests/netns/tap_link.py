"""A link of two namespaces with a bridge between them, for the tap's engine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from pyroute2 import IPRoute

from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace

engine = pytest.importorskip("weirlab._engine", reason="the engine is not built")
LEFT, A = Port("left", "02:00:00:00:00:01", "", ""), Port("wa", "02:00:00:00:00:0a", "", "")
RIGHT, B = Port("right", "02:00:00:00:00:02", "", ""), Port("wb", "02:00:00:00:00:0b", "", "")
BROADCAST = b"\xff" * 6
UNUSED_TYPE = b"\x88\xb5"
"""Local experimental, IEEE 802: no kernel says anything to it."""


SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
ROOM_BYTES = 64 << 20


@dataclass
class Link:
    """Hosts on the left and on the right of a bridge, and one that logs; sockets on all three."""

    namespace: str
    left: socket.socket
    right: socket.socket
    logger: socket.socket
    ends: dict[str, Namespace]

    @contextmanager
    def tap(self, **options: Any) -> Iterator[Any]:
        tap = engine.Tap(a=A.name, b=B.name, netns=self.namespace, **options)
        try:
            yield tap
        finally:
            tap.close()


def _wire(bridge: Namespace, near: Port, far_end: Namespace, far: Port) -> None:
    far_fd = os.open(far_end.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        bridge.call(lambda: interface.create_pair(near, far, far_fd, 1500))
    finally:
        os.close(far_fd)
    for namespace, port in ((bridge, near), (far_end, far)):
        namespace.call(partial(_bring_up, port.name))
    far_end.call(lambda: interface.set_offloads(far.name, gro=True))


def _bring_up(name: str) -> None:
    with IPRoute() as netlink:
        netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")


def _set_mtu(name: str, mtu_bytes: int) -> None:
    with IPRoute() as netlink:
        netlink.link("set", index=netlink.link_lookup(ifname=name)[0], mtu=mtu_bytes)


def _listen(name: str) -> socket.socket:
    """Sends and receives whole frames; sees none of its own."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, 33, ROOM_BYTES)  # SO_RCVBUFFORCE
    opened.settimeout(10.0)
    opened.bind((name, 0))
    return opened


def frame(length: int, *, to: bytes = BROADCAST, kind: bytes = UNUSED_TYPE, seed: int = 0) -> bytes:
    head = to + bytes.fromhex("020000000001") + kind
    return head + bytes((seed + 7 * i) % 256 for i in range(length - len(head)))


def take(listening: socket.socket, count: int) -> list[bytes]:
    """The next test frames; what the kernel sends of its own does not count."""
    taken: list[bytes] = []
    while len(taken) < count:
        data = listening.recv(16_384)
        if data[12:14] in (UNUSED_TYPE, b"\x08\x06"):
            taken.append(data)
    return taken
