"""Connections that the kernel is told about, so that packets are in the state that a probe needs."""

from __future__ import annotations

import socket
import struct
from typing import Final

from weirlab.rules import matching
from weirlab.rules.probing.probe import ICMP, TCP, UDP, Probe

_NETLINK_NETFILTER: Final = 12
_NEW: Final = 1 << 8
_DELETE: Final = 1 << 8 | 2
"""IPCTNL_MSG_CT_NEW and _DELETE of NFNL_SUBSYS_CTNETLINK."""
_REQUEST_ACK: Final = 0x05
_CREATE: Final = 0x600
_NESTED: Final = 0x8000
_TIMEOUT_S: Final = 600
_SEEN_REPLY_ASSURED: Final = 0x06
_CONFIRMED: Final = 0x08
_TCP_ESTABLISHED: Final = 3
_ECHO_REPLY: Final = {8: 0, 13: 14, 15: 16, 17: 18, 128: 129}
"""ICMP requests of which the kernel tracks the answer."""


class ConntrackTable:
    """The table of connections of the namespace in which this object was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER
        )
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def prepare(self, probe: Probe) -> None:
        """Make the next packet like ``probe`` one of a connection in the state that it names."""
        if not _is_tracked(probe):
            return
        self._delete(probe)
        if probe.state == "ESTABLISHED":
            self._create(probe, b"")
        elif probe.state == "RELATED":
            self._create(probe, self._master(probe))

    def _create(self, probe: Probe, master: bytes) -> None:
        status = _CONFIRMED if master else _CONFIRMED | _SEEN_REPLY_ASSURED
        first, second = (_tuple(probe, answer=answer) for answer in (bool(probe.reply), not probe.reply))
        body = _attribute(1 | _NESTED, first) + _attribute(2 | _NESTED, second)
        body += _attribute(3, struct.pack("!I", status)) + _attribute(7, struct.pack("!I", _TIMEOUT_S))
        if probe.protocol == TCP:
            state = _attribute(1, bytes([_TCP_ESTABLISHED]))
            body += _attribute(4 | _NESTED, _attribute(1 | _NESTED, state))
        self._ask(_NEW, _REQUEST_ACK | _CREATE, probe, body + master)

    def _delete(self, probe: Probe) -> None:
        # ENOENT: there is none.
        self._ask(_DELETE, _REQUEST_ACK, probe, _attribute(1 | _NESTED, _tuple(probe)))

    def _master(self, probe: Probe) -> bytes:
        """A connection to which ``probe`` is related: between the same hosts, with other ports."""
        other = Probe(
            probe.family, probe.source, probe.destination, UDP, 9, 9, 0, 0, 0, "", "", "ESTABLISHED"
        )
        self._delete(other)
        self._create(other, b"")
        return _attribute(14 | _NESTED, _tuple(other))

    def _ask(self, kind: int, flags: int, probe: Probe, body: bytes) -> None:
        family = socket.AF_INET if probe.family == 4 else socket.AF_INET6
        data = struct.pack("!BBH", family, 0, 0) + body
        self._socket.send(struct.pack("=IHHII", 16 + len(data), kind, flags, 0, 0) + data)
        self._socket.recv(1 << 16)


def _is_tracked(probe: Probe) -> bool:
    if probe.protocol == ICMP[probe.family]:
        return probe.icmp_type in _ECHO_REPLY
    return probe.protocol in (TCP, UDP)


def _tuple(probe: Probe, *, answer: bool = False) -> bytes:
    addresses = [matching.address(each).packed for each in (probe.source, probe.destination)]
    ports = [probe.source_port, probe.destination_port]
    first = 1 if probe.family == 4 else 3
    if answer:
        addresses.reverse()
        ports.reverse()
    ip = _attribute(first, addresses[0]) + _attribute(first + 1, addresses[1])
    protocol = _attribute(1, bytes([probe.protocol]))
    if probe.protocol == ICMP[probe.family]:
        kind = _ECHO_REPLY[probe.icmp_type] if answer else probe.icmp_type
        base = 4 if probe.family == 4 else 7
        protocol += _attribute(base, struct.pack("!H", probe.source_port))
        protocol += _attribute(base + 1, bytes([kind])) + _attribute(base + 2, bytes([probe.icmp_code]))
    else:
        protocol += _attribute(2, struct.pack("!H", ports[0])) + _attribute(3, struct.pack("!H", ports[1]))
    return _attribute(1 | _NESTED, ip) + _attribute(2 | _NESTED, protocol)


def _attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)
