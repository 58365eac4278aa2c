"""Frames of ndt7's WebSocket, and its measurements."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.transfers.tcp import ndt7
from weirlab.transfers.tcp.ndt7 import client, messages
from weirlab.transfers.tcp.ndt7.messages import (
    BINARY,
    CLOSE,
    MOST_BINARY_BYTES,
    PING,
    TEXT,
    FrameError,
    FrameReader,
    TransferReport,
    header,
    message,
)

KEY = bytes.fromhex("37fa213d")


def taken(reader: FrameReader, content: bytes, step: int) -> list[tuple[int, bytes]]:
    parts = (content[at : at + step] for at in range(0, len(content), step))
    return [found for part in parts for found in reader.take(memoryview(part))]


def test_the_examples_of_rfc_6455_are_read() -> None:
    hello = bytes.fromhex("810548656c6c6f")
    assert message(TEXT, b"Hello") == hello
    assert taken(FrameReader(masked=False), hello, 1) == [(TEXT, b"Hello")]
    masked = bytes.fromhex("818537fa213d7f9f4d5158")
    assert message(TEXT, b"Hello", KEY) == masked
    assert taken(FrameReader(masked=True), masked, 3) == [(TEXT, b"Hello")]
    in_two = bytes.fromhex("010348656c80026c6f")
    assert taken(FrameReader(masked=False), in_two, 100) == [(TEXT, b"Hello")]
    assert client.accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@given(
    st.lists(st.tuples(st.sampled_from([TEXT, BINARY, PING]), st.binary(max_size=100)), max_size=20),
    st.integers(1, 50),
    st.booleans(),
)
def test_messages_arrive_in_whatever_parts(sent: list[tuple[int, bytes]], step: int, masked: bool) -> None:
    reader = FrameReader(masked=masked)
    content = b"".join(message(kind, payload, KEY if masked else b"") for kind, payload in sent)
    assert taken(reader, content, step) == [each for each in sent if each[0] != BINARY]
    assert reader.binary_bytes == sum(len(payload) for kind, payload in sent if kind == BINARY)


def test_a_binary_message_in_many_frames_is_counted_and_a_control_frame_may_come_between() -> None:
    reader = FrameReader(masked=False)
    parts = [b"\x02\x03abc", message(CLOSE, b"\x03\xe8"), b"\x00\x01d", b"\x80\x02ef", message(TEXT, b"x")]
    assert taken(reader, b"".join(parts), 4) == [(CLOSE, b"\x03\xe8"), (TEXT, b"x")]
    assert reader.binary_bytes == 6


@pytest.mark.parametrize(
    "content",
    [
        header(BINARY, 1, KEY),
        b"\xc2\x01a",
        b"\x83\x00",
        b"\x80\x01a",
        b"\x01\x01a\x02\x01b",
        b"\x09\x00",
        b"\x89\x7e\x00\x7e",
        header(BINARY, MOST_BINARY_BYTES + 1),
        header(BINARY, 1 << 63),
        header(TEXT, 1 << 17),
    ],
)
def test_what_violates_the_protocol_ends_the_test(content: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader(masked=False).take(memoryview(content))


def test_a_measurement_says_what_the_specification_names_and_comes_back_whole() -> None:
    fields = {"rtt_us": 1234, "min_rtt_us": 1000, "snd_cwnd": 10, "max_pacing_rate_bytes_per_s": 2**64 - 1}
    report = TransferReport(2_000_000, 17, fields, "abc")
    sent = messages.text(report, "download", ends=(("192.0.2.7", 5), ("2001:db8::1", 80)))
    told = json.loads(sent)
    assert told["AppInfo"] == {"ElapsedTime": 2_000_000, "NumBytes": 17}
    assert told["ConnectionInfo"] == {"Client": "192.0.2.7:5", "Server": "[2001:db8::1]:80", "UUID": "abc"}
    assert (told["Origin"], told["Test"]) == ("server", "download")
    assert told["TCPInfo"]["RTT"] == 1234
    assert told["TCPInfo"]["MinRTT"] == 1000
    found = messages.parsed(sent)
    assert found is not None
    assert (found.elapsed_us, found.app_bytes, found.uuid) == (2_000_000, 17, "abc")
    # JSON has no number for a limit that is not set.
    assert found.fields == {name: value for name, value in fields.items() if value < 1 << 53}
    assert "ConnectionInfo" not in json.loads(messages.text(report, "upload", ends=None))


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"[]", b"7", b'{"AppInfo": 7}', b'{"AppInfo": {"ElapsedTime": -1}}', b"[" * 9999],
)
def test_what_is_no_measurement_is_ignored(payload: bytes) -> None:
    assert messages.parsed(payload) is None


def test_messages_grow_while_they_are_fast() -> None:
    least = messages.LEAST_BYTES
    assert messages.next_size(least, 15 * least, 0.0, MOST_BINARY_BYTES) == least
    assert messages.next_size(least, 16 * least, 0.001, MOST_BINARY_BYTES) == 2 * least
    assert messages.next_size(least, 16 * least, 0.1, MOST_BINARY_BYTES) == least
    assert messages.next_size(MOST_BINARY_BYTES, 1 << 40, 0.0, MOST_BINARY_BYTES) == MOST_BINARY_BYTES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ws://192.0.2.1:29180", ("ws", "192.0.2.1", 29180)),
        ("ws://[2001:db8::1]:8080/", ("ws", "2001:db8::1", 8080)),
        ("2001:db8::1", ("wss", "2001:db8::1", 443)),
        ("ndt.example.net", ("wss", "ndt.example.net", 443)),
        ("ws://localhost", ("ws", "localhost", 80)),
    ],
)
def test_a_server_is_named_by_host_or_address(text: str, expected: tuple[str, str, int]) -> None:
    assert ndt7.endpoint(text) == expected


@pytest.mark.parametrize("text", ["http://a", "ws://", "ws://a:99999", "ws://a/b", "ws://u@a", "ws://[::1"])
def test_what_is_no_server_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--ndt7"):
        ndt7.endpoint(text)
