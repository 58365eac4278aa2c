from __future__ import annotations

import struct

import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.calls import control
from weirlab.traffic.calls.control import Report, SenderInfo
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S, PROBE_BYTES

CNAME = "c7@198.18.0.5"


def packets(payload: bytes) -> list[tuple[int, int, bytes]]:
    """Type, count field and content of each packet in a compound one."""
    found = []
    while payload:
        first, kind, words = struct.unpack_from(">BBH", payload)
        assert first >> 6 == 2
        assert not first & 0x20  # No padding bit.
        size = 4 * (words + 1)
        assert len(payload) >= size
        found.append((kind, first & 0x1F, payload[4:size]))
        payload = payload[size:]
    return found


def test_a_compound_packet_is_report_name_and_probe() -> None:
    payload = control.compound(0xCAFE, CNAME, SenderInfo(2500, 160, 12, 1920))
    (sr, reports, report), (sdes, chunks, chunk), (app, _, data) = packets(payload)
    assert (sr, sdes, app) == (200, 202, 204)
    assert (reports, chunks) == (0, 1)
    ssrc, seconds, fraction, stamp, sent, octets = struct.unpack(">IIIIII", report)
    assert (ssrc, stamp, sent, octets) == (0xCAFE, 160, 12, 1920)
    # Seconds since 1900, of which 70 years with 17 leap days lie before 1970.
    assert seconds == ORIGIN_UNIX_S + (70 * 365 + 17) * 86_400 + 2
    assert fraction == 1 << 31
    assert chunk[4:6] == bytes((1, len(CNAME)))
    assert chunk[6 : 6 + len(CNAME)] == CNAME.encode()
    assert not any(chunk[6 + len(CNAME) :])
    assert data[4:8] == b"WEIR"
    assert payload[-PROBE_BYTES:] == bytes(PROBE_BYTES)


@pytest.mark.parametrize("length", range(1, 9))
def test_a_chunk_ends_with_a_null_octet_on_a_word_boundary(length: int) -> None:
    _, (_, _, chunk), _ = packets(control.compound(1, "x" * length))
    assert chunk[6 + length] == 0
    assert len(chunk) % 4 == 0


def test_a_reception_report_tells_loss_and_the_last_sender_report() -> None:
    report = Report(
        0xBEEF, loss_ratio=0.25, lost=40, highest_sequence=70_000, jitter_units=13, last_sr_ms=1000,
        delay_since_ms=500,
    )  # fmt: skip
    (_, count, content), *_ = packets(control.compound(1, CNAME, SenderInfo(1500), reports=(report,)))
    assert count == 1
    ssrc, loss, highest, jitter, last, delay = struct.unpack(">IIIIII", content[24:])
    assert (ssrc, highest, jitter) == (0xBEEF, 70_000, 13)
    assert (loss >> 24, loss & 0xFFFFFF) == (64, 40)
    seconds = struct.unpack_from(">I", content, 4)[0]
    assert (
        last == (seconds & 0xFFFF) << 16
    )  # The middle of the NTP time stamp; 1.0 s and 1.5 s share seconds.
    assert delay == 32_768


def test_before_any_sender_report_the_block_says_nothing_of_one() -> None:
    (_, _, content), *_ = packets(control.compound(1, CNAME, reports=(Report(2),)))
    assert content[24 + 16 :] == bytes(8)


@pytest.mark.parametrize(("ip", "headers"), [(4, 42), (6, 62)])
@pytest.mark.parametrize("frame_bytes", [128, 200, 256])
def test_the_size_comes_closest_to_the_frame_wanted(ip: int, headers: int, frame_bytes: int) -> None:
    size = control.compound_bytes(len(CNAME), frame_bytes, ip=4 if ip == 4 else 6)
    payload = control.compound(1, CNAME, size_bytes=size)
    assert len(payload) == size
    least = len(control.compound(1, CNAME))
    assert size == max(least, (frame_bytes - headers - 4) // 4 * 4)
    assert [kind for kind, _, _ in packets(payload)] == [200, 202, 204]


def test_what_does_not_fit_is_refused_with_the_least_that_does() -> None:
    with pytest.raises(InputError, match="at least 84 B"):
        control.compound(1, CNAME, size_bytes=80)
    with pytest.raises(InputError, match="multiple of 4"):
        control.compound(1, CNAME, size_bytes=130)
