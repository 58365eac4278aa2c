"""H.323 on the wire: requests to gatekeepers (RAS), call signalling (H.225.0), channels (H.245). Pure.

In direct mode, a gatekeeper only says where a call goes. It counts as an engine on the way of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.proof.wire import packets
from weirlab.numbering.proof.wire.packets import TransportAddress
from weirlab.numbering.proof.wire.signalling import CallLeg, LadderMessage
from weirlab.numbering.telephone import h225, h245
from weirlab.numbering.telephone.h245 import Channel

_ANSWERS: Final = {
    1: 404, 2: 404, 3: 404, 17: 486, 18: 408, 19: 480, 20: 480, 21: 403, 22: 410, 26: 404, 27: 502, 28: 484,
    29: 501, 31: 480, 34: 503, 38: 503, 41: 503, 42: 503, 47: 503, 55: 403, 57: 403, 58: 503, 65: 488,
    70: 488, 79: 501, 87: 403, 88: 503, 102: 504, 111: 500, 127: 500,
}  # fmt: skip
"""SIP answers for causes (RFC 3398, 7.2.4.1)."""
_OTHER: Final = 500

_REJECTIONS: Final = {
    "requestDenied": 403, "invalidPermission": 403, "securityDenial": 403, "callerNotRegistered": 403,
    "invalidEndpointIdentifier": 403, "resourceUnavailable": 503, "exceedsCallCapacity": 503,
    "incompleteAddress": 484,
}  # fmt: skip
"""SIP answers for a gatekeeper's reasons to reject; other reasons mean that there is no callee."""
_NOBODY: Final = 404

_RAS_TITLES: Final = {
    ras.GatekeeperRequest: "GRQ", ras.GatekeeperConfirm: "GCF", ras.RegistrationRequest: "RRQ",
    ras.RegistrationConfirm: "RCF", ras.RegistrationReject: "RRJ", ras.UnregistrationRequest: "URQ",
    ras.UnregistrationConfirm: "UCF", ras.AdmissionRequest: "ARQ", ras.AdmissionConfirm: "ACF",
    ras.AdmissionReject: "ARJ", ras.DisengageRequest: "DRQ", ras.DisengageConfirm: "DCF",
    ras.BandwidthRequest: "BRQ", ras.BandwidthConfirm: "BCF", ras.LocationRequest: "LRQ",
    ras.LocationConfirm: "LCF", ras.LocationReject: "LRJ", ras.InfoRequestResponse: "IRR",
    ras.InfoRequestAck: "IACK", ras.InfoRequestNak: "INAK",
}  # fmt: skip


@dataclass(frozen=True)
class H225WireMessage:
    """A message of call signalling."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    kind: int
    """Message type."""
    reference: int
    """Of the call, on its connection."""
    number: str = ""
    """Called, digits; empty if the message does not say."""
    cause: int = 0
    """Of a release; 0 if the message does not say."""
    channels: tuple[Channel, ...] = ()
    """Proposed or accepted in fast connect."""

    @property
    def title(self) -> str:
        return h225.H225Message(self.kind, self.reference, number=self.number, cause=self.cause).title


@dataclass(frozen=True)
class Control:
    """A message of H.245 between the ends of a call."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    message: h245.ControlMessage


@dataclass(frozen=True)
class Ras:
    """A message between an endpoint and a gatekeeper, or between two gatekeepers."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    message: ras.RasMessage

    @property
    def title(self) -> str:
        asked = self.message
        number = asked.digits if isinstance(asked, (ras.AdmissionRequest, ras.LocationRequest)) else ""
        return f"{_RAS_TITLES[type(asked)]} {number}".rstrip()


def signals(frames: Iterable[Frame]) -> list[H225WireMessage]:
    """Messages of call signalling, by time."""
    found = map(_signal, packets.payloads(frames))
    return [signal for signal in found if signal is not None]


def controls(frames: Iterable[Frame], heard: Sequence[H225WireMessage]) -> list[Control]:
    """Messages of H.245 between the ends that signal in ``heard``, by time."""
    ends = {(each.source.address, each.target.address) for each in heard}
    found = []
    for at_ns, source, target, content in packets.payloads(frames) if ends else ():
        if (source.address, target.address) not in ends or _is_other(content):
            continue
        with suppress(ras.NoMessage):
            message = h245.read(content)
            if not isinstance(message, h245.UnknownControl):
                found.append(Control(at_ns, source, target, message))
    return found


def _is_other(content: bytes) -> bool:
    """Is this something other than H.245? RTP and RTCP begin with a bit that no H.245 message has."""
    return not content or content[0] >= 0x80 or content[:2] == b"\x08\x02" or b"SIP/2.0" in content


def requests(frames: Iterable[Frame]) -> list[Ras]:
    """Requests to gatekeepers and their answers, by time."""
    found = []
    for at_ns, source, target, content in packets.datagrams(frames):
        if ras.PORT in (source.port, target.port):
            with suppress(ras.NoMessage):
                found.append(Ras(at_ns, source, target, datagrams.read(content)))
    return found


def ladder(
    heard: Sequence[H225WireMessage], asked: Sequence[Ras], controlled: Sequence[Control] = ()
) -> Iterator[LadderMessage]:
    """The messages of calls, without registrations, for a ladder."""
    for signal in heard:
        yield LadderMessage(
            signal.at_ns, signal.source, signal.target, signal.title, f"H.225.0 {signal.reference}"
        )
    for each in asked:
        if re.match("[ADL]", each.title):
            yield LadderMessage(
                each.at_ns, each.source, each.target, each.title, f"RAS {each.message.number}"
            )
    for control in controlled:
        yield LadderMessage(
            control.at_ns, control.source, control.target, h245.title(control.message), "H.245"
        )


def legs(
    heard: Sequence[H225WireMessage], asked: Sequence[Ras], controlled: Sequence[Control] = ()
) -> list[CallLeg]:
    """Calls from one place to another, and requests to gatekeepers as legs to and from these."""
    found: list[CallLeg] = []
    for at, signal in enumerate(heard):
        if signal.kind == h225.SETUP:
            found += _leg(signal, heard[at + 1 :], asked, controlled)
    silent: set[tuple[str, str]] = set()
    for each in filter(_is_call, asked):
        answer = _answer(each, asked)
        ends = (each.source.address, each.target.address)
        if answer is None and ends not in silent:
            # One leg for all repetitions, with any number.
            silent.add(ends)
            found.append(_refused(each, None))
        elif answer is not None and isinstance(answer.message, ras.AdmissionReject):
            found.append(_refused(each, answer))
            found += [_refused(*pair) for pair in _rejections(each, answer, asked)]
        elif answer is not None and _returned(each, answer):
            # The caller then calls itself, which does not cross the wire: how that ends is not known.
            leg = _refused(each, None)
            found += [leg, replace(leg, at_ns=answer.at_ns, source=each.target, target=each.source)]
    return sorted(found, key=lambda leg: leg.at_ns)


def _is_call(asked: Ras) -> bool:
    """Is this a request to make a call?"""
    return isinstance(asked.message, ras.AdmissionRequest) and not asked.message.answers


def _returned(question: Ras, answer: Ras) -> bool:
    """Does a gatekeeper send a call back to the engine that asked?"""
    confirmed = answer.message
    if not isinstance(confirmed, ras.AdmissionConfirm) or confirmed.destination is None:
        return False
    return confirmed.destination[0] == question.source.address


def _leg(
    setup: H225WireMessage,
    later: Sequence[H225WireMessage],
    asked: Sequence[Ras],
    controlled: Sequence[Control],
) -> Iterator[CallLeg]:
    """The leg of a call, after the gatekeepers that told its caller where it goes."""
    answer, answered_ns = 0, 0
    ends = (setup.target, setup.source, setup.reference)
    answers = [each for each in later if (each.source, each.target, each.reference) == ends]
    for signal in answers:
        if signal.kind == h225.CONNECT:
            answer, answered_ns = 200, signal.at_ns
            break
        if signal.kind == h225.RELEASE:
            answer, answered_ns = _ANSWERS.get(signal.cause, _OTHER), signal.at_ns
            break
    identifier = f"{setup.source.address} {setup.source.port}"
    offered, accepted = _codecs(setup, answers, controlled)
    source = setup.source
    for number, question in enumerate(_questions(setup, asked)):
        where = question.target
        yield CallLeg(
            question.at_ns, source, where, identifier, f"RAS {number}",
            getattr(question.message, "digits", setup.number), offered, answer, answered_ns, accepted,
        )  # fmt: skip
        source = where
    yield CallLeg(
        setup.at_ns, source, setup.target, identifier, "H.225.0", setup.number, offered, answer, answered_ns,
        accepted,
    )  # fmt: skip


def _codecs(
    setup: H225WireMessage, answers: Sequence[H225WireMessage], controlled: Sequence[Control]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Codecs that the caller offers, and those accepted: by fast connect, otherwise by H.245."""
    accepted = [channel.codec for answer in answers for channel in answer.channels if not channel.reverse]
    if accepted:
        offered = [channel.codec for channel in setup.channels if not channel.reverse]
        return tuple(dict.fromkeys(offered)), tuple(dict.fromkeys(accepted))
    ends = (setup.source.address, setup.target.address)
    later = [each for each in controlled if each.at_ns >= setup.at_ns]
    here = [each.message for each in later if (each.source.address, each.target.address) == ends]
    there = [each.message for each in later if (each.target.address, each.source.address) == ends]
    opened = [each.channel for each in here if isinstance(each, h245.OpenChannel)]
    taken = {each.number for each in there if isinstance(each, h245.OpenChannelAck)}
    return (
        tuple(dict.fromkeys(each.codec for each in opened)),
        tuple(dict.fromkeys(each.codec for each in opened if each.number in taken)),
    )


def _questions(setup: H225WireMessage, asked: Sequence[Ras]) -> list[Ras]:
    """Requests that led to a call: from its caller, then from one gatekeeper to the next."""
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
    """Confirmed requests between gatekeepers, from a request until its answer."""
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
    """Requests between gatekeepers, from a request until its rejection, with their answers."""
    for each in asked:
        inside = question.at_ns <= each.at_ns <= answer.at_ns
        if inside and isinstance(each.message, ras.LocationRequest):
            found = _answer(each, asked)
            if found is not None:
                yield each, found


def _refused(question: Ras, answer: Ras | None) -> CallLeg:
    """The leg of a request that led nowhere, and may not have been answered."""
    number = getattr(question.message, "digits", "")
    reason = "" if answer is None else getattr(answer.message, "reason", "")
    told = (0, 0) if answer is None else (_REJECTIONS.get(reason, _NOBODY), answer.at_ns)
    branch = f"RAS {question.message.number}"
    return CallLeg(question.at_ns, question.source, question.target, "", branch, number, (), *told)


def _answer(question: Ras, asked: Sequence[Ras]) -> Ras | None:
    """The first answer to a request, from its target."""
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


def _signal(carried: packets.Payload) -> H225WireMessage | None:
    try:
        message = h225.read_q931(carried.content)
    except ras.NoMessage:
        return None
    channels: tuple[Channel, ...] = ()
    with suppress(ras.NoMessage):
        channels = h225.read(carried.content).channels
    return H225WireMessage(
        carried.at_ns, carried.source, carried.target, message.kind, message.reference, message.called,
        message.cause, channels,
    )  # fmt: skip
