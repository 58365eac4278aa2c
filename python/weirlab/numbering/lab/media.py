"""Speech for test calls: RTP packets in a capture file, and SIPp scenarios that play it."""

from __future__ import annotations

import shlex
import struct
from typing import Final

import numpy as np

from weirlab.numbering.configs.sipp import BYTES, EARLY_PAUSE, PAYLOADS
from weirlab.numbering.lab.recorder import Frame, pcap

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
