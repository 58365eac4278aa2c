"""What a telephone is to do: its settings and orders.

The settings are in ``telephone.json``, as ``weir voice configs`` writes it.

An order comes over a Unix socket: a JSON object, answered by lines until it is done.

``{"takes": true, "refuses": 0}``
    Take calls as long as the connection is open; ``refuses`` is the cause with which all are refused,
    0 for none. ``ready`` is the first line.
``{"calls": DIGITS, "times": 1, "hold_s": 2.5, "longest_s": 30}``
    Make calls. One is hung up ``hold_s`` after the first speech was heard; null for when the connection ends.
    A call that is not answered, or in which nothing is heard, ends after ``longest_s``. The lines are
    ``answered``, once speech can be sent, and ``over`` with the cause of Q.850; once per call.

All calls of an order end with its connection.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from weirlab.base.documents import typed
from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.gatekeeper.table import GatekeeperTarget
from weirlab.numbering.telephone.call import TelephoneIdentity


@dataclass(frozen=True)
class TelephoneCodec:
    """A codec and how it is sent: RTP payload type, and bytes in a packet of 20 ms."""

    codec: str
    payload: int
    bytes: int


@dataclass(frozen=True)
class TelephoneSettings:
    """The whole URI."""

    telephone: str
    plan: str
    address: str
    port: int
    """Where it takes calls (H.225.0)."""
    gatekeeper: GatekeeperTarget | None
    """The gatekeeper with which it registers; None for none."""
    home: GatekeeperTarget | None
    """The gateway to which it sends its calls; None if it asks its gatekeeper."""
    codecs: tuple[TelephoneCodec, ...]
    """The preferred one first."""
    orders: str
    """The Unix socket at which it takes orders."""

    @classmethod
    def of(cls, document: object) -> TelephoneSettings:
        """Read a document; raises ``ValueError`` if it is something else."""
        return typed(cls, document)

    @property
    def own(self) -> TelephoneIdentity:
        here = Address(self.address, self.port)
        return TelephoneIdentity(self.telephone, here, tuple(codec.codec for codec in self.codecs))

    @property
    def speech(self) -> dict[str, tuple[int, int]]:
        """Payload type and bytes of a packet, by codec."""
        return {codec.codec: (codec.payload, codec.bytes) for codec in self.codecs}


_MOST_BYTES: Final = 1 << 12


@dataclass(frozen=True)
class Order:
    """One of them."""

    takes: bool = False
    refuses: int = 0
    calls: str = ""
    times: int = 1
    hold_s: float | None = None
    longest_s: float = 60.0


class Client:
    """A client that has given an order, or is about to."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.order: Order | None = None
        self.gone = False
        self._text = b""
        connected.setblocking(False)

    def read(self) -> Order | None:
        """An order that has just been completed."""
        try:
            content = self.socket.recv(_MOST_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            content = b""
        self._text += content
        if not content or len(self._text) > _MOST_BYTES:
            self.gone = True
        elif self.order is None and self._text.endswith(b"\n"):
            try:
                self.order = typed(Order, json.loads(self._text))
            except ValueError as error:
                self.say(f"no order: {error}")
                self.gone = True
            return self.order
        return None

    def say(self, line: str) -> None:
        """Send it a line."""
        with suppress(OSError):
            self.socket.send(f"{line}\n".encode())

    def close(self) -> None:
        self.gone = True
        self.socket.close()
