"""Calls that were recorded: what their SIP messages show."""

from __future__ import annotations

import struct

import pytest

from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.proof import ways
from weirlab.numbering.proof.wire import signalling

from .test_proof import RECORDED, call


def recorded_frames() -> list[Frame]:
    """The SIP messages of a call through Kamailio 5.6.3, its preferred target cut off; sent by SIPp 3.6.1."""
    content = (RECORDED / "fall-back.pcap").read_bytes()
    frames, at = [], 24
    while at < len(content):
        seconds, nanoseconds, size, _ = struct.unpack_from("<IIII", content, at)
        frames.append(
            Frame(seconds * 10**9 + nanoseconds, content[at + 16 : at + 16 + size], delivered=False)
        )
        at += 16 + size
    return frames


def test_a_recorded_call_falls_back_after_three_seconds() -> None:
    net, wanted = call("+420111555001", "branch")
    listed = signalling.messages(recorded_frames())
    assert [message.title for message in listed if message.source.address == "10.93.0.30"] == [
        "180 Ringing", "200 OK", "200 OK",
    ]  # fmt: skip
    to_core, to_branch, to_cyrus = signalling.legs(listed)
    assert (to_core.answer, to_branch.answer, to_cyrus.answer) == (200, 0, 200)
    assert (to_cyrus.offered, to_cyrus.codecs, to_cyrus.codec) == (("alaw", "ulaw"), ("alaw", "ulaw"), "alaw")
    log = (RECORDED / "kamailio.log").read_text()
    found = ways.taken(net, wanted, [to_core, to_branch, to_cyrus], {"core": log, "branch": ""})
    assert found.engines == ("phone", "core", "cyrus")
    assert found.tried == ("core > branch: no answer",)
    assert found.setup_ns == pytest.approx(3e9, abs=0.1e9)
    assert ways.differences(wanted, found) == []


def test_what_is_no_sip_message_is_passed_over() -> None:
    frame = recorded_frames()[0]
    spoiled = [frame._replace(content=frame.content[:size]) for size in (0, 13, 20, 33, 41, 42, 60)]
    other = frame._replace(content=frame.content.replace(b"SIP/2.0\r\n", b"HTTP/1.\r\n", 1))
    delivered = frame._replace(delivered=True)
    assert signalling.messages([*spoiled, other, delivered]) == []
    assert len(signalling.messages([frame])) == 1
