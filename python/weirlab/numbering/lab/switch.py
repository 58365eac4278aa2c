"""One switch, and a host for every address of a plan; frames on it, recorded; and speech for test calls.

Hosts are namespaces, each with a cable. All are neighbours, regardless of the networks of their addresses:
each has only its own address, and treats every other one as on-link. Routing between networks is not part of
a numbering plan. Frames have their times, as sent by a host and as delivered. Speech is RTP packets in a
capture file, and SIPp scenarios that play it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shlex
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import numpy as np
from pyroute2 import IPRoute

from weirlab.lab import wiring
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.numbering.configs.sipp import BYTES, EARLY_PAUSE, PAYLOADS

MTU_BYTES: Final = 9000
"""Even a SIP message with all its routes is not fragmented, unless by a device."""

BRIDGE: Final = "br0"
LINK: Final = "eth0"
_SWITCH: Final = {
    **wiring.QUIET,
    # Firewalls must not filter what a switch forwards; some hosts let them, for containers.
    "net/bridge/bridge-nf-call-iptables": 0,
    "net/bridge/bridge-nf-call-ip6tables": 0,
    "net/bridge/bridge-nf-call-arptables": 0,
}


_HOST: Final = {
    **wiring.QUIET,
    # A connection to a host that is cut off fails after 3 s: as long as Kamailio waits for an answer by UDP.
    "net/ipv4/tcp_syn_retries": 1,
}


def parts(count: int) -> list[str]:
    """Names of ``count`` hosts: ``ha``, ``hb``, ... ``haa``; names of a lab's parts have only letters."""
    return [f"h{_letters(number)}" for number in range(count)]


def _letters(number: int) -> str:
    rest, last = divmod(number, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("a") + last)


def port(number: int) -> str:
    """The switch's port to the host with that number."""
    return f"p{number}"


def build(switch: Namespace, hosts: Mapping[str, Namespace]) -> None:
    """Make the switch and the ``hosts``, by address, and wire them up."""
    switch.create()
    switch.call(partial(write_sysctls, _SWITCH))
    switch.call(_make_bridge)
    for number, (address, host) in enumerate(hosts.items()):
        host.create()
        host.call(partial(write_sysctls, _HOST))
        with host.descriptor() as fd:
            switch.call(partial(_make_cable, number, fd))
        host.call(partial(_bring_up, address, [*hosts]))


def set_link(number: int, *, up: bool) -> None:
    """Set the switch's port to a host up or down. Call inside the switch."""
    with IPRoute() as netlink:
        netlink.link("set", index=interface.index_of(netlink, port(number)), state="up" if up else "down")


def _make_bridge() -> None:
    with IPRoute() as netlink:
        make_bridge(netlink, BRIDGE)


def make_bridge(netlink: Any, name: str) -> None:
    """Make a bridge and set it up."""
    # Without spanning tree, ports forward at once.
    netlink.link("add", ifname=name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
    netlink.link("set", index=interface.index_of(netlink, name), mtu=MTU_BYTES, state="up")


def _make_cable(number: int, there_fd: int) -> None:
    name = port(number)
    with IPRoute() as netlink:
        peer = {"ifname": LINK, "address": mac(number), "mtu": MTU_BYTES, "net_ns_fd": there_fd}
        netlink.link("add", ifname=name, kind="veth", mtu=MTU_BYTES, peer=peer)
        interface.set_offloads(name, gro=False)
        netlink.link(
            "set",
            index=interface.index_of(netlink, name),
            master=interface.index_of(netlink, BRIDGE),
            state="up",
        )


def mac(number: int) -> str:
    """The MAC address of the host with that number."""
    return f"02:77:65:69:{number >> 8:02x}:{number & 0xFF:02x}"


def _bring_up(address: str, everybody: Sequence[str]) -> None:
    """Give the host its address, and permanent neighbour entries for all others.

    Calls to a host that is cut off are then sent and can be seen, and no resolution delays a first call.
    """
    interface.set_offloads(LINK, gro=False)
    six = ip_address(address).version == 6
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        index = interface.index_of(netlink, LINK)
        interface.add_address(netlink, index, address, 128 if six else 32)
        netlink.link("set", index=index, state="up")
        netlink.route("add", dst="::/0" if six else "0.0.0.0/0", oif=index, scope=0 if six else 253)
        for number, neighbour in enumerate(everybody):
            if neighbour != address and (":" in neighbour) == six:
                interface.add_neighbour(netlink, neighbour, mac(number), index)


def bound(port_number: int, transport: str = "udp") -> bool:
    """Does a program listen for datagrams or connections at this port? Call inside the host."""
    return port_number in _ports(_tables(transport))


def _tables(transport: str) -> Iterator[str]:
    for name in (transport, f"{transport}6"):
        # /proc/net is that of the process, not of the thread.
        with open(f"/proc/thread-self/net/{name}") as table:
            yield from table.readlines()[1:]


def _ports(lines: Sequence[str] | Iterator[str]) -> set[int]:
    """The local ports of lines of ``/proc/net/udp`` or ``tcp`` that have no peer."""
    columns = (line.split() for line in lines)
    return {int(column[1].rpartition(":")[2], 16) for column in columns if not column[2].strip("0:")}


_ETH_P_ALL: Final = 0x0003
_IP: Final = (0x0800, 0x86DD)
_SO_TIMESTAMPNS: Final = 35
"""From asm-generic/socket.h; the socket module has no name for it."""
_TIMESPEC: Final = struct.Struct("@ll")
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_SPEECH: Final = (6000, 7000)
"""Ports of SIPp's media: from the first, up to the second."""
_MOST_BYTES: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 23

_MAGIC_NS: Final = 0xA1B23C4D
_ETHERNET: Final = 1
_HEADER: Final = struct.Struct("<IHHiIII")
_RECORD: Final = struct.Struct("<IIII")
_NS_PER_S: Final = 1_000_000_000


class Frame(NamedTuple):
    """An Ethernet frame."""

    at_ns: int
    """Since 1970."""
    content: bytes
    delivered: bool
    """True: out of the switch, to its destination; False: into the switch."""


class LabSwitchRecorder:
    """Records what enters and leaves the switch between :meth:`begin` and :meth:`end`.

    ``hosts`` are the addresses behind the switch's ports, by their names.
    """

    def __init__(self, switch: Namespace, hosts: Mapping[str, str]) -> None:
        self._hosts = {name: ip_address(address).packed for name, address in hosts.items()}
        self._socket = switch.call(_listening)
        self._frames: list[Frame] = []
        self._lock = threading.RLock()
        self._wake, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._read, name="weir-voice-watch", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Forget everything up to now."""
        with self._lock:
            self._take_all()
            self._frames = []

    def end(self) -> list[Frame]:
        """Everything since, by time."""
        with self._lock:
            # What has arrived may still wait for the thread.
            self._take_all()
            found, self._frames = self._frames, []
        return sorted(found, key=lambda frame: frame.at_ns)

    @contextmanager
    def speech_only(self) -> Iterator[LabSwitchRecorder]:
        """Within the context, a filter in the kernel passes only RTP packets to the recording."""
        with self._lock:
            _attach(self._socket)
        try:
            yield self
        finally:
            with self._lock:
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def close(self) -> None:
        """May be called twice."""
        if self._thread.is_alive():
            os.write(self._stop, b"x")
            self._thread.join()
            self._socket.close()
            os.close(self._wake)
            os.close(self._stop)

    def _read(self) -> None:
        while True:
            waiting: list[socket.socket | int] = [self._socket, self._wake]
            ready, _, _ = select.select(waiting, [], [])
            if self._wake in ready:
                return
            self._take_all()

    def _take_all(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            while True:
                self._take()

    def _take(self) -> None:
        content, more, _, address = self._socket.recvmsg(_MOST_BYTES, 64)
        name, protocol, kind_of_packet = address[:3]
        if protocol not in _IP or name not in self._hosts:
            return
        delivered = kind_of_packet == socket.PACKET_OUTGOING
        # The switch floods frames for hosts that it does not know, or no longer knows.
        if delivered and _destination(content) != self._hosts[name]:
            return
        for level, kind, value in more:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(value)
                self._frames.append(Frame(seconds * _NS_PER_S + nanoseconds, content, delivered))


def _attach(listening: socket.socket) -> None:
    """Let a socket receive only UDP to the ports of :data:`_SPEECH` (networking/filter.rst)."""
    low, high = _SPEECH
    program = [
        (0x28, 0, 0, 12),  # The type of the frame:
        (0x15, 0, 4, 0x0800),
        (0x30, 0, 0, 23),  # of IPv4, the protocol,
        (0x15, 0, 9, 17),
        (0x28, 0, 0, 36),  # and of UDP, the target's port;
        (0x05, 0, 0, 4),
        (0x15, 0, 6, 0x86DD),
        (0x30, 0, 0, 20),  # the same of IPv6.
        (0x15, 0, 4, 17),
        (0x28, 0, 0, 56),
        (0x35, 0, 2, low),
        (0x35, 1, 0, high),
        (0x06, 0, 0, _MOST_BYTES),
        (0x06, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    listening.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code))
    )


def _destination(content: bytes) -> bytes:
    """The IP address that a frame is for."""
    return content[30:34] if content[12:14] == b"\x08\x00" else content[38:54]


def _listening() -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    found.setblocking(False)
    return found


def pcap(frames: Iterable[Frame]) -> bytes:
    """``frames`` as a capture file with times in ns."""
    written = [_HEADER.pack(_MAGIC_NS, 2, 4, 0, 0, 1 << 18, _ETHERNET)]
    for at_ns, content, _ in frames:
        size = len(content)
        written += [_RECORD.pack(at_ns // _NS_PER_S, at_ns % _NS_PER_S, size, size), content]
    return b"".join(written)


PACKET_MS: Final = 20
"""Speech per packet: the default of all these codecs."""

_CLOCK_HZ: Final = 8000
"""Clock of the time stamps, also of G.722 (RFC 3551, 4.5.2)."""
_PORT: Final = 6000
_UDP_IP: Final = 28
PAUSE: Final = '<pause milliseconds="2000"/>'
"""The pause of a caller while the call is up."""
_AFTER_ACK: Final = '<recv request="ACK" optional="false" rtd="true" crlf="true"/>'


SOURCE: Final = 0x77656972
EARLY_SOURCE: Final = 0x65617274
"""Synchronisation sources of the speech in a call and of that before the answer."""

EARLY_S: Final = 0.4


def speech(codec: str, seconds: float, source: int = SOURCE) -> bytes:
    """A capture of RTP packets of ``codec``; SIPp sends them with its own addresses and ports."""
    payload_type, size = PAYLOADS[codec][0], BYTES[codec]
    # The content does not matter, only which packets arrive and when.
    noise = np.random.default_rng(payload_type).bytes(size)
    frames = []
    for number in range(round(seconds * 1e3 / PACKET_MS)):
        marker = 0x80 if number == 0 else 0
        stamp = number * _CLOCK_HZ * PACKET_MS // 1000
        rtp = struct.pack(">BBHII", 0x80, marker | payload_type, number + 1, stamp, source) + noise
        frames.append(Frame(number * PACKET_MS * 1_000_000, _framed(rtp), delivered=False))
    return pcap(frames)


def _framed(payload: bytes) -> bytes:
    length = _UDP_IP + len(payload)
    ethernet = bytes(12) + b"\x08\x00"
    loopback = bytes((127, 0, 0, 1))
    ip = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + loopback + loopback
    udp = struct.pack(">HHHH", _PORT, _PORT, length - 20, 0)
    return ethernet + ip + udp + payload


def talking(scenario: str, file: str, hold_s: float, early: str = "") -> str:
    """``scenario`` with speech from ``file`` once the call is up; the caller hangs up after ``hold_s``.

    A scenario without an answer is not changed. A callee with early media plays the file ``early``.
    """
    play = _played(file)
    held = f'{play}\n<pause milliseconds="{round(hold_s * 1e3)}"/>'
    spoken = scenario.replace(PAUSE, held).replace(_AFTER_ACK, f"{_AFTER_ACK}\n{play}")
    return spoken.replace(EARLY_PAUSE, f"{_played(early)}\n{EARLY_PAUSE}")


def held(scenario: str, answered: str) -> str:
    """The ``scenario`` of a caller whose call stays up, in silence, until an INFO comes.

    The shell adds a line to the file ``answered`` for each call that is answered.
    """
    # SIPp passes an attribute to the shell verbatim, with its entities.
    noted = f'<nop><action><exec command="echo >> {shlex.quote(answered)}"/></action></nop>'
    return scenario.replace(PAUSE, f'{noted}\n<recv request="INFO" crlf="true"/>')


def _played(file: str) -> str:
    return f'<nop><action><exec play_pcap_audio="{file}"/></action></nop>'
