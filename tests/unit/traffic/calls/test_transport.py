from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.signalling.iax2 import trunk_bytes, trunk_entries
from weirlab.traffic.calls.transport import (
    calls_per_packet,
    check,
    check_sendable,
    frame_bytes,
    parse_transport,
    trunk_room,
)


def test_iax2_mini_frames_are_8_bytes_shorter_than_rtp() -> None:
    stream = parse_codec("g711")
    assert frame_bytes(stream, "iax2") == frame_bytes(stream, "rtp") - 8 == 210


def test_a_trunk_frame_has_8_bytes_and_4_more_per_call() -> None:
    stream = parse_codec("gsm")
    sizes = [frame_bytes(stream, "iax2-trunk", calls) for calls in (2, 3)]
    assert sizes[1] - sizes[0] == 33 + 4
    # Two bytes more than RFC 5456 wants, see signalling.iax2.TRUNK_TAIL_BYTES.
    assert sizes[0] == 14 + 20 + 8 + 8 + 2 * (33 + 4) + 2 + 4


def test_the_size_of_a_trunk_frame_is_that_of_its_bytes() -> None:
    assert trunk_bytes(7, 33) == 8 + len(trunk_entries(range(1, 8), 33))


@pytest.mark.parametrize("text", ["g711", "g729", "gsm:40ms", "g723.1"])
def test_a_trunk_is_filled_to_the_largest_frame_of_ethernet(text: str) -> None:
    stream = parse_codec(text)
    room = trunk_room(stream)
    assert calls_per_packet(stream, "iax2-trunk") == room
    assert frame_bytes(stream, "iax2-trunk", room) <= 1518 < frame_bytes(stream, "iax2-trunk", room + 1)
    check(stream, "iax2-trunk", room)
    with pytest.raises(InputError, match=f"at most {room} calls fit"):
        check(stream, "iax2-trunk", room + 1)


def test_short_frames_are_padded_to_64_bytes() -> None:
    assert frame_bytes(parse_codec("g729:10ms"), "iax2") == 64


@pytest.mark.parametrize(
    ("codec", "transport", "calls", "complaint"),
    [
        ("opus", "iax2", None, "IAX2 has no number for Opus"),
        ("g726-16", "iax2", None, "IAX2 has no number"),
        ("g711:200ms", "rtp", None, "1,658 B are longer than Ethernet's 1,518 B; shorten the packet time"),
        ("g711", "rtp", 3, "only iax2-trunk"),
        ("g711", "iax2-trunk", 0, "1 or more"),
        ("g711:190ms", "iax2-trunk", None, "shorten the packet time"),
    ],
)
def test_what_does_not_fit_is_refused(codec: str, transport: str, calls: int | None, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        check(parse_codec(codec), parse_transport(transport)[0], calls)


@pytest.mark.parametrize(
    ("codec", "least"),
    [("g729:10ms", "20 ms"), ("g711:2ms", "3 ms"), ("opus@6k", "40 ms"), ("g726-16:8ms", "9 ms")],
)
def test_packets_without_room_for_the_probe_are_not_sent(codec: str, least: str) -> None:
    with pytest.raises(InputError, match=f"Packets of {least} have it"):
        check_sendable(parse_codec(codec))


def test_the_smallest_usual_packets_can_be_sent() -> None:
    for text in ("g729", "g723.1-5.3", "g711:3ms"):
        check_sendable(parse_codec(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [("rtp", ("rtp", None)), (" IAX2 ", ("iax2", None)), ("iax2-trunk*8", ("iax2-trunk", 8))],
)
def test_transports_are_read(text: str, found: tuple[str, int | None]) -> None:
    assert parse_transport(text) == found


@pytest.mark.parametrize("text", ["", "udp", "iax", "rtp*3", "iax2-trunk*", "iax2-trunk*x"])
def test_what_is_no_transport_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="transport"):
        parse_transport(text)
