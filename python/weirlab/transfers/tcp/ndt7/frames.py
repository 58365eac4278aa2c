"""Frames of a WebSocket (RFC 6455, section 5); pure.

The load of a test is counted and dropped: neither unmasked nor put together, as a library for messages would.
A message of 16 MiB costs one look at its header.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from weirlab.base.errors import WeirError

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
MOST_BINARY_BYTES: Final = 1 << 24
"""The largest message of ndt7."""
MOST_TEXT_BYTES: Final = 1 << 16
_CONTINUATION: Final = 0
_KNOWN: Final = (_CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG)
_MOST_CONTROL_BYTES: Final = 125
_LENGTHS: Final = {126: 2, 127: 8}
"""Bytes of a length that does not fit 7 bits."""
_KEY_BYTES: Final = 4


class FrameError(WeirError):
    """The other end violates the protocol."""


def header(kind: int, length: int, key: bytes = b"") -> bytes:
    """The header of a message in one frame; with a ``key``, its payload is masked by it."""
    masked = 0x80 if key else 0
    if length <= _MOST_CONTROL_BYTES:
        size = bytes([masked | length])
    elif length < 1 << 16:
        size = bytes([masked | 126]) + length.to_bytes(2, "big")
    else:
        size = bytes([masked | 127]) + length.to_bytes(8, "big")
    return bytes([0x80 | kind]) + size + key


def message(kind: int, payload: bytes, key: bytes = b"") -> bytes:
    """A whole message in one frame."""
    return header(kind, len(payload), key) + (_unmasked(payload, key) if key else payload)


def _unmasked(payload: bytes, key: bytes) -> bytes:
    """Masking is its own inverse."""
    whole = (key * (len(payload) // _KEY_BYTES + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(payload), "big")


@dataclass
class FrameReader:
    """Takes what arrives, in any parts; ``masked`` if a client sends it.

    ``binary_bytes`` counts the payload of binary messages so far.
    """

    masked: bool
    binary_bytes: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _body: bytearray = field(default_factory=bytearray)
    _text: bytearray = field(default_factory=bytearray)
    """The parts of a text message so far."""
    _kind: int = 0
    """Of the frame whose payload arrives."""
    _left: int = 0
    """Bytes of that payload to come."""
    _key: bytes = b""
    _final: bool = True
    _open: int = 0
    """The kind of the message whose last frame is still to come; 0: none."""
    _message_bytes: int = 0

    def take(self, part: memoryview) -> list[tuple[int, bytes]]:
        """The messages that are whole now, all but binary ones: kind and payload.

        Raises
        ------
        FrameError
            They violate the protocol, or are too long.
        """
        found: list[tuple[int, bytes]] = []
        at = 0
        while at < len(part):
            if not self._left:
                self._head.append(part[at])
                at += 1
                if self._begins() and not self._left:
                    found += self._whole()
                continue
            step = min(self._left, len(part) - at)
            if self._kind == BINARY:
                self.binary_bytes += step
            else:
                self._body += part[at : at + step]
            at += step
            self._left -= step
            if not self._left:
                found += self._whole()
        return found

    def _begins(self) -> bool:
        """Whether the header is whole; takes it."""
        head = self._head
        if len(head) < 2:
            return False
        short, masked = head[1] & 0x7F, bool(head[1] & 0x80)
        if masked != self.masked or head[0] & 0x70:
            raise FrameError("a frame is masked wrongly, or has bits that nobody agreed on")
        wide = _LENGTHS.get(short, 0)
        if len(head) < 2 + wide + (_KEY_BYTES if masked else 0):
            return False
        length = int.from_bytes(head[2 : 2 + wide], "big") if wide else short
        self._key = bytes(head[2 + wide :])
        self._final, opcode = bool(head[0] & 0x80), head[0] & 0x0F
        head.clear()
        self._admit(opcode, length)
        self._left = length
        return True

    def _admit(self, opcode: int, length: int) -> None:
        if opcode not in _KNOWN or (opcode == _CONTINUATION) != bool(self._open and opcode < CLOSE):
            raise FrameError(f"a frame of kind {opcode} is out of place")
        if opcode >= CLOSE:
            if length > _MOST_CONTROL_BYTES or not self._final:
                raise FrameError("a control frame is too long")
            self._kind = opcode
            return
        self._kind = self._open or opcode
        self._message_bytes = length + (self._message_bytes if self._open else 0)
        self._open = 0 if self._final else self._kind
        most = MOST_BINARY_BYTES if self._kind == BINARY else MOST_TEXT_BYTES
        if self._message_bytes > most:
            raise FrameError(f"a message has more than {most} bytes")

    def _whole(self) -> list[tuple[int, bytes]]:
        """The frame has arrived: the message that it ends."""
        body = bytes(self._body)
        self._body.clear()
        if self._kind == BINARY:
            return []
        payload = _unmasked(body, self._key) if self._key else body
        if self._kind >= CLOSE:
            return [(self._kind, payload)]
        self._text += payload
        if not self._final:
            return []
        whole = bytes(self._text)
        self._text.clear()
        return [(self._kind, whole)]
