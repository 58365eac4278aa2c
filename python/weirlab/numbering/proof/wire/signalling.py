"""SIP messages in frames, and the INVITEs among them with their answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from weirlab.numbering.configs.sipp import PAYLOADS
from weirlab.numbering.lab.recorder import Frame
from weirlab.numbering.proof.wire import packets
from weirlab.numbering.proof.wire.packets import TransportAddress

_RTP: Final = b"\x80"
"""How its packets begin: version 2, no padding, no extension, no contributing sources (RFC 3550, 5.1)."""
_START: Final = re.compile(r"(?:SIP/2\.0 (?P<status>\d{3})|(?P<method>[A-Z]+) (?P<uri>\S+) SIP/2\.0)(?: |$)")
_BRANCH: Final = re.compile(r";\s*branch=([^;,\s]+)")
_TAG: Final = re.compile(r";\s*tag=")
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
