"""For how long nothing was heard of speech that was sent."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from weirlab.numbering.fakes import _datagram
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.proof.wire.speech import Silence, silences

CALLER, CALLEE = ("192.0.2.1", 6000), ("192.0.2.2", 6000)
MS = 1_000_000


def speech(
    source: tuple[str, int], target: tuple[str, int], at_ms: Iterable[int], *, delivered: bool, kind: int = 8
) -> Iterator[Frame]:
    content = struct.pack(">BBHII", 0x80, kind, 1, 160, 7) + bytes(160)
    for each in at_ms:
        yield Frame(each * MS, _datagram(source, target, content), delivered)


def test_the_longest_silence_lies_between_packets_that_got_through() -> None:
    sent = range(0, 1000, 20)
    heard = [each + 1 for each in sent if not 400 <= each < 700]
    frames = [*speech(CALLER, CALLEE, sent, delivered=False), *speech(CALLER, CALLEE, heard, delivered=True)]
    assert silences(frames, CALLER[0]) == (Silence(301 * MS, 0), None)
    assert silences(frames, CALLEE[0]) == (None, Silence(301 * MS, 0))


def test_silence_at_the_end_lasts_until_the_last_packet_sent() -> None:
    frames = [
        *speech(CALLEE, CALLER, range(0, 1000, 20), delivered=False),
        *speech(CALLEE, CALLER, range(0, 300, 20), delivered=True),
    ]
    assert silences(frames, CALLER[0]) == (None, Silence(680 * MS, 680 * MS))


def test_silence_at_the_beginning_lasts_from_the_first_packet_sent() -> None:
    frames = [
        *speech(CALLER, CALLEE, range(0, 1000, 20), delivered=False),
        *speech(CALLER, CALLEE, range(600, 1000, 20), delivered=True),
    ]
    assert silences(frames, CALLER[0])[0] == Silence(600 * MS, 0)


def test_time_in_which_nobody_speaks_is_no_silence() -> None:
    sent = [*range(0, 400, 20), *range(900, 1300, 20)]
    frames = [
        *speech(CALLEE, CALLER, sent, delivered=False),
        *speech(CALLEE, CALLER, [each + 1 for each in sent], delivered=True),
    ]
    assert silences(frames, CALLER[0]) == (None, Silence(1 * MS, 0))


def test_of_speech_that_never_got_through_all_is_silence() -> None:
    frames = [*speech(CALLER, CALLEE, range(0, 1000, 20), delivered=False)]
    assert silences(frames, CALLER[0]) == (Silence(980 * MS, 980 * MS), None)


def test_reports_and_signalling_are_no_speech() -> None:
    reports = speech(CALLER, CALLEE, [5, 900], delivered=False, kind=200)
    invite = Frame(0, _datagram(CALLER, CALLEE, b"INVITE sip:+420111@example.org SIP/2.0"), False)
    assert silences([*reports, invite], CALLER[0]) == (None, None)
