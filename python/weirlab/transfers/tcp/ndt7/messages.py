"""What ndt7 exchanges: frames of a WebSocket (RFC 6455, section 5), and measurements in JSON; pure.

The load of a test is counted and dropped: neither unmasked nor put together, as a library for messages would.
A message of 16 MiB costs one look at its header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from weirlab.base.errors import WeirError
from weirlab.cli.options.sockets import shown

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


Test = Literal["download", "upload"]
TESTS: Final[tuple[Test, ...]] = ("download", "upload")
PATH: Final = "/ndt/v7/"
PROTOCOL: Final = "net.measurementlab.ndt.v7"
LASTS_S: Final = 10.0
MOST_S: Final = 13.0
"""Either end may close the connection after this time."""
EVERY_S: Final = 0.1
"""At most ten measurements a second."""
LEAST_BYTES: Final = 1 << 13
"""The first binary message; later ones grow to ``frames.MOST_BINARY_BYTES``."""
_GROWS_BEHIND: Final = 16
"""A message may grow when so many of its size have been sent (the specification's appendix)."""
_LONGEST_S: Final = 0.05
"""But not if it takes longer: a measurement has to wait for its end."""
_MOST_NUMBER: Final = (1 << 53) - 1

_NAMES: Final = {
    "State": "state", "CAState": "ca_state", "Options": "options", "SndMSS": "snd_mss_bytes",
    "RcvMSS": "rcv_mss_bytes", "Unacked": "unacked", "Sacked": "sacked", "Lost": "lost", "Retrans": "retrans",
    "PMTU": "pmtu_bytes", "RTT": "rtt_us", "RTTVar": "rttvar_us", "SndSsThresh": "snd_ssthresh",
    "SndCwnd": "snd_cwnd", "AdvMSS": "advmss_bytes", "RcvRTT": "rcv_rtt_us", "TotalRetrans": "total_retrans",
    "PacingRate": "pacing_rate_bytes_per_s", "MaxPacingRate": "max_pacing_rate_bytes_per_s",
    "BytesAcked": "bytes_acked", "BytesReceived": "bytes_received", "SegsOut": "segs_out",
    "SegsIn": "segs_in", "NotsentBytes": "notsent_bytes", "MinRTT": "min_rtt_us",
    "DataSegsIn": "data_segs_in", "DataSegsOut": "data_segs_out",
    "DeliveryRate": "delivery_rate_bytes_per_s", "BusyTime": "busy_time_us",
    "RWndLimited": "rwnd_limited_us", "SndBufLimited": "sndbuf_limited_us", "Delivered": "delivered",
    "DeliveredCE": "delivered_ce", "BytesSent": "bytes_sent", "BytesRetrans": "bytes_retrans",
    "DSackDups": "dsack_dups", "ReordSeen": "reord_seen", "RcvOooPack": "rcv_ooopack",
    "SndWnd": "snd_wnd_bytes", "RcvWnd": "rcv_wnd_bytes",
    **{
        name: name for name in (
            "wqueue_bytes", "rqueue_bytes", "skmem_wmem_queued_bytes", "skmem_sndbuf_bytes",
            "bbr_bandwidth_bytes_per_s", "bbr_pacing_gain_256ths",
        )
    },
}  # fmt: skip
"""The fields of ``TCPInfo`` (m-lab/tcp-info, ``LinuxTCPInfo``), as ``weir tcp watch`` names them.

The last ones, which are not of ``TCP_INFO``, are Weir's own: without them a full buffer cannot be told.
"""


def next_size(size: int, sent_bytes: int, took_s: float, most: int) -> int:
    """The size of the binary message that follows one of ``size``, which took ``took_s``."""
    grows = sent_bytes >= _GROWS_BEHIND * size and took_s < _LONGEST_S / 2
    return min(size * 2, most) if grows else size


@dataclass(frozen=True)
class TransferReport:
    """What an end knows of itself ``elapsed_us`` after the handshake; None for what it did not say."""

    elapsed_us: int
    app_bytes: int | None = None
    fields: Mapping[str, int] = field(default_factory=dict)
    """As ``weir tcp watch`` names them."""
    uuid: str = ""
    """The server's name of the test."""


Address = tuple[str, int]


def text(report: TransferReport, test: Test, *, ends: tuple[Address, Address] | None) -> bytes:
    """The measurement of this end. Only a server names the ``ends``: the client's and its own."""
    told: dict[str, Any] = {
        "AppInfo": {"ElapsedTime": report.elapsed_us, "NumBytes": report.app_bytes or 0},
        "Origin": "client" if ends is None else "server",
        "Test": test,
    }
    if ends is not None:
        client, server = map(shown, ends)
        told["ConnectionInfo"] = {"Client": client, "Server": server, "UUID": report.uuid}
    if report.fields:
        # JSON has no larger number; a limit that is not set has all bits set.
        kernel = {
            name: value
            for name, own in _NAMES.items()
            if (value := report.fields.get(own)) is not None and value <= _MOST_NUMBER
        }
        told["TCPInfo"] = {**kernel, "ElapsedTime": report.elapsed_us}
    return json.dumps(told, allow_nan=False).encode()


def parsed(payload: bytes) -> TransferReport | None:
    """What the other end reported; None for anything that is not a measurement."""
    try:
        told = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    app, kernel, ends = (_part(told, name) for name in ("AppInfo", "TCPInfo", "ConnectionInfo"))
    elapsed_us = _number(app.get("ElapsedTime")) or _number(kernel.get("ElapsedTime"))
    if elapsed_us is None:
        return None
    fields = {own: value for name, own in _NAMES.items() if (value := _number(kernel.get(name))) is not None}
    uuid = ends.get("UUID")
    return TransferReport(
        elapsed_us, _number(app.get("NumBytes")), fields, uuid[:200] if isinstance(uuid, str) else ""
    )


def _part(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST_NUMBER else None
