"""H.323 on the wire: what gatekeepers are asked (H.225.0 RAS), and call signalling (Q.931). Pure.

In direct mode a gatekeeper only says where a call goes. On the way of a call it is the one who sent it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.studies.voice.gatekeeper import ras
from weirlab.studies.voice.lab.seen import Frame
from weirlab.studies.voice.proof.wire import packets
from weirlab.studies.voice.proof.wire.packets import Place
from weirlab.studies.voice.proof.wire.signalling import Leg, Told

_Q931: Final = 0x08
"""Protocol discriminator (Q.931, 4.2)."""
_CALL_REFERENCE_BYTES: Final = 2
"""H.225.0, 7.2.2."""
_FROM_CALLEE: Final = 0x80
_SETUP, _CONNECT, _RELEASE = 0x05, 0x07, 0x5A
_TITLES: Final = {
    0x01: "Alerting", 0x02: "Call Proceeding", 0x03: "Progress", _SETUP: "Setup", _CONNECT: "Connect",
    _RELEASE: "Release Complete", 0x62: "Facility", 0x7B: "Information", 0x7D: "Status",
    0x75: "Status Inquiry", 0x6E: "Notify",
}  # fmt: skip
"""Message types (Q.931, table 4-2)."""

_CALLED, _CAUSE, _USER_USER = 0x70, 0x08, 0x7E
_SINGLE: Final = 0x80
"""Set in information elements of one octet."""

_ANSWERS: Final = {
    1: 404, 2: 404, 3: 404, 17: 486, 18: 408, 19: 480, 20: 480, 21: 403, 22: 410, 26: 404, 27: 502, 28: 484,
    29: 501, 31: 480, 34: 503, 38: 503, 41: 503, 42: 503, 47: 503, 55: 403, 57: 403, 58: 503, 65: 488,
    70: 488, 79: 501, 87: 403, 88: 503, 102: 504, 111: 500, 127: 500,
}  # fmt: skip
"""Causes as answers of SIP (RFC 3398, 7.2.4.1)."""
_OTHER: Final = 500

_RAS_TITLES: Final = {
    ras.GatekeeperRequest: "GRQ", ras.GatekeeperConfirm: "GCF", ras.RegistrationRequest: "RRQ",
    ras.RegistrationConfirm: "RCF", ras.RegistrationReject: "RRJ", ras.UnregistrationRequest: "URQ",
    ras.UnregistrationConfirm: "UCF", ras.AdmissionRequest: "ARQ", ras.AdmissionConfirm: "ACF",
    ras.AdmissionReject: "ARJ", ras.DisengageRequest: "DRQ", ras.DisengageConfirm: "DCF",
    ras.BandwidthRequest: "BRQ", ras.BandwidthConfirm: "BCF", ras.LocationRequest: "LRQ",
    ras.LocationConfirm: "LCF", ras.LocationReject: "LRJ",
}  # fmt: skip


@dataclass(frozen=True)
class Signal:
    """A message of call signalling."""

    at_ns: int
    source: Place
    target: Place
    kind: int
    """Message type."""
    reference: int
    """Of the call, on its connection."""
    number: str = ""
    """Called, digits; empty if the message does not say."""
    cause: int = 0
    """Of a release; 0 if the message does not say."""

    @property
    def title(self) -> str:
        more = self.number or (f"cause {self.cause}" if self.cause else "")
        return f"{_TITLES[self.kind]} {more}".rstrip()


@dataclass(frozen=True)
class Ras:
    """A message between an endpoint and a gatekeeper, or between two gatekeepers."""

    at_ns: int
    source: Place
    target: Place
    message: ras.Message

    @property
    def title(self) -> str:
        asked = self.message
        number = asked.digits if isinstance(asked, (ras.AdmissionRequest, ras.LocationRequest)) else ""
        return f"{_RAS_TITLES[type(asked)]} {number}".rstrip()


def signals(frames: Iterable[Frame]) -> list[Signal]:
    """Messages of call signalling, by time."""
    found = map(_signal, packets.payloads(frames))
    return [signal for signal in found if signal is not None]


def requests(frames: Iterable[Frame]) -> list[Ras]:
    """What gatekeepers are asked and answer, by time."""
    found = []
    for at_ns, source, target, content in packets.datagrams(frames):
        if ras.PORT in (source.port, target.port):
            try:
                found.append(Ras(at_ns, source, target, ras.read(content)))
            except ras.NoMessage:
                continue
    return found


def told(heard: Sequence[Signal], asked: Sequence[Ras]) -> Iterator[Told]:
    """The messages of calls, for a ladder; registrations are none."""
    for signal in heard:
        yield Told(signal.at_ns, signal.source, signal.target, signal.title, f"H.225.0 {signal.reference}")
    for each in asked:
        if re.match("[ADL]", each.title):
            yield Told(each.at_ns, each.source, each.target, each.title, f"RAS {each.message.number}")


def legs(heard: Sequence[Signal], asked: Sequence[Ras]) -> list[Leg]:
    """Calls from one place to another, and questions to gatekeepers as legs to and from these."""
    found: list[Leg] = []
    for at, signal in enumerate(heard):
        if signal.kind == _SETUP:
            found += _leg(signal, heard[at + 1 :], asked)
    silent: set[tuple[str, str]] = set()
    for each in filter(_is_call, asked):
        answer = _answer(each, asked)
        ends = (each.source.address, each.target.address)
        if answer is None and ends not in silent:
            # However often it is asked, with whatever number.
            silent.add(ends)
            found.append(_refused(each, None))
        elif answer is not None and isinstance(answer.message, ras.AdmissionReject):
            found.append(_refused(each, answer))
            found += [_refused(*pair) for pair in _rejections(each, answer, asked)]
    return sorted(found, key=lambda leg: leg.at_ns)


def _is_call(asked: Ras) -> bool:
    """Does somebody ask who wants to call?"""
    return isinstance(asked.message, ras.AdmissionRequest) and not asked.message.answers


def _leg(setup: Signal, later: Sequence[Signal], asked: Sequence[Ras]) -> Iterator[Leg]:
    """A call, and before it the gatekeepers that told its caller where it goes."""
    answer, answered_ns = 0, 0
    for signal in later:
        if (signal.source, signal.target, signal.reference) != (setup.target, setup.source, setup.reference):
            continue
        if signal.kind == _CONNECT:
            answer, answered_ns = 200, signal.at_ns
            break
        if signal.kind == _RELEASE:
            answer, answered_ns = _ANSWERS.get(signal.cause, _OTHER), signal.at_ns
            break
    identifier = f"{setup.source.address} {setup.source.port}"
    source = setup.source
    for number, question in enumerate(_questions(setup, asked)):
        where = question.target
        yield Leg(
            question.at_ns, source, where, identifier, f"RAS {number}", setup.number, (), answer, answered_ns
        )
        source = where
    yield Leg(setup.at_ns, source, setup.target, identifier, "H.225.0", setup.number, (), answer, answered_ns)


def _questions(setup: Signal, asked: Sequence[Ras]) -> list[Ras]:
    """Questions that led to a call: of its caller, then of the gatekeepers from one to the next."""
    before = [each for each in asked if each.at_ns <= setup.at_ns]
    for each in reversed(before):
        answer = _answer(each, before)
        if (
            _is_call(each)
            and each.source.address == setup.source.address
            and answer is not None
            and isinstance(answer.message, ras.AdmissionConfirm)
            and answer.message.destination == tuple(setup.target)
        ):
            return [each, *_passed_on(each, answer, before)]
    return []


def _passed_on(question: Ras, answer: Ras, asked: Sequence[Ras]) -> list[Ras]:
    """Questions of gatekeepers to others between a question and its answer, those that were confirmed."""
    chain = []
    here = question.target.address
    for each in asked:
        if not question.at_ns <= each.at_ns <= answer.at_ns or not isinstance(
            each.message, ras.LocationRequest
        ):
            continue
        found = _answer(each, asked)
        if (
            each.source.address == here
            and found is not None
            and isinstance(found.message, ras.LocationConfirm)
        ):
            chain.append(each)
            here = each.target.address
    return chain


def _rejections(question: Ras, answer: Ras, asked: Sequence[Ras]) -> Iterator[tuple[Ras, Ras]]:
    """Questions of gatekeepers between a question and its rejection, and the answers to them."""
    for each in asked:
        inside = question.at_ns <= each.at_ns <= answer.at_ns
        if inside and isinstance(each.message, ras.LocationRequest):
            found = _answer(each, asked)
            if found is not None:
                yield each, found


def _refused(question: Ras, answer: Ras | None) -> Leg:
    """A question that led nowhere; it may not have been answered."""
    number = getattr(question.message, "digits", "")
    told = (0, 0) if answer is None else (404, answer.at_ns)
    branch = f"RAS {question.message.number}"
    return Leg(question.at_ns, question.source, question.target, "", branch, number, (), *told)


def _answer(question: Ras, asked: Sequence[Ras]) -> Ras | None:
    """The first answer to a question, from whom it went to."""
    kinds = {
        ras.AdmissionRequest: (ras.AdmissionConfirm, ras.AdmissionReject),
        ras.LocationRequest: (ras.LocationConfirm, ras.LocationReject),
    }.get(type(question.message), ())
    for each in asked:
        if (
            each.at_ns >= question.at_ns
            and isinstance(each.message, kinds)
            and each.message.number == question.message.number
            and each.source.address == question.target.address
            and each.target.address == question.source.address
        ):
            return each
    return None


def _signal(carried: packets.Payload) -> Signal | None:
    content = carried.content
    if content[:2] != bytes((_Q931, _CALL_REFERENCE_BYTES)) or len(content) < 5 or content[4] not in _TITLES:
        return None
    # The flag tells who sends, and is no part of the reference (Q.931, 4.3).
    reference = int.from_bytes(content[2:4]) & ~(_FROM_CALLEE << 8)
    signal = Signal(carried.at_ns, carried.source, carried.target, content[4], reference)
    for kind, value in _elements(content[5:]):
        if kind == _CALLED:
            signal = replace(signal, number=value[1:].decode("ascii", "replace"))
        elif kind == _CAUSE and len(value) > 1:
            # What is wrong stands behind octets that are continued (Q.850, 2.1).
            at = next((i for i, octet in enumerate(value) if octet & _SINGLE), 0) + 1
            signal = replace(signal, cause=value[at] & 0x7F if at < len(value) else 0)
    return signal


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Information elements (Q.931, 4.5.1); user-user has a length of two octets (H.225.0, 7.2.2.31)."""
    at = 0
    while at < len(content):
        kind = content[at]
        if kind & _SINGLE:
            at += 1
            continue
        width = 2 if kind == _USER_USER else 1
        size = int.from_bytes(content[at + 1 : at + 1 + width])
        at += 1 + width
        yield kind, content[at : at + size]
        at += size
