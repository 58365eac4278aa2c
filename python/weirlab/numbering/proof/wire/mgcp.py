"""MGCP on the wire: commands and answers between call agents and lines (RFC 3435), and the calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.numbering.lab.recorder import Frame
from weirlab.numbering.proof.wire import packets
from weirlab.numbering.proof.wire.packets import TransportAddress
from weirlab.numbering.proof.wire.signalling import CallLeg, LadderMessage

_START: Final = re.compile(
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
        start = _START.match(first)
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


def ladder(listed: Sequence[Command]) -> Iterator[LadderMessage]:
    """The messages of calls, without registrations and audits, for a ladder."""
    asked = {(each.source, each.number): each for each in listed if each.verb}
    for each in listed:
        command = each if each.verb else asked.get((each.target, each.number))
        if command is not None and command.verb not in ("RSIP", "AUEP"):
            yield LadderMessage(each.at_ns, each.source, each.target, each.title, f"MGCP {each.number}")


def legs(listed: Sequence[Command], others: Sequence[CallLeg]) -> list[CallLeg]:
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
