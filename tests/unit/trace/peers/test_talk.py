"""The captures themselves: numbers, checksums and options as the RFCs have them."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import replace

import pytest

from weirlab.testing import TcpConversation, TcpSide
from weirlab.testing.tcp import fragments, pcap

from .scripts import A, B, opened
from .scripts import fragments as fragmented


def words(data: bytes) -> int:
    """The sum that is 0xffff over what has its checksum in it (RFC 1071)."""
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def options(frame: bytes) -> list[tuple[int, bytes]]:
    """Of TCP in IPv4, without padding."""
    tcp = frame[34:]
    rest, found = tcp[20 : (tcp[12] >> 4) * 4], []
    while rest:
        length = 1 if rest[0] == 1 else rest[1]
        if rest[0] != 1:
            found.append((rest[0], rest[2:length]))
        rest = rest[length:]
    return found


def sack_blocks(frame: bytes) -> list[tuple[int, ...]]:
    """Relative to the first byte of data."""
    values = [value for kind, value in options(frame) if kind == 5]
    edges = [edge - A.isn - 1 for value in values for edge in struct.unpack(f">{len(value) // 4}I", value)]
    return list(zip(edges[::2], edges[1::2], strict=True))


@pytest.mark.parametrize("addresses", [("192.0.2.1", "198.51.100.2"), ("2001:db8::1", "2001:db8::2")])
def test_checksums_are_right(addresses: tuple[str, str]) -> None:
    talk = opened(replace(A, address=addresses[0]), replace(B, address=addresses[1]))
    talk.a.send(999)
    talk.b.ack()
    for _, frame in talk.packets():
        ip = frame[14:]
        v4 = ip[0] >> 4 == 4
        assert not v4 or words(ip[:20]) == 0xFFFF
        ends, tcp = (ip[12:20], ip[20:]) if v4 else (ip[8:40], ip[40:])
        assert {ipaddress.ip_address(end) for end in (ends[: len(ends) // 2], ends[len(ends) // 2 :])} == {
            ipaddress.ip_address(address) for address in addresses
        }
        assert words(ends + struct.pack(">II", len(tcp), 6) + tcp) == 0xFFFF


def test_sack_blocks_tell_what_lies_behind_a_hole_the_latest_first() -> None:
    talk = opened()
    for fate in ("lost", "arrives", "lost", "arrives"):
        talk.a.send(100, fate)  # type: ignore[arg-type]
    talk.b.ack()
    assert sack_blocks(talk.packets()[-1][1]) == [(300, 400), (100, 200)]


def test_a_duplicate_is_reported_once_in_front() -> None:
    talk = opened()
    first = talk.a.send(100)
    talk.a.send(100, "lost")
    talk.a.send(100)
    talk.a.again(first)
    talk.b.ack()
    assert sack_blocks(talk.packets()[-1][1]) == [(0, 100), (200, 300)]
    talk.b.ack()
    assert sack_blocks(talk.packets()[-1][1]) == [(200, 300)]


def test_a_late_packet_is_the_one_that_was_sent_and_one_sent_again_is_another() -> None:
    talk = opened()
    late = talk.a.send(100, "late")
    talk.wait(50)
    talk.arrive(late)
    again = talk.a.again(late)
    shown = talk.segments[-2]
    assert (shown.ip_id, shown.ts_val, shown.seq) == (late.ip_id, late.ts_val, late.seq)
    assert shown.time_ns - late.time_ns == 50_000_000
    assert again.ip_id != late.ip_id
    assert again.ts_val - late.ts_val == 50


def test_time_stamps_echo_the_last_packet_in_order() -> None:
    talk = opened()

    def echoed() -> int:
        talk.b.ack()
        return int(struct.unpack(">II", dict(options(talk.packets()[-1][1]))[8])[1])

    talk.a.send(100)
    talk.wait(5)
    second = talk.a.send(100)
    assert echoed() == second.ts_val
    talk.a.send(100, "lost")
    talk.wait(5)
    talk.a.send(100)
    assert echoed() == second.ts_val


def test_windows_are_scaled_if_both_offer_it_and_never_in_a_syn() -> None:
    both = opened(A, replace(B, window_scale=4, window_bytes=32_000))
    both.b.ack()
    assert [segment.window for segment in both.segments if segment.sender == "b"] == [32_000, 2000]
    one = opened(replace(A, window_scale=None), replace(B, window_scale=4, window_bytes=32_000))
    one.b.ack()
    assert [segment.window for segment in one.segments if segment.sender == "b"] == [32_000, 32_000]


def test_sequence_numbers_wrap_in_the_header_and_go_on_in_the_script() -> None:
    talk = opened(replace(A, isn=2**32 - 50))
    talk.a.send(100)
    talk.b.ack()
    assert talk.a.next_seq == 2**32 + 51
    assert struct.unpack(">I", talk.packets()[-1][1][42:46]) == (51,)


def test_fragments_put_together_are_the_packet() -> None:
    talk = opened()
    talk.a.send(1400)
    whole = talk.packets()[-1][1][14:]
    pieces = list(fragments(whole, 576))
    assert [len(piece) <= 576 for piece in pieces] == [True] * 3
    assert all(words(piece[:20]) == 0xFFFF for piece in pieces)
    offsets = [(struct.unpack(">H", piece[6:8])[0] & 0x1FFF) * 8 for piece in pieces]
    assert offsets == [0, 552, 1104]
    assert b"".join(piece[20:] for piece in pieces) == whole[20:]
    assert len(fragmented()) == len(opened().packets()) + 4 * 4 + 3


def test_a_capture_is_the_same_every_time_and_cut_at_the_snap_length() -> None:
    talk = TcpConversation(TcpSide("192.0.2.1", 1), TcpSide("192.0.2.2", 2))
    talk.handshake()
    talk.a.send(500)
    file = pcap(talk.packets(), snap_bytes=80)
    assert file == pcap(talk.packets(), snap_bytes=80)
    kept, sent = struct.unpack("<II", file[-80 - 8 : -80])
    assert (kept, sent) == (80, len(talk.packets()[-1][1]))
