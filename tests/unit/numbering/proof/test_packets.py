"""SIP messages out of TCP connections, and questions to name servers."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.fakes import FakeLab, _answer, _question
from weirlab.numbering.lab.engines import Daemon
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.plan.model import EnumEntry, Naptr
from weirlab.numbering.proof.wire import questions
from weirlab.numbering.proof.wire.packets import payloads

from ..plans import network

HERE, THERE = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
MESSAGES = (
    b"INVITE sip:a@b SIP/2.0\r\nContent-Length: 4\r\n\r\nv=0\n",
    b"SIP/2.0 100 Trying\r\nl: 0\r\n\r\n",
    b"BYE sip:a@b SIP/2.0\r\n\r\n",
)
STREAM = b"\r\n\r\n".join(MESSAGES)
FIRST = 0xFFFFFFF0
"""Sequence numbers pass 0 on the way."""


def segment(at: int, content: bytes, flags: int = 0x18) -> Frame:
    tcp = struct.pack(">HHIIBBHHH", 40000, 5060, (FIRST + at) % (1 << 32), 0, 0x50, flags, 0, 0, 0) + content
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + HERE + THERE
    return Frame(at, bytes(12) + b"\x08\x00" + ip + tcp, delivered=False)


def cut(places: set[int]) -> list[Frame]:
    ends = [0, *sorted(places), len(STREAM)]
    return [segment(1 + begin, STREAM[begin:end]) for begin, end in pairwise(ends) if begin < end]


@settings(max_examples=25)
@given(st.sets(st.integers(1, len(STREAM) - 1)), st.randoms(use_true_random=False))
def test_messages_are_found_however_they_are_cut_and_in_whatever_order_they_come(
    places: set[int], chance: Random
) -> None:
    frames = cut(places)
    frames += frames[:2]  # sent again
    chance.shuffle(frames)
    found = [each.content for each in payloads([segment(0, b"", 0x02), *frames])]
    assert found == list(MESSAGES)


def test_a_connection_that_was_there_before_is_read_from_where_it_is() -> None:
    assert [each.content for each in payloads(cut(set()))] == list(MESSAGES)
    assert [each.source.port for each in payloads(cut(set()))] == [40000] * 3


@settings(max_examples=25)
@given(st.binary(max_size=80))
def test_frames_of_any_kind_are_no_error(content: bytes) -> None:
    frames = [
        Frame(0, content, False),
        Frame(0, bytes(12) + b"\x08\x00" + content, False),
        segment(0, content),
    ]
    frames.append(FakeLab._sip(_lab(), 0, "phone", "core", (content.decode("latin-1"),)))
    list(payloads(frames))
    questions.questions(frames)


def _lab() -> FakeLab:
    return FakeLab(network(), Path())


SERVER = Daemon("named", "named", "192.0.2.2", 53, ())
NAME = "1.0.0.0.0.0.1.1.1.0.2.4.e164.arpa"


def datagram(at_ns: int, content: bytes, *, answer: bool = False) -> Frame:
    ports, ends = ((53, 40000), THERE + HERE) if answer else ((40000, 53), HERE + THERE)
    udp = struct.pack(">HHHH", *ports, 8 + len(content), 0) + content
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends
    return Frame(at_ns, bytes(12) + b"\x08\x00" + ip + udp, delivered=False)


def asked(entry: EnumEntry | None, took_ns: int = 1000) -> list[questions.DnsQuery]:
    question = _question(NAME)
    if entry is None:
        return questions.questions([datagram(0, question)])
    answer = _answer(question, entry, network())
    return questions.questions([datagram(0, question), datagram(took_ns, answer, answer=True)])


def test_an_answer_of_the_plan_is_true() -> None:
    net = network()
    (found,) = asked(net.plan.enum[0])
    assert (found.name, found.kind, found.answered_ns) == (NAME, "NAPTR", 1000)
    assert [*questions.untrue(net, [found], [SERVER])] == []
    assert [*questions.troubles([found], [SERVER])] == []
    assert questions.answering([found], [SERVER]) == ["named"]


def test_an_answer_that_is_not_the_plan_s_is_told_with_both() -> None:
    lie = EnumEntry(
        tree="public", number="+420111000001", naptr=(Naptr(service="E2U+sip", uri="sip:x@evil.example"),)
    )
    (told,) = questions.untrue(network(), asked(lie), [SERVER])
    assert told == (
        f"named answers E2U+sip !^\\+(.*)$!sip:x@evil.example! for {NAME}, but the plan says "
        "E2U+sip !^\\+(.*)$!sip:+\\1@example.net!, E2U+h323 !^\\+(.*)$!h323:\\1@gk.example.net!"
    )


def test_an_answer_that_was_cut_short_is_not_judged() -> None:
    lie = Naptr(service="E2U+sip", uri="sip:x@evil.example")
    question = _question(NAME)
    answer = bytearray(
        _answer(question, EnumEntry(tree="public", number="+420111000001", naptr=(lie,)), network())
    )
    for is_cut in (False, True):
        answer[2] = answer[2] & ~2 | 2 * is_cut
        found = questions.questions([datagram(0, question), datagram(1000, bytes(answer), answer=True)])
        assert bool([*questions.untrue(network(), found, [SERVER])]) is not is_cut


@pytest.mark.parametrize(
    ("entry", "took_ns", "words"),
    [
        (None, 0, "named did not answer 1 of 1 query"),
        (network().plan.enum[0], 2_100_000_000, "named took 2.10 s to answer"),
    ],
)
def test_a_server_that_is_silent_or_slow_is_told(entry: EnumEntry | None, took_ns: int, words: str) -> None:
    assert math.isnan(questions.longest_ns(asked(None)))
    assert questions.longest_ns(asked(network().plan.enum[0], 7000)) == 7000
    assert [*questions.troubles(asked(entry, took_ns), [SERVER])] == [words]
