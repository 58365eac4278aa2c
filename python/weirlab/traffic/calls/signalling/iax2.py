"""IAX2 frames of a call (RFC 5456): signalling, voice in full, mini and trunk frames.

Between one pair of hosts everything goes over UDP port 4569, so calls are identified by the call
numbers that each side gives them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.traffic.calls.signalling import PROBE_BYTES, SignallingMessage

PORT: Final = 4569
FULL_BYTES: Final = 12
MINI_BYTES: Final = 4
META_BYTES: Final = 8
TRUNK_ENTRY_BYTES: Final = 4
"""In a trunk frame, before the speech of each call: its number and how many bytes follow."""

TRUNK_TAIL_BYTES: Final = 2
"""Zero bytes behind the last entry of a trunk frame, too few for another one.

Receivers ignore them. Wireshark 4.0 (packet-iax2.c) takes each entry to be two
bytes longer than it is, and would call every trunk frame without them malformed."""

PROBE_ELEMENT: Final = 0xFE
"""Information element for the probe, with an unassigned number (RFC 5457). IAX2 receivers such as Asterisk
ignore unknown elements."""

MAX_CALL_NUMBER: Final = 0x7FFF
ACCEPT_MS: Final = 2.0
RINGING_MS: Final = 20.0
ANSWER_MS: Final = 100.0
"""A machine answers: a person takes seconds, which would only lengthen trials."""
SET_UP_MS: Final = 110.0
"""From NEW until speech may begin."""
ACK_MS: Final = 2.0
_ON_THE_WAY_MS: Final = 1.0
"""Frames that departed less than this before a frame have not reached its sender."""

_VOICE, _CONTROL, _IAX = 0x02, 0x04, 0x06
_NEW, _ACK, _HANGUP, _ACCEPT = 0x01, 0x04, 0x05, 0x07
_RINGING, _ANSWER = 0x03, 0x04
_CALLED, _CALLING, _CAPABILITY, _FORMAT, _VERSION = 0x01, 0x02, 0x08, 0x09, 0x0B
_CAUSE, _CAUSE_CODE = 0x16, 0x2A
_META_TRUNK = 0x01

# RFC 5456 section 8.7; each format is one bit.
FORMATS: Final[dict[str, int]] = {
    "g723.1-6.3": 1 << 0,
    "g723.1-5.3": 1 << 0,
    "gsm": 1 << 1,
    "g711": 1 << 2,
    "g729": 1 << 8,
    "ilbc-20": 1 << 10,
    "ilbc-30": 1 << 10,
    "g726-32": 1 << 4,
    "g722": 1 << 12,
}
"""Codecs with a number in IAX2."""


@dataclass(frozen=True)
class IaxCall:
    """A call as IAX2 sees it.

    ``caller_number`` and ``callee_number`` (1 to 32,767) are each side's number for it; ``codec`` is
    a name of :data:`FORMATS`; each voice frame has ``speech_bytes`` of speech, which repeat ``filler``.
    """

    caller_number: int
    callee_number: int
    codec: str
    speech_bytes: int
    filler: bytes = b"\x00"

    def __post_init__(self) -> None:
        """Raise ``InputError`` for an impossible IAX2 call."""
        for number in (self.caller_number, self.callee_number):
            if not 1 <= number <= MAX_CALL_NUMBER:
                raise InputError(
                    f"call number {number}: IAX2 has 1 to {MAX_CALL_NUMBER:,} between two hosts; "
                    "use more hosts"
                )
        format_of(self.codec)
        if self.speech_bytes < PROBE_BYTES:
            raise InputError(
                f"{self.speech_bytes} B of speech in a packet: the probe alone takes {PROBE_BYTES} B; "
                "use a longer packet time"
            )


def format_of(codec: str) -> int:
    """The codec's bit; raises ``InputError`` if IAX2 has none for it."""
    if codec not in FORMATS:
        raise InputError(
            f"codec {quoted(codec)} has no number in IAX2 (RFC 5456, 8.7); use {', '.join(FORMATS)}"
        )
    return FORMATS[codec]


@dataclass(frozen=True)
class IaxVoiceFrame:
    """A voice frame in full: sent at ``at_ms``, its speech begins at ``stamp_ms`` (32 bits)."""

    from_caller: bool
    at_ms: float
    stamp_ms: int


def full_frames(
    call: IaxCall,
    voice: Iterable[IaxVoiceFrame] = (),
    *,
    established: bool = False,
    hang_up_ms: float | None = None,
) -> list[SignallingMessage]:
    """Every full frame of a call, in order of time, with sequence numbers and acknowledgements.

    Parameters
    ----------
    call
        The call.
    voice
        Its full voice frames; times count from the NEW.
    established
        Whether the call was up before: no set-up messages.
    hang_up_ms
        When the caller hangs up; None: not within the schedule.
    """
    events = [] if established else _set_up(call)
    for frame in voice:
        events.append(
            _Event(frame.at_ms, frame.from_caller, frame.stamp_ms, _VOICE, _subclass(call), "VOICE")
        )
    if hang_up_ms is not None:
        cause = _element(_CAUSE, b"Normal Clearing") + _element(_CAUSE_CODE, b"\x10")
        events.append(_Event(hang_up_ms, True, round(hang_up_ms), _IAX, _HANGUP, "HANGUP", cause))
    # The ACCEPT serves as the acknowledgement of the NEW, and needs one itself (section 6.9.1).
    events += [_acknowledgement(event) for event in events if event.name != "NEW"]
    events.sort(key=lambda event: event.at_ms)

    # Frames of the set-up that each side has sent: NEW; ACCEPT, RINGING and ANSWER.
    before = {True: 1, False: 3} if established else {True: 0, False: 0}
    counted: dict[bool, list[float]] = {True: [], False: []}
    messages = []
    for event in events:
        own, other = counted[event.from_caller], counted[not event.from_caller]
        received = sum(at_ms <= event.at_ms - _ON_THE_WAY_MS for at_ms in other)
        payload = _full(
            call,
            event,
            out=before[event.from_caller] + len(own),
            into=before[not event.from_caller] + received,
        )
        messages.append(SignallingMessage(event.from_caller, event.at_ms, payload, event.name))
        if event.name != "ACK":
            own.append(event.at_ms)
    return messages


def mini_header(call: IaxCall, from_caller: bool, stamp_ms: int = 0) -> bytes:
    """The 4 bytes before the speech of a mini frame (section 8.1.2)."""
    return struct.pack(">HH", _numbers(call, from_caller)[0], stamp_ms & 0xFFFF)


def meta_header(stamp_ms: int = 0) -> bytes:
    """The 8 bytes before the entries of a trunk frame without their own time stamps (section 8.1.3)."""
    return struct.pack(">HBBI", 0, _META_TRUNK, 0, stamp_ms & 0xFFFFFFFF)


def trunk_entries(numbers: Sequence[int], speech_bytes: int, filler: bytes = b"\x00") -> bytes:
    """The entries after the meta header: for each call its number, the length and the speech."""
    speech = _repeated(filler, speech_bytes)
    entries = b"".join(struct.pack(">HH", number, speech_bytes) + speech for number in numbers)
    return (entries + bytes(TRUNK_TAIL_BYTES))[:-PROBE_BYTES] + bytes(PROBE_BYTES)


def trunk_bytes(calls: int, speech_bytes: int) -> int:
    """Length behind UDP of a trunk frame with the speech of ``calls`` calls."""
    return META_BYTES + calls * (TRUNK_ENTRY_BYTES + speech_bytes) + TRUNK_TAIL_BYTES


@dataclass(frozen=True)
class _Event:
    """A full frame before it has sequence numbers."""

    at_ms: float
    from_caller: bool
    stamp_ms: int
    kind: int
    subclass: int
    name: str
    elements: bytes = b""


def _set_up(call: IaxCall) -> list[_Event]:
    wanted = struct.pack(">I", format_of(call.codec))
    new = (
        _element(_VERSION, b"\x00\x02")
        + _element(_CALLED, b"b%d" % call.callee_number)
        + _element(_CALLING, b"a%d" % call.caller_number)
        + _element(_FORMAT, wanted)
        + _element(_CAPABILITY, wanted)
    )
    accept = _element(_FORMAT, wanted)
    return [
        _Event(0.0, True, 0, _IAX, _NEW, "NEW", new),
        _Event(ACCEPT_MS, False, round(ACCEPT_MS), _IAX, _ACCEPT, "ACCEPT", accept),
        _Event(RINGING_MS, False, round(RINGING_MS), _CONTROL, _RINGING, "RINGING"),
        _Event(ANSWER_MS, False, round(ANSWER_MS), _CONTROL, _ANSWER, "ANSWER"),
    ]


def _acknowledgement(event: _Event) -> _Event:
    """The ACK of ``event``, whose time stamp it repeats (section 6.9.1)."""
    return _Event(event.at_ms + ACK_MS, not event.from_caller, event.stamp_ms, _IAX, _ACK, "ACK")


def _full(call: IaxCall, event: _Event, out: int, into: int) -> bytes:
    source, destination = _numbers(call, event.from_caller)
    header = struct.pack(
        ">HHIBBBB",
        0x8000 | source,
        0 if event.name == "NEW" else destination,
        event.stamp_ms & 0xFFFFFFFF,
        out % 256,
        into % 256,
        event.kind,
        event.subclass,
    )
    if event.kind == _VOICE:
        return header + _repeated(call.filler, call.speech_bytes)[:-PROBE_BYTES] + bytes(PROBE_BYTES)
    if event.kind == _CONTROL:
        return header + bytes(PROBE_BYTES)
    return header + event.elements + _element(PROBE_ELEMENT, bytes(PROBE_BYTES))


def _numbers(call: IaxCall, from_caller: bool) -> tuple[int, int]:
    """Source and destination call number."""
    pair = (call.caller_number, call.callee_number)
    return pair if from_caller else pair[::-1]


def _subclass(call: IaxCall) -> int:
    """The codec in 8 bits: its bit itself, or the power of two with the C bit (section 8.1.1)."""
    bit = format_of(call.codec)
    return bit if bit < 0x80 else 0x80 | bit.bit_length() - 1


def _repeated(filler: bytes, length: int) -> bytes:
    return (filler * -(-length // len(filler)))[:length]


def _element(kind: int, data: bytes) -> bytes:
    return bytes((kind, len(data))) + data
