"""Connections of H.225.0 and H.245 that never block: TPKTs in, TPKTs out."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.telephone.q931 import TpktReader, packed

_MOST_WAITING: Final = 1 << 16
_READS: Final = 16
"""Most reads of a socket at once, so that other connections get their turn."""
"""Most bytes that the other end has not accepted; a call has far fewer."""


class ConnectionLoss(Exception):
    """The connection is no longer usable; the message says why."""


class TpktConnection:
    """One of them, to ``peer``."""

    def __init__(self, connected: socket.socket, peer: Address, *, waits: bool = False) -> None:
        self.peer = peer
        self.socket = connected
        self.waits = waits
        """The connection is still being made."""
        self._packets = TpktReader()
        self._out = bytearray()
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @classmethod
    def to(cls, peer: Address) -> TpktConnection:
        """A connection that is being made; raises :class:`ConnectionLoss` if it cannot."""
        made = socket.socket(family(peer.host), socket.SOCK_STREAM)
        connection = cls(made, peer, waits=True)
        refused = made.connect_ex(peer)
        if refused not in (0, errno.EINPROGRESS):
            made.close()
            raise ConnectionLoss(f"no connection to {peer.host}, port {peer.port}: {os.strerror(refused)}")
        return connection

    @property
    def writes(self) -> bool:
        """Is there something to send, or is the connection being made?"""
        return self.waits or bool(self._out)

    def send(self, content: bytes) -> None:
        """Send a message as soon as possible."""
        self._out += packed(content)

    def pump(self) -> Iterator[bytes]:
        """Send what can be sent and return what has arrived; raises ``ConnectionLoss``, ``NoMessage``."""
        if self.waits and not self._there():
            return
        self._send()
        # Anything beyond that waits for the next turn.
        for _ in range(_READS):
            try:
                content = self.socket.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise ConnectionLoss(f"the connection to {self.peer.host} broke: {error.strerror}") from None
            if not content:
                raise ConnectionLoss(f"{self.peer.host} closed the connection")
            yield from self._packets.take(content)

    def close(self) -> None:
        """Send what can be sent at once, and close the connection."""
        if not self.waits:
            with suppress(ConnectionLoss, OSError):
                self._send()
                self.socket.shutdown(socket.SHUT_WR)
                # Unread data resets a connection when it is closed, and the other end gets nothing.
                for _ in range(_READS):
                    if not self.socket.recv(1 << 16):
                        break
        self.socket.close()

    def _there(self) -> bool:
        try:
            self.socket.getpeername()
        except OSError as error:
            wrong = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if wrong or error.errno != errno.ENOTCONN:
                why = os.strerror(wrong or error.errno or 0)
                raise ConnectionLoss(
                    f"no connection to {self.peer.host}, port {self.peer.port}: {why}"
                ) from None
            return False
        self.waits = False
        return True

    def _send(self) -> None:
        while self._out:
            try:
                sent = self.socket.send(self._out)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise ConnectionLoss(f"the connection to {self.peer.host} broke: {error.strerror}") from None
            del self._out[:sent]
        if len(self._out) > _MOST_WAITING:
            raise ConnectionLoss(f"{self.peer.host} does not accept what is sent")


def family(host: str) -> socket.AddressFamily:
    """That of an address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def listening(here: Address) -> socket.socket:
    """A socket at which connections are taken."""
    made = socket.socket(family(here.host), socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(here)
        made.listen()
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def datagrams(here: Address) -> socket.socket:
    """A socket for datagrams."""
    made = socket.socket(family(here.host), socket.SOCK_DGRAM)
    try:
        made.bind(here)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
