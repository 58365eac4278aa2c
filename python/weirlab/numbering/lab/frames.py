"""Frames on the lab's switch, with their times, as sent by a host and as delivered; and speech for calls.

Speech is RTP packets in a capture file, and SIPp scenarios that play it.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Final, NamedTuple

import numpy as np

from weirlab.lab.linux.namespace import Namespace
from weirlab.numbering.configs.sipp import BYTES, EARLY_PAUSE, PAYLOADS

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
