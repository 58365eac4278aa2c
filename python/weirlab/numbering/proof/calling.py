"""Makes planned calls in the lab and returns what happened as rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from weirlab.base.errors import LabError
from weirlab.base.quantities import plural
from weirlab.numbering.configs.parts import address
from weirlab.numbering.lab import endpoints
from weirlab.numbering.lab.device import PassageRow, bypassing
from weirlab.numbering.lab.endpoints import CallFailure
from weirlab.numbering.lab.engines import DECIDING, OFF, WITH_ORDERS, Daemon, Fault
from weirlab.numbering.lab.passage import CallerPassage
from weirlab.numbering.lab.switch import EARLY_SOURCE, Frame
from weirlab.numbering.proof import kinds, ways
from weirlab.numbering.proof.findings import AS_PLANNED, NOT_AS_PLANNED, NOT_TRIED, MessageRow, ProofCallRow
from weirlab.numbering.proof.ways import CallHistory, ProofCall
from weirlab.numbering.proof.wire import h323, packets, questions, signalling
from weirlab.numbering.proof.wire.questions import DnsQuery
from weirlab.numbering.proof.wire.signalling import CallLeg, LadderMessage, SipMessage
from weirlab.numbering.proof.wire.speech import Silence, StreamReception, beside, reaching, silences, streams
from weirlab.numbering.routing import PlanNetwork


def seen(frames: Sequence[Frame]) -> tuple[list[CallLeg], list[LadderMessage], list[SipMessage]]:
    """Legs of SIP, H.323 and MGCP; all messages by time; and the SIP messages alone."""
    sip = signalling.messages(frames)
    heard, asked = h323.signals(frames), h323.requests(frames)
    controlled = h323.controls(frames, heard)
    commands = signalling.commands(frames)
    legs = [*signalling.legs(sip), *h323.legs(heard, asked, controlled)]
    legs += signalling.mgcp_legs(commands, legs)
    told = [
        *signalling.ladder(sip),
        *h323.ladder(heard, asked, controlled),
        *signalling.mgcp_ladder(commands),
    ]
    return (sorted(legs, key=lambda leg: leg.at_ns), sorted(told, key=lambda each: each.at_ns), sip)


_MS: Final = 1e6
_S: Final = 1e9
_STOPPED_NS: Final = 500_000_000
"""Speech that does not get through for this long before its end counts as stopped."""


class EngineLab(Protocol):
    """The part of :class:`weirlab.numbering.lab.VoiceLab` that proofs and load tests use."""

    lab: str
    network: PlanNetwork
    folder: Path
    daemons: list[Daemon]
    way: CallerPassage

    @property
    def facts(self) -> Mapping[str, object]: ...


class CallLab(EngineLab, Protocol):
    """A lab in which calls are made one by one."""

    def output(self, name: str) -> str: ...

    def last_words(self, name: str) -> str: ...

    def failing(self, name: str | None, how: Fault = OFF) -> AbstractContextManager[None]: ...

    def call(
        self, name: str, number: str, answer: int, codecs: Mapping[str, str], meanwhile: int = 0
    ) -> list[Frame]: ...


OpenLab = Callable[[PlanNetwork, float], AbstractContextManager[CallLab]]


MAX_ATTEMPTS: Final = 3
"""Attempts at a call in which an endpoint sent no speech, which says nothing about the route."""


@dataclass(frozen=True)
class _Attempt:
    """What happened in one attempt at a call."""

    found: CallHistory
    messages: Sequence[LadderMessage]
    there: StreamReception | None
    back: StreamReception | None
    mute: tuple[str, ...]
    """Endpoints that sent no speech although the call was up."""
    early: bool
    """Did the caller receive speech before the answer, as announced by a 183?"""
    asked: Sequence[DnsQuery]
    """Queries to the name servers."""
    passed: Sequence[PassageRow] = ()
    """Packets that passed the device, if there is one."""
    silences: tuple[Silence | None, Silence | None] = (None, None)
    """Silences of the speech from and to the caller that the device caused."""
    spoilt: str = ""
    """Why the call could not be made; empty if it was."""


def made(
    lab: CallLab, planned: ProofCall, others: Sequence[ProofCall] = ()
) -> tuple[ProofCallRow, list[MessageRow]]:
    """:func:`carried` without the packets that passed the device."""
    row, messages, _ = carried(lab, planned, others)
    return row, messages


def carried(
    lab: CallLab, planned: ProofCall, others: Sequence[ProofCall] = ()
) -> tuple[ProofCallRow, list[MessageRow], Sequence[PassageRow]]:
    """Make a call and judge it. A call in which SIPp sent no speech is repeated.

    ``others`` are all calls of the proof.

    Raises
    ------
    LabError
        An engine ended, or the caller sent nothing although it is not behind a device.
    """
    for _ in range(MAX_ATTEMPTS):
        attempt = _attempted(lab, planned)
        if not attempt.mute:
            break
    found, there, back = attempt.found, attempt.there, attempt.back
    differs = _differences(lab, planned, attempt)
    servers = _servers(lab)
    if differs:
        differs += questions.troubles(
            attempt.asked, [server for server in servers if server.name != planned.down]
        )
    row = replace(
        not_tried(lab.network, planned, others),
        way=" > ".join(found.engines),
        tried="; ".join(found.tried),
        decided=decisions(found.decisions),
        answer=found.answer,
        setup_ms=math.nan if found.setup_ns is None else found.setup_ns / _MS,
        codec=found.codec or "",
        there_packets=there.expected if there else 0,
        there_lost=there.lost if there else 0,
        there_jitter_ms=there.jitter_ns / _MS if there else math.nan,
        there_mos=there.mos if there else math.nan,
        back_packets=back.expected if back else 0,
        back_lost=back.lost if back else 0,
        back_jitter_ms=back.jitter_ns / _MS if back else math.nan,
        back_mos=back.mos if back else math.nan,
        dns_ms=questions.longest_ns(attempt.asked) / _MS,
        verdict=NOT_AS_PLANNED if differs else AS_PLANNED,
        why="; ".join(differs),
    )
    return row, _rows(lab.network, planned.index, attempt.messages), attempt.passed


def _attempted(lab: CallLab, planned: ProofCall) -> _Attempt:
    network = lab.network
    deciding = [daemon.name for daemon in lab.daemons if daemon.program in DECIDING]
    before = {name: len(lab.output(name)) for name in deciding}
    with lab.failing(planned.down, planned.fault):
        test = planned.test
        try:
            frames = lab.call(planned.caller, test.number, planned.answer, _codecs(planned), test.meanwhile)
        except CallFailure as spoilt:
            return _spoilt((), lab.way.passed(planned.index), str(spoilt))
    passed = lab.way.passed(planned.index)
    logs = {name: lab.output(name)[before[name] :] for name in deciding}
    caller = address(network, planned.caller)
    legs, told, listed = seen(packets.as_it_reached(frames, caller) if passed else frames)
    try:
        found = ways.taken(network, planned, legs, logs)
    except ways.MissingCall:
        program = endpoints.program(network, planned.caller)
        # An H.323 telephone has its own log.
        log = planned.caller if program == WITH_ORDERS else f"{program}-{planned.caller}"
        what, words = f"sent no call to {test.number}", lab.last_words(log)
        if passed:
            # SIPp's last output is its statistics.
            last = "" if program == "sipp" else f" ({words.rpartition(' | ')[2]})"
            return _spoilt(told, passed, f"{planned.caller} {what}{last}")
        raise LabError(f"{program} of {planned.caller} {what}; its last output: {words}") from None
    asked = questions.questions(frames)
    if found.end is None or found.end not in network.plan.engines:
        return _Attempt(found, told, None, None, (), False, asked, passed)
    reached = streams(frames, lab.folder / "call.pcap")
    there = reaching(reached, address(network, found.end))
    back = reaching(reached, caller)
    silent = [name for name, stream in ((planned.caller, there), (found.end, back)) if stream is None]
    mute = [name for name in silent if not signalling.speaks(frames, address(network, name))]
    early = _early(frames, listed, caller)
    passed = beside(passed, frames, caller)
    quiet = silences(frames, caller) if passed else (None, None)
    return _Attempt(found, told, there, back, tuple(mute), early, asked, passed, quiet)


def _spoilt(told: Sequence[LadderMessage], passed: Sequence[PassageRow], why: str) -> _Attempt:
    """A call that could not be made."""
    return _Attempt(
        CallHistory((), (), {}, 0, None, None), told, None, None, (), False, (), passed, spoilt=why
    )


def _differences(lab: CallLab, planned: ProofCall, attempt: _Attempt) -> list[str]:
    """The differences between a call and the plan, as phrases."""
    if attempt.spoilt:
        differs = [attempt.spoilt]
    else:
        differs = [
            *ways.differences(planned, attempt.found),
            *(_silence(attempt) if planned.answered else ()),
            *_not_early(lab.network, planned, attempt),
            *_name_servers(lab, planned, attempt.asked),
        ]
    differs += [*bypassing(attempt.passed, lab.way.title), *_falling_silent(attempt.silences)]
    return [*_dropped(attempt.passed, lab.way.title), *differs] if differs else []


def _dropped(passed: Sequence[PassageRow], title: str) -> list[str]:
    """What a device dropped, as one phrase; empty if it let everything through."""
    ways = [
        f"{row.left or 'none'} of {plural(row.entered, 'packet')} {row.direction}"
        for row in passed
        if row.left < row.entered
    ]
    return [f"{title} let through {' and '.join(ways)}"] if ways else []


def not_tried(network: PlanNetwork, planned: ProofCall, others: Sequence[ProofCall] = ()) -> ProofCallRow:
    """The row of a call that cannot be made here."""
    return ProofCallRow(
        index=planned.index,
        number=planned.test.number,
        caller=planned.caller,
        note=planned.test.note,
        down=planned.down or "",
        way_planned=" > ".join(planned.way.engines),
        way="",
        tried="",
        decided_planned=decisions(planned.decisions),
        decided="",
        answer_planned=planned.answer,
        answer=0,
        setup_ms=math.nan,
        codec="",
        there_packets=0,
        there_lost=0,
        there_jitter_ms=math.nan,
        there_mos=math.nan,
        back_packets=0,
        back_lost=0,
        back_jitter_ms=math.nan,
        back_mos=math.nan,
        verdict=NOT_TRIED,
        why=planned.impossible,
        fault="" if planned.down is None else planned.fault,
        kinds="; ".join(kinds.kinds(network, planned, others)),
    )


def decisions(found: Mapping[str, str]) -> str:
    """``core: public; branch: static``."""
    return "; ".join(f"{name}: {by}" for name, by in found.items())


def _codecs(planned: ProofCall) -> dict[str, str]:
    """The codecs of caller and callee, as far as the plan determines them."""
    ends = ((planned.caller, planned.codecs[:1]), (planned.way.engines[-1], planned.codecs[-1:]))
    return {name: codec for name, known in ends for codec in known if codec is not None}


def _silence(attempt: _Attempt) -> list[str]:
    if attempt.found.end is None:
        return []
    speech = (("caller to callee", attempt.there), ("callee to caller", attempt.back))
    mute = [f"{name} sent no speech" for name in attempt.mute]
    return mute or [f"no speech from {way}" for way, stream in speech if stream is None]


def _falling_silent(silences: Sequence[Silence | None]) -> list[str]:
    """Speech that got through the device at first, but no longer at the end."""
    ways = ("from the caller", "to the caller")
    return [
        f"speech {way} stopped {each.last_ns / _S:.1f} s before its end"
        for way, each in zip(ways, silences, strict=True)
        if each is not None and each.last_ns > _STOPPED_NS
    ]


def _early(frames: Sequence[Frame], listed: Sequence[SipMessage], caller: str) -> bool:
    """Did speech reach the caller between a 183 with a codec and the answer?"""
    to_caller = [each for each in listed if each.target.address == caller and each.method == "INVITE"]
    told = next((each.at_ns for each in to_caller if each.status == 183 and each.codecs), None)
    answered = next((each.at_ns for each in to_caller if each.status >= 200), None)
    if told is None or answered is None:
        return False
    between = (
        frame._replace(delivered=False) for frame in frames if frame.delivered and frame.at_ns < answered
    )
    source = EARLY_SOURCE.to_bytes(4)
    return any(
        datagram.target.address == caller and datagram.content[8:12] == source
        for datagram in packets.datagrams(between)
    )


def _not_early(network: PlanNetwork, planned: ProofCall, attempt: _Attempt) -> list[str]:
    if attempt.found.end is None or not planned.answered or attempt.early:
        return []
    engine = network.plan.engines[planned.way.end.engine]
    return ["no speech before the answer (183)"] if engine.early_media else []


def _servers(lab: CallLab) -> list[Daemon]:
    return [daemon for daemon in lab.daemons if daemon.program == "named"]


def _name_servers(lab: CallLab, planned: ProofCall, asked: Sequence[DnsQuery]) -> list[str]:
    """Differences between the plan and what the name servers did."""
    servers = _servers(lab)
    found = [*questions.untrue(lab.network, asked, servers)]
    if planned.down in [server.name for server in servers]:
        answering = questions.answering(asked, servers)
        if planned.down in answering or not answering:
            found.append(f"{', '.join(answering) or 'no name server'} answered instead of a secondary")
    return found


def _rows(network: PlanNetwork, index: int, listed: Sequence[LadderMessage]) -> list[MessageRow]:
    return [
        MessageRow(
            index,
            (each.at_ns - listed[0].at_ns) / _MS,
            ways.named(network, each.source),
            ways.named(network, each.target),
            each.title,
            each.call_id,
        )
        for each in listed
    ]
