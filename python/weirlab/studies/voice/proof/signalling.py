"""SIP messages in frames, and the INVITEs among them with what became of each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final, NamedTuple

from weirlab.studies.voice.configs.sipp import PAYLOADS
from weirlab.studies.voice.lab.seen import Frame

_RTP: Final = b"\x80"
"""How its packets begin: version 2, no padding, no extension, no contributing sources (RFC 3550, 5.1)."""
_START: Final = re.compile(r"(?:SIP/2\.0 (?P<status>\d{3})|(?P<method>[A-Z]+) (?P<uri>\S+) SIP/2\.0)(?: |$)")
_BRANCH: Final = re.compile(r";\s*branch=([^;,\s]+)")
_TAG: Final = re.compile(r";\s*tag=")
_AUDIO: Final = re.compile(r"^m=audio \d+ \S+ ([\d ]+)", re.MULTILINE)
_SHORT: Final = {"v": "via", "t": "to", "f": "from", "i": "call-id", "c": "content-type"}
_CODECS: Final = {number: name for name, (number, _) in PAYLOADS.items()}


class Place(NamedTuple):
    """Where a datagram comes from or goes to."""

    address: str
    port: int


@dataclass(frozen=True)
class Message:
    """A SIP message on its way from one host to the next."""

    at_ns: int
    source: Place
    target: Place
    method: str
    """Of the request, or of the one that is answered."""
    status: int
    """Of an answer; 0 for a request."""
    reason: str
    """What an answer says behind its status."""
    uri: str
    """Of a request."""
    call_id: str
    branch: str
    """Of the topmost Via: which request an answer is for (RFC 3261, 17.1.3)."""
    within: bool
    """Inside a dialogue that is there already?"""
    codecs: tuple[str, ...]
    """Offered or accepted in the body, the preferred one first."""

    @property
    def title(self) -> str:
        """``INVITE +420224355289``, ``200 OK``."""
        if self.status:
            return f"{self.status} {self.reason}".rstrip()
        user = self.uri.removeprefix("sip:").partition("@")
        return f"{self.method} {user[0]}" if user[1] and self.method == "INVITE" else self.method


@dataclass(frozen=True)
class Leg:
    """An INVITE from one place to another, and the final answer; 0 for none."""

    at_ns: int
    source: Place
    target: Place
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
        """What the caller speaks: the first codec of its offer that the answer has."""
        return next((codec for codec in self.offered if codec in self.codecs), None)


def messages(frames: Iterable[Frame]) -> list[Message]:
    """SIP messages in frames that came to the switch, by time."""
    found = (_message(frame) for frame in frames if not frame.delivered)
    return [message for message in found if message is not None]


def legs(listed: Sequence[Message]) -> list[Leg]:
    """The INVITEs that begin calls, each once however often it was sent, in order."""
    found: dict[tuple[Place, str], Leg] = {}
    for each in listed:
        if each.method != "INVITE":
            continue
        if not each.status and not each.within:
            key = (each.source, each.branch)
            leg = Leg(each.at_ns, each.source, each.target, each.call_id, each.branch, each.uri, each.codecs)
            found.setdefault(key, leg)
        elif each.status >= 200:
            begun = found.get((each.target, each.branch))
            if begun is not None and not begun.answer:
                found[each.target, each.branch] = replace(
                    begun, answer=each.status, answered_ns=each.at_ns, codecs=each.codecs
                )
    return list(found.values())


def speaks(frames: Iterable[Frame], address: str) -> bool:
    """Does a host send RTP into the switch?"""
    sent = (_udp(frame.content) for frame in frames if not frame.delivered)
    return any(each is not None and each[0].address == address and each[2][:1] == _RTP for each in sent)


def _message(frame: Frame) -> Message | None:
    datagram = _udp(frame.content)
    if datagram is None:
        return None
    source, target, payload = datagram
    head, _, body = payload.decode("utf-8", errors="replace").partition("\r\n\r\n")
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
    return Message(
        at_ns=frame.at_ns,
        source=source,
        target=target,
        method=start["method"] or headers.get("cseq", "").rpartition(" ")[2],
        status=int(start["status"] or 0),
        reason=first[start.end() :] if start["status"] else "",
        uri=start["uri"] or "",
        call_id=headers.get("call-id", ""),
        branch=branch[1] if branch else "",
        within=bool(_TAG.search(headers.get("to", ""))),
        codecs=tuple(_CODECS[number] for number in numbers if number in _CODECS),
    )


def _udp(frame: bytes) -> tuple[Place, Place, bytes] | None:
    """Source, target and payload of a datagram over Ethernet; None for another frame, or a fragment."""
    kind, ip = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and len(ip) >= 20 and ip[9] == 17 and not int.from_bytes(ip[6:8]) & 0x3FFF:
        source, target, udp = ip[12:16], ip[16:20], ip[(ip[0] & 15) * 4 :]
    elif kind == b"\x86\xdd" and len(ip) >= 40 and ip[6] == 17:
        source, target, udp = ip[8:24], ip[24:40], ip[40:]
    else:
        return None
    if len(udp) < 8:
        return None
    here = Place(str(ip_address(source)), int.from_bytes(udp[:2]))
    there = Place(str(ip_address(target)), int.from_bytes(udp[2:4]))
    return here, there, udp[8 : int.from_bytes(udp[4:6])]
