"""SIP messages of a call between two user agents without a proxy (RFC 3261, 3264; SDP of RFC 8866).

Receivers discard bytes behind the body (RFC 3261 section 18.3), so the probe lies there, behind
``Content-Length`` bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from weirlab.traffic.calls.signalling import PROBE_BYTES, SignallingMessage

PORT: Final = 5060

TRYING_MS: Final = 2.0
RINGING_MS: Final = 20.0
ANSWER_MS: Final = 100.0
"""A machine answers: a person takes seconds, which would only lengthen trials."""
ACK_MS: Final = 102.0
SET_UP_MS: Final = 110.0
"""From the INVITE until speech may begin."""
BYE_OK_MS: Final = 2.0

_BEFORE_PROBE: Final = b"\xff" * (PROBE_BYTES // 2)
"""Bytes that are not text and do not end one. Wireshark (4.0) reads the rest of the packet as one string and
warns about anything after a zero byte, which may be the first byte of the probe. It writes three bytes for
each that is not UTF-8: its string is then as long as these and the probe."""

_NEWLINE: Final = "\r\n"


@dataclass(frozen=True)
class Party:
    """The address of one side of a call; ``media_port`` is that of RTP, RTCP has the next one."""

    address: str
    media_port: int


@dataclass(frozen=True)
class SipCall:
    """A call as SIP sees it.

    ``number`` distinguishes it from all others of the same ``seed``: identifiers derive from these two.
    ``encoding`` is what ``a=rtpmap`` says, such as ``PCMU/8000``. ``directions`` says who talks:
    ``forward`` the caller alone, ``back`` the callee alone.
    """

    number: int
    caller: Party
    callee: Party
    payload_type: int
    encoding: str
    packet_ms: float
    directions: Literal["forward", "back", "both"] = "both"
    seed: int = 1


def dialog(call: SipCall, talk_ms: float) -> list[SignallingMessage]:
    """Set-up and tear-down; times from the INVITE, the BYE leaves ``talk_ms`` after the ACK."""
    return [*set_up(call), *tear_down(call, ACK_MS + talk_ms)]


@lru_cache(maxsize=1 << 14)
def set_up(call: SipCall, at_ms: float = 0.0) -> tuple[SignallingMessage, ...]:
    """INVITE, 100, 180, 200 and ACK; the INVITE leaves at ``at_ms``.

    Kept, some 3 kB a call: the trials of a search make the same calls again and again.
    """
    offer = _sdp(call, call.caller, _DIRECTION[call.directions][0])
    answer = _sdp(call, call.callee, _DIRECTION[call.directions][1])
    via = _via(call, "INVITE")
    invite = _message(
        f"INVITE {_callee(call)} SIP/2.0",
        [
            via, "Max-Forwards: 70", f"From: {_from(call)}", f"To: <{_callee(call)}>",
            f"Call-ID: {_call_id(call)}", "CSeq: 1 INVITE", f"Contact: <{_caller(call)}:{PORT}>",
            "Allow: INVITE, ACK, CANCEL, BYE",
        ],
        offer,
    )  # fmt: skip

    def answered(status: str, to: str, *more: str, body: str = "") -> bytes:
        return _message(
            f"SIP/2.0 {status}",
            [via, f"From: {_from(call)}", f"To: {to}", f"Call-ID: {_call_id(call)}", "CSeq: 1 INVITE", *more],
            body,
        )

    ack = _message(
        f"ACK {_callee(call)}:{PORT} SIP/2.0",
        [
            # The ACK of a 2xx is a separate transaction (RFC 3261 section 17.1.1.3).
            _via(call, "ACK"),
            "Max-Forwards: 70",
            f"From: {_from(call)}",
            f"To: {_to(call)}",
            f"Call-ID: {_call_id(call)}",
            "CSeq: 1 ACK",
        ],
    )
    contact = f"Contact: <{_callee(call)}:{PORT}>"
    return (
        SignallingMessage(True, at_ms, invite, "INVITE"),
        # No tag in a 100: it makes no dialog (RFC 3261 section 8.2.6.2).
        SignallingMessage(False, at_ms + TRYING_MS, answered("100 Trying", f"<{_callee(call)}>"), "100"),
        SignallingMessage(False, at_ms + RINGING_MS, answered("180 Ringing", _to(call), contact), "180"),
        SignallingMessage(
            False,
            at_ms + ANSWER_MS,
            answered("200 OK", _to(call), contact, "Allow: INVITE, ACK, CANCEL, BYE", body=answer),
            "200",
        ),
        SignallingMessage(True, at_ms + ACK_MS, ack, "ACK"),
    )


def tear_down(call: SipCall, at_ms: float = 0.0) -> list[SignallingMessage]:
    """BYE and 200; the caller's BYE leaves at ``at_ms``."""
    shared = [
        _via(call, "BYE"),
        f"From: {_from(call)}",
        f"To: {_to(call)}",
        f"Call-ID: {_call_id(call)}",
        "CSeq: 2 BYE",
    ]
    bye = _message(f"BYE {_callee(call)}:{PORT} SIP/2.0", [shared[0], "Max-Forwards: 70", *shared[1:]])
    return [
        SignallingMessage(True, at_ms, bye, "BYE"),
        SignallingMessage(False, at_ms + BYE_OK_MS, _message("SIP/2.0 200 OK", shared), "200"),
    ]


# What caller and callee declare (RFC 3264 section 6.1).
_DIRECTION: Final[dict[str, tuple[str, str]]] = {
    "both": ("sendrecv", "sendrecv"),
    "forward": ("sendonly", "recvonly"),
    "back": ("recvonly", "sendonly"),
}


def _message(start: str, headers: list[str], body: str = "") -> bytes:
    content = body.encode("ascii")
    lines = [
        start,
        *headers,
        *(("Content-Type: application/sdp",) if content else ()),
        f"Content-Length: {len(content)}",
        "",
        "",
    ]
    return _NEWLINE.join(lines).encode("ascii") + content + _BEFORE_PROBE + bytes(PROBE_BYTES)


def _sdp(call: SipCall, party: Party, direction: str) -> str:
    family = "IP6" if ":" in party.address else "IP4"
    session = int(_digest(call, party.address)[:8], 16)
    lines = [
        "v=0",
        f"o=- {session} 1 IN {family} {party.address}",
        "s=-",
        f"c=IN {family} {party.address}",
        "t=0 0",
        f"m=audio {party.media_port} RTP/AVP {call.payload_type}",
        f"a=rtpmap:{call.payload_type} {call.encoding}",
        f"a=ptime:{call.packet_ms:g}",
        f"a={direction}",
        "",
    ]
    return _NEWLINE.join(lines)


def _host(party: Party) -> str:
    return f"[{party.address}]" if ":" in party.address else party.address


def _caller(call: SipCall) -> str:
    return f"sip:a{call.number}@{_host(call.caller)}"


def _callee(call: SipCall) -> str:
    return f"sip:b{call.number}@{_host(call.callee)}"


def _from(call: SipCall) -> str:
    return f"<{_caller(call)}>;tag={_digest(call, 'from')[:10]}"


def _to(call: SipCall) -> str:
    return f"<{_callee(call)}>;tag={_digest(call, 'to')[:10]}"


def _via(call: SipCall, transaction: str) -> str:
    """The Via of the caller, which sends every request; with the magic cookie of RFC 3261 section 8.1.1.7."""
    branch = f"z9hG4bK{_digest(call, transaction)[:16]}"
    return f"Via: SIP/2.0/UDP {_host(call.caller)}:{PORT};branch={branch}"


def _call_id(call: SipCall) -> str:
    return f"{_digest(call, 'call')[:16]}@{_host(call.caller)}"


def _digest(call: SipCall, what: str) -> str:
    return hashlib.blake2b(f"{call.seed} {call.number} {what}".encode(), digest_size=16).hexdigest()
