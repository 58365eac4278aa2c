"""A call with its sockets, which never block: call signalling, H.245, speech; TPKTs in, TPKTs out."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from weirlab.numbering.gatekeeper.ras import Address, NoMessage
from weirlab.numbering.lab.line import RtpSpeech
from weirlab.numbering.telephone import h225, h245
from weirlab.numbering.telephone.call import Call
from weirlab.numbering.telephone.h225 import H225Message, TpktReader, tpkt

_MOST_WAITING: Final = 1 << 16
"""Most bytes that the other end has not accepted; a call has far fewer."""
_READS: Final = 16
"""Most reads of a socket at once, so that other connections get their turn."""


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
        self._out += tpkt(content)

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
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return bound(made, here, listens=True)


def datagrams(here: Address) -> socket.socket:
    """A socket for datagrams."""
    return bound(socket.socket(family(here.host), socket.SOCK_DGRAM), here)


def bound(made: socket.socket, here: Address | str, *, listens: bool = False) -> socket.socket:
    """A socket that has just been made, bound, and never blocking; closed if that fails."""
    try:
        made.bind(here)
        if listens:
            made.listen()
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


MEDIA_PORTS: Final = range(6200, 7000, 2)
"""Ports for speech: ones that the lab takes for RTP, and that SIPp and MGCP lines do not use."""

_PACKETS: Final = 64
"""Most packets of speech that are read at once."""
_PROTOCOL_ERROR: Final = 111
"""Q.850: protocol error, unspecified."""

Tell = Callable[[str], None]
Speech = Mapping[str, tuple[int, int]]
"""RTP payload type, and bytes in a packet of 20 ms, by codec."""


class CallSession:
    """A call, and how it reaches the other end.

    Parameters
    ----------
    host:
        This telephone's address.
    tell:
        Takes every message as a line for the log.
    """

    def __init__(self, host: str, speech: Speech, tell: Tell) -> None:
        self.call: Call | None = None
        self.signalling: TpktConnection | None = None
        self._speech, self._tell = speech, tell
        self._media = _free(host)
        self._listener: socket.socket | None = None
        try:
            self._listener = listening(Address(host, 0))
        except BaseException:
            self._media.close()
            raise
        self.media = Address(host, self._media.getsockname()[1])
        self.control = Address(host, self._listener.getsockname()[1])
        self._controlling: TpktConnection | None = None
        self._open = False
        self._voice: RtpSpeech | None = None
        self.on_setup: Callable[[H225Message], None] | None = None
        """Called with the Setup of an incoming call."""

    @property
    def waited_for(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Sockets to read from, and sockets with something to send."""
        connections = [each for each in (self.signalling, self._controlling) if each is not None]
        reads = [connection.socket for connection in connections if not connection.waits] + [self._media]
        if self._listener is not None:
            reads.append(self._listener)
        return reads, [connection.socket for connection in connections if connection.writes]

    def turn(self, now_s: float) -> None:
        """Do what is due."""
        self._signal(now_s)
        call = self.call
        if call is None:
            return
        call.due(now_s)
        if not call.over:
            self._control(call, now_s)
            self._listen(call, now_s)
            self._speak(call, now_s)
        self.say()

    def say(self) -> None:
        """Send what the call wants to say."""
        call, connection = self.call, self.signalling
        while call is not None and call.out:
            signal = call.out.pop(0)
            if connection is not None:
                self._tell(f">> {signal.title}")
                connection.send(h225.written(signal))
        while call is not None and call.controls and self._controlling is not None:
            message = call.controls.pop(0)
            self._tell(f">> H.245 {h245.title(message)}")
            self._controlling.send(h245.written(message))

    def close(self) -> None:
        """Send what is left, and close everything. May be called twice."""
        self.say()
        for connection in (self._controlling, self.signalling):
            if connection is not None:
                connection.close()
        self._controlling = self.signalling = None
        self._media.close()
        self._no_listener()

    def _signal(self, now_s: float) -> None:
        """Send and take call signalling."""
        connection = self.signalling
        if connection is None:
            return
        try:
            for content in connection.pump():
                signal = h225.read(content)
                self._tell(f"<< {signal.title}")
                if self.call is None and signal.kind == h225.SETUP and self.on_setup is not None:
                    self.on_setup(signal)
                elif self.call is not None and signal.reference == self.call.reference:
                    self.call.signalled(signal, now_s)
        except ConnectionLoss as gone:
            self._lost(str(gone))
        except NoMessage as error:
            what = f"{connection.peer.host} sent {error}"
            self._tell(what)
            if self.call is None:
                self._lost(what)
            else:
                self.call.hang_up(_PROTOCOL_ERROR, what)

    def _lost(self, why: str) -> None:
        if self.signalling is not None:
            self.signalling.close()
            self.signalling = None
        if self.call is not None and not self.call.over:
            when = "" if self.call.connected else " before the call was answered"
            self.call.closed(f"{why}{when}")

    def _control(self, call: Call, now_s: float) -> None:
        """Open or accept the H.245 connection, and handle its messages."""
        try:
            if self._controlling is None and call.connects_to is not None:
                self._controlling = TpktConnection.to(call.connects_to)
            if self._controlling is None and self._listener is not None:
                with suppress(BlockingIOError):
                    taken, peer = self._listener.accept()
                    self._controlling = TpktConnection(taken, Address(*peer[:2]))
            if self._controlling is None:
                return
            for content in self._controlling.pump():
                message = h245.read(content)
                self._tell(f"<< H.245 {h245.title(message)}")
                call.controlled(message, now_s)
            if not self._open and not self._controlling.waits:
                self._open = True
                self._no_listener()
                call.opened()
        except ConnectionLoss as gone:
            self._uncontrolled()
            if call.speaks_to is None:
                call.hang_up(h225.FAILURE, f"{gone}, that of H.245")
        except NoMessage as error:
            self._uncontrolled()
            call.hang_up(_PROTOCOL_ERROR, f"the other end sent {error}")

    def _uncontrolled(self) -> None:
        if self._controlling is not None:
            self._controlling.close()
            self._controlling = None
        if self.call is not None:
            self.call.connects_to = None

    def _no_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _listen(self, call: Call, now_s: float) -> None:
        for _ in range(_PACKETS):
            try:
                packet = self._media.recv(1 << 11)
            except BlockingIOError:
                return
            except OSError:
                # The other end did not listen for the last packet.
                continue
            if len(packet) >= 12 and packet[0] >> 6 == 2:
                call.heard(now_s)

    def _speak(self, call: Call, now_s: float) -> None:
        listener = call.speaks_to
        if listener is None or not call.connected or call.codec not in self._speech:
            return
        if self._voice is None:
            self._voice = RtpSpeech(*self._speech[call.codec])
            self._tell(f"speaks {call.codec} to {listener.host}:{listener.port}")
        for packet in self._voice.due(now_s):
            with suppress(OSError):
                self._media.sendto(packet, listener)


def _free(host: str) -> socket.socket:
    """A socket at a free port for speech."""
    for port in MEDIA_PORTS:
        with suppress(OSError):
            return datagrams(Address(host, port))
    raise OSError(f"no port for speech is free at {host}")
