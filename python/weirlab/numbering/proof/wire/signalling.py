"""SIP messages in frames, and MGCP (RFC 3435): the calls in them with their answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from weirlab.numbering.configs.sipp import NO_CALL_TAG, PAYLOADS
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.proof.wire import packets
from weirlab.numbering.proof.wire.packets import TransportAddress

_RTP: Final = b"\x80"
"""How its packets begin: version 2, no padding, no extension, no contributing sources (RFC 3550, 5.1)."""
_START: Final = re.compile(r"(?:SIP/2\.0 (?P<status>\d{3})|(?P<method>[A-Z]+) (?P<uri>\S+) SIP/2\.0)(?: |$)")
_BRANCH: Final = re.compile(r";\s*branch=([^;,\s]+)")
_TAG: Final = re.compile(rf";\s*tag=(?!{NO_CALL_TAG})")
"""What shows that a request belongs to a call; a forged one is shown as a call that begins."""
_AUDIO: Final = re.compile(r"^m=audio \d+ \S+ ([\d ]+)", re.MULTILINE)
_SHORT: Final = {"v": "via", "t": "to", "f": "from", "i": "call-id", "c": "content-type"}
_CODECS: Final = {number: name for name, (number, _) in PAYLOADS.items()}


@dataclass(frozen=True)
class SipMessage:
    """A SIP message on its way from one host to the next."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    method: str
    """Method of the request, or of the request that is answered."""
    status: int
    """Status of an answer; 0 for a request."""
    reason: str
    """Reason phrase of an answer."""
    uri: str
    """Of a request."""
    call_id: str
    branch: str
    """Of the topmost Via: which request an answer is for (RFC 3261, 17.1.3)."""
    within: bool
    """Is it inside an existing dialog?"""
    codecs: tuple[str, ...]
    """Offered or accepted in the body, the preferred one first."""

    @property
    def title(self) -> str:
        """``INVITE +420224355289``, ``200 OK``."""
        if self.status:
            return f"{self.status} {self.reason}".rstrip()
        user = self.uri.removeprefix("sip:").partition("@")
        return f"{self.method} {user[0]}" if user[1] and self.method == "INVITE" else self.method


class LadderMessage(NamedTuple):
    """A message of any protocol, for a ladder."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    title: str
    call_id: str


@dataclass(frozen=True)
class CallLeg:
    """An INVITE, or its equivalent, from one place to another, and its final answer; 0 for none."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    call_id: str
    branch: str
    uri: str
    offered: tuple[str, ...] = ()
    answer: int = 0
    answered_ns: int = 0
    codecs: tuple[str, ...] = ()
    """Accepted in the answer."""

    @property
    def codec(self) -> str | None:
        """The caller's codec: the first of its offer that the answer has."""
        return next((codec for codec in self.offered if codec in self.codecs), None)


def messages(frames: Iterable[Frame]) -> list[SipMessage]:
    """SIP messages in frames that came to the switch, by time."""
    found = map(_message, packets.payloads(frames))
    return [message for message in found if message is not None]


def legs(listed: Sequence[SipMessage]) -> list[CallLeg]:
    """The INVITEs that begin calls, in order and without retransmissions."""
    found: dict[tuple[TransportAddress, str], CallLeg] = {}
    for each in listed:
        if each.method != "INVITE":
            continue
        if not each.status and not each.within:
            key = (each.source, each.branch)
            leg = CallLeg(
                each.at_ns, each.source, each.target, each.call_id, each.branch, each.uri, each.codecs
            )
            found.setdefault(key, leg)
        elif each.status >= 200:
            begun = found.get((each.target, each.branch))
            if begun is not None and not begun.answer:
                found[each.target, each.branch] = replace(
                    begun, answer=each.status, answered_ns=each.at_ns, codecs=each.codecs
                )
    return list(found.values())


def ladder(listed: Sequence[SipMessage]) -> Iterator[LadderMessage]:
    """The messages for a ladder."""
    for each in listed:
        yield LadderMessage(each.at_ns, each.source, each.target, each.title, each.call_id)


def speaks(frames: Iterable[Frame], address: str) -> bool:
    """Does a host send RTP into the switch?"""
    sent = packets.datagrams(frames)
    return any(each.source.address == address and each.content[:1] == _RTP for each in sent)


def _message(carried: packets.Payload) -> SipMessage | None:
    head, _, body = carried.content.decode("utf-8", errors="replace").partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    start = _START.match(first)
    if start is None:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers.setdefault(_SHORT.get(name, name), value.strip())
    branch = _BRANCH.search(headers.get("via", ""))
    audio = _AUDIO.search(body)
    numbers = [int(number) for number in audio[1].split()] if audio else []
    return SipMessage(
        at_ns=carried.at_ns,
        source=carried.source,
        target=carried.target,
        method=start["method"] or headers.get("cseq", "").rpartition(" ")[2],
        status=int(start["status"] or 0),
        reason=first[start.end() :] if start["status"] else "",
        uri=start["uri"] or "",
        call_id=headers.get("call-id", ""),
        branch=branch[1] if branch else "",
        within=bool(_TAG.search(headers.get("to", ""))),
        codecs=tuple(_CODECS[number] for number in numbers if number in _CODECS),
    )


_COMMAND_START: Final = re.compile(
    r"(?:(?P<verb>[A-Z]{4}) (?P<number>\d{1,9}) (?P<endpoint>\S+) MGCP 1\.0"
    r"|(?P<code>\d{3}) (?P<answered>\d{1,9})(?: (?P<reason>.*))?)$"
)
CALL: Final = "MGCP "
"""How the identifiers of calls begin that a line makes or gets."""
BUSY: Final = 486
NO_REASON: Final = 503
"""The SIP answer for a tone that tells only that there is no call."""
_TROUBLE: Final = {"bz": BUSY, "cg": NO_REASON, "ro": NO_REASON}
"""SIP answers for the tones of a caller (RFC 3660)."""
_BUSY: Final = (401, 402)
"""The telephone is off the hook, or on it (RFC 3435, 2.4)."""


@dataclass(frozen=True)
class Command:
    """A command, or the answer to one."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    verb: str
    """Empty for an answer."""
    number: int
    code: int
    """Code of an answer; 0 for a command."""
    lines: dict[str, str]
    """Parameters by their letters."""

    @property
    def title(self) -> str:
        if not self.verb:
            return str(self.code)
        more = self.lines.get("O") or self.lines.get("S") or ""
        return f"{self.verb} {more}".rstrip()


def commands(frames: Iterable[Frame]) -> list[Command]:
    """Commands and answers, by time."""
    found = []
    for at_ns, source, target, content in packets.datagrams(frames):
        first, *rest = content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        start = _COMMAND_START.match(first)
        if start is None:
            continue
        lines = {}
        for line in rest:
            if not line:
                break
            key, _, value = line.partition(":")
            lines[key.strip().upper()] = value.strip()
        number, code = int(start["number"] or start["answered"]), int(start["code"] or 0)
        found.append(Command(at_ns, source, target, start["verb"] or "", number, code, lines))
    return found


def mgcp_ladder(listed: Sequence[Command]) -> Iterator[LadderMessage]:
    """The messages of calls, without registrations and audits, for a ladder."""
    asked = {(each.source, each.number): each for each in listed if each.verb}
    for each in listed:
        command = each if each.verb else asked.get((each.target, each.number))
        if command is not None and command.verb not in ("RSIP", "AUEP"):
            yield LadderMessage(each.at_ns, each.source, each.target, each.title, f"MGCP {each.number}")


def mgcp_legs(listed: Sequence[Command], others: Sequence[CallLeg]) -> list[CallLeg]:
    """Calls to and from lines; ``others`` are the legs of other protocols.

    A line that calls is told of the answer by nothing but speech: it has it when the call that its call agent
    makes for it has it.
    """
    found = [*_to_lines(listed)]
    for leg in _from_lines(listed):
        onward = [
            other
            for other in (*others, *found)
            if other.source.address == leg.target.address
            and other.at_ns >= leg.at_ns
            and 200 <= other.answer < 300
        ]
        if onward and not leg.answer:
            leg = replace(leg, answer=200, answered_ns=min(each.answered_ns for each in onward))
        found.append(leg)
    return sorted(found, key=lambda leg: leg.at_ns)


def _to_lines(listed: Sequence[Command]) -> Iterator[CallLeg]:
    """A call to a line, from ringing to off-hook; a refused command is also an answer."""
    sent: set[tuple[TransportAddress, int]] = set()
    for at, each in enumerate(listed):
        again = (each.source, each.number) in sent
        if each.verb != "CRCX" or again or _is_off_hook(each.target, listed[:at]):
            continue
        sent.add((each.source, each.number))
        later = listed[at + 1 :]
        leg = CallLeg(
            each.at_ns, each.source, each.target, f"{CALL}{each.number}", f"{CALL}{each.number}", ""
        )
        numbers = {each.number}
        for other in later:
            if other.source == each.source and other.target == each.target and other.verb:
                numbers.add(other.number)
                if other.verb == "DLCX":
                    break
            if other.source.address != each.target.address:
                continue
            if other.verb == "NTFY" and other.lines.get("O", "").lower().endswith("hd"):
                leg = replace(leg, answer=200, answered_ns=other.at_ns)
                break
            if other.code >= 400 and other.number in numbers:
                answer = 486 if other.code in _BUSY else 503
                leg = replace(leg, answer=answer, answered_ns=other.at_ns)
                break
        yield leg


def _is_off_hook(line: TransportAddress, before: Sequence[Command]) -> bool:
    """The last hook state that a line reported."""
    for each in reversed(before):
        if each.verb == "NTFY" and each.source.address == line.address:
            event = each.lines.get("O", "").lower()
            if event.endswith(("hd", "hu")):
                return event.endswith("hd")
    return False


def _from_lines(listed: Sequence[Command]) -> Iterator[CallLeg]:
    """A call from a line, from its last digit to a tone that signals failure."""
    dialled: dict[str, tuple[Command, str]] = {}
    for each in listed:
        if each.verb == "NTFY" and (digit := re.fullmatch(r"D/([0-9*#])", each.lines.get("O", ""))):
            known = dialled.get(each.source.address)
            if known is None or known[0].number != each.number:
                dialled[each.source.address] = (each, (known[1] if known else "") + digit[1])
    for address, (last, number) in dialled.items():
        leg = CallLeg(
            last.at_ns, last.source, last.target, f"{CALL}{last.number}", f"{CALL}{last.number}", number
        )
        for each in listed:
            tone = re.search(r"\b(bz|cg|ro)\b", each.lines.get("S", ""))
            if each.at_ns > last.at_ns and each.verb == "RQNT" and each.target.address == address and tone:
                leg = replace(leg, answer=_TROUBLE[tone[1]], answered_ns=each.at_ns)
                break
        yield leg
