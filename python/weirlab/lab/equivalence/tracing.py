"""Messages with which the kernel traces packets through the rules of nf_tables (nf_tables_trace.c)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_NETLINK_NETFILTER: Final = 12
_SOL_NETLINK: Final = 270
_NETLINK_ADD_MEMBERSHIP: Final = 1
_SO_RCVBUFFORCE: Final = 33
_NFNLGRP_NFTRACE: Final = 9
_TRACE: Final = 10 << 8 | 17
"""NFNL_SUBSYS_NFTABLES and NFT_MSG_TRACE."""
_HEADERS_BYTES: Final = 20
"""nlmsghdr and nfgenmsg."""
_FAMILIES: Final = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
_ROOM_BYTES: Final = 8 << 20

_NETLINK_HEADER: Final = struct.Struct("=IH")
_ATTRIBUTE_HEADER: Final = struct.Struct("=HH")

_TABLE: Final = 1
_CHAIN: Final = 2
_HANDLE: Final = 3
_TYPE: Final = 4
_VERDICT: Final = 5
_ID: Final = 6
_MARK: Final = 14
_POLICY: Final = 16
_TYPE_POLICY: Final = 1
_TYPE_RETURN: Final = 2

_VERDICTS: Final = {
    0: "drop", 1: "accept", 2: "stolen", 3: "queue", -1: "continue", -2: "break", -3: "jump", -4: "goto",
    -5: "return",
}  # fmt: skip


@dataclass(frozen=True)
class TraceMessage:
    """One message; ``handle`` is None at the end of a chain."""

    table: str
    chain: str
    handle: int | None
    verdict: str
    mark: int
    packet: int
    """A number that the packet keeps; its copies and answers have others."""


def open_trace() -> socket.socket:
    """A socket that receives the traces of the calling thread's namespace, without waiting."""
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    try:
        found.bind((0, 0))
        found.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, _NFNLGRP_NFTRACE)
        found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM_BYTES)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


def read_trace(trace: socket.socket) -> list[TraceMessage]:
    """All messages that have arrived."""
    found: list[TraceMessage] = []
    while True:
        try:
            data = trace.recv(1 << 16)
        except BlockingIOError:
            return found
        found += _messages(data)


def _messages(data: bytes) -> Iterator[TraceMessage]:
    at = 0
    while at + _HEADERS_BYTES <= len(data):
        length, kind = _NETLINK_HEADER.unpack_from(data, at)
        if kind == _TRACE:
            yield _message(_FAMILIES.get(data[at + 16], "?"), data, at + _HEADERS_BYTES, at + length)
        at += max((length + 3) & ~3, _HEADERS_BYTES)


def _message(family: str, data: bytes, start: int, end: int) -> TraceMessage:
    fields = attributes(data, start, end)
    kind = _number(fields, _TYPE)
    handle = struct.unpack("!Q", fields[_HANDLE])[0] if _HANDLE in fields else None
    if kind == _TYPE_POLICY:
        verdict = _VERDICTS.get(_number(fields, _POLICY), "?")
    elif kind == _TYPE_RETURN:
        verdict = "return"
    else:
        verdict = _verdict(fields.get(_VERDICT, b""))
    table = f"{family} {_text(fields.get(_TABLE, b''))}"
    return TraceMessage(
        table, _text(fields.get(_CHAIN, b"")), handle, verdict, _number(fields, _MARK), _number(fields, _ID)
    )


def _verdict(data: bytes) -> str:
    fields = attributes(data)
    code = struct.unpack("!i", fields[1])[0] if 1 in fields else -1
    # A queue's number is in the upper half.
    word = _VERDICTS.get(code if code < 0 else code & 0xFF, "?")
    return f"{word} {_text(fields[2])}" if 2 in fields else word


def attributes(data: bytes, start: int = 0, end: int | None = None) -> dict[int, bytes]:
    """Netlink attributes by type; of several with one type, the last."""
    found: dict[int, bytes] = {}
    at, stop = start, len(data) if end is None else end
    while at + 4 <= stop:
        length, kind = _ATTRIBUTE_HEADER.unpack_from(data, at)
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += max((length + 3) & ~3, 4)
    return found


def _number(fields: dict[int, bytes], kind: int) -> int:
    return int.from_bytes(fields.get(kind, b""), "big")


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")
