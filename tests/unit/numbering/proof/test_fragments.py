"""Datagrams that were cut into fragments on their way."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.proof.wire import packets, signalling
from weirlab.numbering.proof.wire.packets import LIFE_NS, MOST_OPEN, payloads

SIP = b"INVITE sip:+420111222001@core SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=1\r\nCall-ID: 7\r\n\r\n"
CONTENT = SIP + bytes(range(256)) * 8
FOUR, SIX = bytes((192, 0, 2, 1, 192, 0, 2, 2)), bytes(15) + b"\1" + bytes(15) + b"\2"


def udp(content: bytes = CONTENT) -> bytes:
    return struct.pack(">HHHH", 5060, 5061, 8 + len(content), 0) + content


def piece(
    whole: bytes, begin: int, end: int, *, version: int = 4, number: int = 1, at_ns: int = 0,
    more: bool | None = None, options: bytes = b"",
) -> Frame:  # fmt: skip
    """Bytes ``begin`` to ``end`` of a datagram's content, as a frame."""
    part, follows = whole[begin:end], end < len(whole) if more is None else more
    if version == 4:
        place = begin // 8 | 0x2000 * follows
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(part), number, place, 64, 17, 0) + FOUR
        return Frame(at_ns, bytes(12) + b"\x08\x00" + head + part, delivered=False)
    header = struct.pack(">BBHI", 17, 0, begin | follows, number)
    first = 60 if options else 44
    size = len(options) + len(header) + len(part)
    head = struct.pack(">IHBB", 6 << 28, size, first, 64) + SIX
    return Frame(at_ns, bytes(12) + b"\x86\xdd" + head + options + header + part, delivered=False)


def found(frames: Sequence[Frame]) -> list[bytes]:
    return [each.content for each in payloads(frames)]


def cut(whole: bytes, units: set[int], version: int = 4, number: int = 1) -> list[Frame]:
    ends = [0, *(8 * unit for unit in sorted(units)), len(whole)]
    return [piece(whole, begin, end, version=version, number=number) for begin, end in pairwise(ends)]


@settings(max_examples=50)
@given(
    st.sampled_from((4, 6)), st.sets(st.integers(1, (len(udp()) - 1) // 8), min_size=1),
    st.sets(st.integers(1, (len(udp()) - 1) // 8), min_size=1), st.randoms(use_true_random=False),
)  # fmt: skip
def test_datagrams_are_whole_however_they_are_cut_and_in_whatever_order_they_come(
    version: int, units: set[int], others: set[int], chance: Random
) -> None:
    other = udp(CONTENT[::-1])
    one, two = cut(udp(), units, version), cut(other, others, version, number=2)
    # All but the last fragment to come may come again.
    *frames, last = chance.sample([*one, *two], len(one) + len(two))
    frames = [each for frame in frames for each in [frame] * chance.choice((1, 1, 2))]
    assert {*found([*frames, last])} == {CONTENT, CONTENT[::-1]}


def test_a_message_is_told_when_its_last_fragment_came() -> None:
    frames = [piece(udp(), 0, 1480, at_ns=5), piece(udp(), 1480, len(udp()), at_ns=9)]
    (message,) = signalling.messages(frames)
    assert (message.at_ns, message.title, message.source.port) == (9, "INVITE +420111222001", 5060)


def test_options_before_a_fragment_are_passed_over() -> None:
    options = bytes((44, 1)) + bytes(14)
    frames = [
        piece(udp(), 0, 1232, version=6, options=options), piece(udp(), 1232, len(udp()), version=6),
    ]  # fmt: skip
    assert found(frames) == [CONTENT]
    assert found([piece(udp(), 0, len(udp()), version=6, options=options)]) == [CONTENT]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("begin", "end", "more"),
    [
        (8, 24, True),
        (0, 8, True),
        (640, 656, True),
        (1480, 1488, False),
        (1600, 1608, False),
        (2400, 2408, True),
        (1480, 1480, True),
        (1480, 1485, True),
        (65528, 65560, True),
    ],
    ids=[
        "inside", "the beginning again, shorter", "across a border", "an end before the end",
        "another end", "behind the end", "empty", "not in units of 8 bytes", "beyond what a datagram can be",
    ],
)  # fmt: skip
def test_a_datagram_with_fragments_that_contradict_each_other_is_dropped(
    version: int, begin: int, end: int, more: bool
) -> None:
    whole = udp()
    ends = [0, 648, 1480, len(whole)]
    frames = [piece(whole, a, b, version=version) for a, b in pairwise(ends)]
    wrong = piece(bytes(70_000), begin, end, version=version, more=more)
    assert found([frames[2], frames[0], wrong, frames[1]]) == []
    # Its fragments that come again do not make it right, and another datagram is whole.
    assert found([frames[2], frames[0], wrong, *frames, *cut(whole, {9}, version, number=2)]) == [CONTENT]


def test_a_datagram_that_is_late_is_given_up() -> None:
    first, last = piece(udp(), 0, 800), piece(udp(), 800, len(udp()))
    assert found([first, last._replace(at_ns=LIFE_NS)]) == [CONTENT]
    assert found([first, last._replace(at_ns=LIFE_NS + 1)]) == []
    assert found([first, last._replace(at_ns=LIFE_NS + 1), first._replace(at_ns=LIFE_NS + 2)]) == [CONTENT]


def test_of_many_datagrams_that_are_never_whole_the_oldest_are_forgotten() -> None:
    flood = [piece(udp(), 800, len(udp()), number=number) for number in range(2, 2 + MOST_OPEN)]
    first, last = piece(udp(), 0, 800), piece(udp(), 800, len(udp()))
    assert found([first, *flood[1:], last]) == [CONTENT]
    assert found([first, *flood, last]) == []
    reassembly = packets.Reassembly()
    for number in range(1000):
        key = packets.Datagram(FOUR[:4], FOUR[4:], number, 17)
        reassembly.take(0, packets.Fragment(key, 17, 8, True, bytes(8)))
    assert len(reassembly._open) == MOST_OPEN


def test_a_packet_that_was_cut_short_by_the_capture_is_none() -> None:
    for version in (4, 6):
        frame = piece(udp(), 0, len(udp()), version=version)
        assert found([frame]) == [CONTENT]
        assert found([frame._replace(content=frame.content[:-1])]) == []


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=24), st.booleans()), max_size=30))
def test_what_is_made_of_any_fragments_are_the_bytes_that_were_sent(
    parts: list[tuple[int, bytes, bool]],
) -> None:
    key = packets.Datagram(FOUR[:4], FOUR[4:], 1, 17)
    reassembly, sent = packets.Reassembly(), []
    for unit, content, more in parts:
        sent.append((unit * 8, content))
        whole = reassembly.take(0, packets.Fragment(key, 17, unit * 8, more, content))
        if whole is not None:
            # Every byte of it came at its place in some fragment.
            for at, byte in enumerate(whole[1]):
                assert any(a <= at < a + len(b) and b[at - a] == byte for a, b in sent)
