"""Netlink messages about addresses, as bytes."""

from __future__ import annotations

import struct

from weirlab.lab.redundant.base import changes


def message(kind: int, address: bytes, name: int = 2) -> bytes:
    """struct nlmsghdr, struct ifaddrmsg, and attributes: a label of odd length, then the address."""
    label = struct.pack("=HH5s3x", 9, 3, b"lan0\0")
    attributes = label + struct.pack("=HH4s", 8, name, address)
    body = struct.pack("=BBBBI", 2, 24, 0, 0, 7) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_additions_and_removals_are_told_in_order() -> None:
    data = message(20, b"\xc0\x00\x02\xfe") + message(21, b"\xcb\x00\x71\xfe")
    assert list(changes(data)) == [(True, "192.0.2.254"), (False, "203.0.113.254")]


def test_other_messages_and_attributes_say_nothing() -> None:
    assert list(changes(message(16, b"\xc0\x00\x02\xfe"))) == []
    assert list(changes(message(20, b"\xc0\x00\x02\xfe", name=1))) == []


def test_a_message_that_was_cut_off_ends_the_reading() -> None:
    assert list(changes(b"")) == []
    assert list(changes(b"\0" * 40)) == []
