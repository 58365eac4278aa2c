"""Captures of situations in calls, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from weirlab.calls.quality.finding import Kind
from weirlab.calls.quality.study import USUAL_READING, QualityOutcome, capture_quality, merge, quality_share

from .captures import Rtp, ethernet, frames, pcap, udp_over_ip

Frames = list[tuple[int, bytes]]


def outcome_of(
    file: Path, packets: Iterable[Rtp], others: Iterable[tuple[int, bytes]] = ()
) -> QualityOutcome:
    """How the packets were heard, which is the same if several processes divide them."""
    pcap(file, sorted([*frames(packets), *others], key=lambda each: each[0]))
    outcome = capture_quality(file)
    shares = [quality_share(file, USUAL_READING, (number, 3)) for number in range(3)]
    assert repr(merge(file, USUAL_READING, shares).document()) == repr(outcome.document())
    return outcome


def found(outcome: QualityOutcome, kind: Kind) -> list[tuple[tuple[int, ...], str]]:
    return [(each.streams, each.text) for each in outcome.findings if each.kind == kind]


def message(
    line: str,
    port: int,
    address: str = "192.0.2.1",
    *,
    types: str = "0 8 101",
    direction: str = "sendrecv",
    cseq: str = "1 INVITE",
) -> bytes:
    """A SIP message of one call whose sender wants media at this address and port."""
    body = (
        f"v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n"
        f"m=audio {port} RTP/AVP {types}\r\na=rtpmap:101 telephone-event/8000\r\na={direction}\r\n"
    )
    head = (
        f"{line}\r\nCall-ID: 7@x\r\nCSeq: {cseq}\r\nFrom: <sip:alice@example.net>;tag=1\r\n"
        f"To: <sip:bob@example.net>\r\nContent-Type: application/sdp\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


INVITE, OK = "INVITE sip:bob@example.net SIP/2.0", "SIP/2.0 200 OK"


def sip(at_us: int, src: str, dst: str, content: bytes) -> tuple[int, bytes]:
    return at_us, ethernet(udp_over_ip(src, dst, 5060, 5060, content))


def answered(caller_address: str = "192.0.2.1", caller_signals: str = "192.0.2.1") -> Frames:
    return [
        sip(0, caller_signals, "192.0.2.2", message(INVITE, 4000, caller_address)),
        sip(100_000, "192.0.2.2", caller_signals, message(OK, 4002, "192.0.2.2")),
    ]


def back(packets: Sequence[Rtp]) -> list[Rtp]:
    """The same from the other end."""
    return [
        replace(each, src=each.dst, dst=each.src, src_port=each.dst_port, dst_port=each.src_port, ssrc=5)
        for each in packets
    ]
