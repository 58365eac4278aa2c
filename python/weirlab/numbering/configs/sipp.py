"""SIPp scenarios: a caller per endpoint and answer, a callee per endpoint, and a command per test number."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from weirlab.numbering.configs import parts
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.routing import PlanNetwork

PAYLOADS: Final = {
    "ulaw": (0, "PCMU/8000"), "gsm": (3, "GSM/8000"), "alaw": (8, "PCMA/8000"), "g722": (9, "G722/8000"),
    "g729": (18, "G729/8000"),
}  # fmt: skip
"""Static RTP payload types (RFC 3551, table 4) by Asterisk's names."""

BYTES: Final = {"ulaw": 160, "alaw": 160, "gsm": 33, "g722": 160, "g729": 20}
"""Of payload in a packet of 20 ms (RFC 3551, 4.5)."""

HEAD: Final = """\
<?xml version="1.0" encoding="ISO-8859-1" ?>
<!-- PLACE; made by weir voice configs: change the plan instead. -->
<scenario name="NAME">
"""

INVITE: Final = """\
<send retrans="500"><![CDATA[
INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:USER@[local_ip]:[local_port]>;tag=[pid]f[call_number]
To: <sip:[service]@[remote_ip]>
Call-ID: [call_id]
CSeq: 1 INVITE
Contact: <sip:USER@[local_ip]:[local_port]TRANSPORT>
Max-Forwards: 70
Content-Type: application/sdp
Content-Length: [len]

SDP
]]></send>
<recv response="100" optional="true"/>
<recv response="180" optional="global"/>
<recv response="183" optional="true"/>
"""
"""A proxy with several processes may pass on a 180 after the 200 that follows it."""


def _request(what: str, sequence: str, head: str, *, to: str = "[next_url]", again: str = "") -> str:
    """The caller's request after the answer."""
    return f"""\
<send{again}><![CDATA[
{what} {to} SIP/2.0
{head}From: <sip:USER@[local_ip]:[local_port]>;tag=[pid]f[call_number]
To: <sip:[service]@[remote_ip]>[peer_tag_param]
Call-ID: [call_id]
CSeq: {sequence} {what}
Max-Forwards: 70
Content-Length: 0

]]></send>
"""


_AGAIN: Final = ' retrans="500"'
_ROUTED: Final = "Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n[routes]\n"

ANSWERED: Final = (
    '<recv response="200" rrs="true" rtd="true"/>\n'
    f'{_request("ACK", "1", _ROUTED)}<pause milliseconds="2000"/>\n'
    f'{_request("BYE", "2", _ROUTED, again=_AGAIN)}<recv response="200" crlf="true"/>\n'
)

REFUSED: Final = '<recv response="CODE" rtd="true"/>\n' + _request(
    "ACK", "1", "[last_Via:]\n", to="sip:[service]@[remote_ip]:[remote_port]"
)

CLASSES: Final = '<ResponseTimeRepartition value="5, 10, 20, 50, 100, 200, 500, 1000"/>'
"""Of set-up times, in ms."""

NO_CALL: Final = 481
"""Call/Transaction Does Not Exist (RFC 3261, 12.2.2)."""
NO_CALL_TAG: Final = "weir-no-call"
"""Of a request that only claims to belong to a call."""

CALLER_END: Final = f"{CLASSES}\n</scenario>\n"

OFFERED: Final = """\
<recv request="INVITE" crlf="true" rrs="true"><action>
<ereg regexp="m=audio [0-9]+ RTP/AVP[0-9 ]* (PAYLOADS)[^0-9]" search_in="body" assign_to="offered"/>
</action></recv>
<nop next="takes" test="offered"/>
"""
"""Does the caller offer a codec that the callee has?"""


def _response(status: str, rest: str, *, again: str = "", tag: str = ";tag=[pid]t[call_number]") -> str:
    """A response of the callee."""
    return f"""\
<send{again}><![CDATA[
SIP/2.0 {status}
[last_Via:]
[last_From:]
[last_To:]{tag}
[last_Call-ID:]
[last_CSeq:]
{rest}
]]></send>
"""


_DIALOG: Final = "[last_Record-Route:]\nContact: <sip:[local_ip]:[local_port]TRANSPORT>\n"
_EMPTY: Final = "Content-Length: 0\n"
_SPEECH: Final = f"{_DIALOG}Content-Type: application/sdp\nContent-Length: [len]\n\nSDP"

REPLY: Final = _response("STATUS", f"CONTACT{_EMPTY}", again=_AGAIN) + '<recv request="ACK"/>\n'

REASONS: Final = {302: "Moved Temporarily", 486: "Busy Here", 488: "Not Acceptable Here", 503: "Unavailable"}

RINGING: Final = _response("180 Ringing", _DIALOG + _EMPTY)

EARLY_PAUSE: Final = '<pause milliseconds="500"/>'
"""The pause in which early media are sent."""

EARLY: Final = f"{_response('183 Session Progress', _SPEECH)}{EARLY_PAUSE}\n"

TAKEN: Final = (
    _response("200 OK", _SPEECH, again=_AGAIN)
    + '<recv request="ACK" optional="false" rtd="true" crlf="true"/>\n<recv request="BYE"/>\n'
    + _response("200 OK", _EMPTY, tag="")
)

CALLEE_END: Final = """\
<label id="over"/>
<timewait milliseconds="200"/>
</scenario>
"""


def files(network: PlanNetwork) -> dict[str, str]:
    """Scenarios, and ``commands.txt`` with a line per test number that a SIP endpoint can call."""
    plan = network.plan
    found: dict[str, str] = {}
    commands = [f"# Calls to the test numbers of plan {plan.plan}; made by weir voice configs."]
    for index, test in enumerate(plan.tests):
        name = test.caller or plan.caller
        engine = plan.engines[name]
        if engine.home is None or "sip" not in engine.speaks:
            continue
        file = f"uac-{name}-{test.answer}.xml"
        found.setdefault(file, caller(network, name, test.answer))
        commands.append(f"# {parts.place(network, 'tests', index)} {test.note}".rstrip())
        commands.append(shlex.join(_command(network, file, name, engine, test.number)))
    for name, engine in plan.engines.items():
        if engine.kind == "endpoint" and "sip" in engine.speaks:
            found[f"uas-{name}.xml"] = callee(network, name)
    return {**found, "commands.txt": "\n".join(commands) + "\n"} if found else {}


def callee(network: PlanNetwork, name: str, status: int | None = None) -> str:
    """The scenario of a callee; with ``status``, it refuses every call with that."""
    engine = network.plan.engines[name]
    if status is None and engine.forwards_to is not None:
        status = 302
    if status is not None:
        title = f"{name} answers {status}"
        contact = "Contact: <sip:[local_ip]:[local_port]>\n"
        if status == 302:
            title = f"{name} forwards to {engine.forwards_to}"
            contact = f"Contact: <sip:{engine.forwards_to}@[local_ip]:[local_port]>\n"
        body = '<recv request="INVITE" crlf="true"/>\n' + _reply(status, contact)
    else:
        title = f"{name} answers"
        numbers = "|".join(str(PAYLOADS[codec][0]) for codec in _codecs(network, name))
        body = OFFERED.replace("PAYLOADS", numbers) + _reply(488, "").replace(
            '<recv request="ACK"/>', '<recv request="ACK" next="over"/>\n<label id="takes"/>'
        )
        body += (EARLY if engine.early_media else RINGING) + TAKEN
        body = body.replace("SDP\n", _sdp(network, name, "[media_port]"))
    return _head(network, name, title) + body.replace("TRANSPORT", _transport(engine)) + CALLEE_END


def _reply(status: int, contact: str) -> str:
    return REPLY.replace("STATUS", f"{status} {REASONS[status]}").replace("CONTACT", contact)


def _transport(engine: Engine) -> str:
    """A parameter for URIs of the engine."""
    return ";transport=tcp" if engine.transport == "tcp" else ""


def over(engine: Engine) -> tuple[str, ...]:
    """SIPp's options for the engine's transport."""
    return ("-t", "t1") if engine.transport == "tcp" else ()


def caller(network: PlanNetwork, name: str, answer: int) -> str:
    """The scenario of an endpoint that calls, and expects ``answer``.

    481 is the answer to a request of no call: such a request would have the engine pass it on to another one.
    """
    invite = INVITE
    if answer == NO_CALL:
        # SIPp takes an IPv6 address, in brackets, for a keyword.
        called = [
            parts.sip_uri(network, each).removeprefix("sip:")
            for each, engine in network.plan.engines.items()
            if engine.kind == "endpoint" and "sip" in engine.speaks and each != name and engine.address
        ]
        other = next((uri for uri in reversed(called) if "[" not in uri), "[remote_ip]:[remote_port]")
        to_home, to_other = "[service]@[remote_ip]:[remote_port] SIP", f"[service]@{other} SIP"
        invite = invite.replace(to_home, to_other)
        to = "To: <sip:[service]@[remote_ip]>"
        invite = invite.replace(to, f"{to};tag={NO_CALL_TAG}\nRoute: <sip:[remote_ip]:[remote_port];lr>")
    body = invite.replace("SDP\n", _sdp(network, name, "[auto_media_port]"))
    body += ANSWERED if answer == 200 else REFUSED.replace("CODE", str(answer))
    head = _head(network, name, f"{name} calls, and is answered {answer}")
    transport = _transport(network.plan.engines[name])
    return head + body.replace("USER", name).replace("TRANSPORT", transport) + CALLER_END


def _head(network: PlanNetwork, name: str, title: str) -> str:
    # Two hyphens would end the comment.
    where = parts.place(network, "engines", name).replace("--", "-")
    return HEAD.replace("PLACE", where).replace("NAME", title)


def _sdp(network: PlanNetwork, name: str, port: str) -> str:
    """The session description with the engine's codecs in their order."""
    codecs = _codecs(network, name)
    numbers = " ".join(str(PAYLOADS[codec][0]) for codec in codecs)
    lines = [
        "v=0",
        "o=- 1 1 IN IP[local_ip_type] [local_ip]",
        "s=-",
        "c=IN IP[media_ip_type] [media_ip]",
        "t=0 0",
        f"m=audio {port} RTP/AVP {numbers} 101",
        *(f"a=rtpmap:{PAYLOADS[codec][0]} {PAYLOADS[codec][1]}" for codec in codecs),
        "a=rtpmap:101 telephone-event/8000",
        "a=sendrecv",
    ]
    return "\n".join(lines) + "\n"


def _codecs(network: PlanNetwork, name: str) -> tuple[str, ...]:
    codecs = network.plan.engines[name].codecs or ("alaw",)
    for rank, codec in enumerate(codecs):
        if codec not in PAYLOADS:
            what = f"SIPp offers {', '.join(PAYLOADS)}, not {codec}; leave it out"
            raise parts.refuse(network, ("engines", name, "codecs", rank), what)
    return codecs


def _command(network: PlanNetwork, file: str, name: str, caller: Engine, number: str) -> Iterator[str]:
    assert caller.home is not None
    host = parts.address(network, name)
    home = parts.sip_uri(network, caller.home).removeprefix("sip:")
    yield from (
        "sipp", *over(caller), "-sf", file, home, "-i", host, "-p", str(caller.port("sip")), "-mi", host,
    )  # fmt: skip
    yield from ("-s", number, "-m", "1", "-nostdin", "-timeout", "25")
