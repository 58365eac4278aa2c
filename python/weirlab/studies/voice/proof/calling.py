"""A planned call, made in the lab: what happened as rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from weirlab.errors import LabError
from weirlab.studies.voice.configs.parts import address
from weirlab.studies.voice.lab.engines import Daemon
from weirlab.studies.voice.lab.seen import Frame
from weirlab.studies.voice.proof import heard, signalling, ways
from weirlab.studies.voice.proof.heard import Heard
from weirlab.studies.voice.proof.planned import Planned
from weirlab.studies.voice.proof.rows import AS_PLANNED, NOT_AS_PLANNED, NOT_TRIED, CallRow, MessageRow
from weirlab.studies.voice.proof.signalling import Message
from weirlab.studies.voice.proof.ways import Taken
from weirlab.studies.voice.routing import Network

_MS: Final = 1e6


class CallLab(Protocol):
    """What is used of :class:`weirlab.studies.voice.lab.VoiceLab`."""

    lab: str
    network: Network
    folder: Path
    daemons: list[Daemon]

    @property
    def facts(self) -> Mapping[str, object]: ...

    def said(self, name: str) -> str: ...

    def last_words(self, name: str) -> str: ...

    def down(self, engine: str | None) -> AbstractContextManager[None]: ...

    def call(self, name: str, number: str, answer: int, codecs: Mapping[str, str]) -> list[Frame]: ...


OpenLab = Callable[[Network, float], AbstractContextManager[CallLab]]


MAX_ATTEMPTS: Final = 3
"""At a call in which an endpoint did not talk: that says nothing about the way."""


@dataclass(frozen=True)
class _Attempt:
    """A call as it went."""

    found: Taken
    messages: Sequence[Message]
    there: Heard | None
    back: Heard | None
    mute: tuple[str, ...]
    """Endpoints that sent no speech although the call was up."""


def made(lab: CallLab, planned: Planned) -> tuple[CallRow, list[MessageRow]]:
    """Make a call, and judge it. One in which SIPp did not talk is made again.

    Raises
    ------
    LabError
        An engine ended, or the caller sent nothing.
    """
    for _ in range(MAX_ATTEMPTS):
        attempt = _attempted(lab, planned)
        if not attempt.mute:
            break
    found, there, back = attempt.found, attempt.there, attempt.back
    differs = [*ways.differences(planned, found), *_silence(attempt)]
    row = replace(
        not_tried(planned),
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
        verdict=NOT_AS_PLANNED if differs else AS_PLANNED,
        why="; ".join(differs),
    )
    return row, _rows(lab.network, planned.index, attempt.messages)


def _attempted(lab: CallLab, planned: Planned) -> _Attempt:
    network = lab.network
    proxies = [daemon.name for daemon in lab.daemons if daemon.program == "kamailio"]
    before = {name: len(lab.said(name)) for name in proxies}
    with lab.down(planned.down):
        frames = lab.call(planned.caller, planned.test.number, planned.way.answer, _codecs(planned))
    logs = {name: lab.said(name)[before[name] :] for name in proxies}
    listed = signalling.messages(frames)
    try:
        found = ways.taken(network, planned, signalling.legs(listed), logs)
    except ways.Nothing:
        raise LabError(
            f"sipp of {planned.caller} sent no INVITE for {planned.test.number}; its last words: "
            f"{lab.last_words(f'sipp-{planned.caller}')}"
        ) from None
    if found.end is None or found.end not in network.plan.engines:
        return _Attempt(found, listed, None, None, ())
    reached = heard.streams(frames, lab.folder / "call.pcap")
    there = heard.reaching(reached, address(network, found.end))
    back = heard.reaching(reached, address(network, planned.caller))
    silent = [name for name, stream in ((planned.caller, there), (found.end, back)) if stream is None]
    mute = [name for name in silent if not signalling.speaks(frames, address(network, name))]
    return _Attempt(found, listed, there, back, tuple(mute))


def not_tried(planned: Planned) -> CallRow:
    """The row of a call that cannot be made here."""
    return CallRow(
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
        answer_planned=planned.way.answer,
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
    )


def decisions(found: Mapping[str, str]) -> str:
    """``core: public; branch: static``."""
    return "; ".join(f"{name}: {by}" for name, by in found.items())


def _codecs(planned: Planned) -> dict[str, str]:
    """In what caller and callee talk, as far as the plan tells."""
    ends = ((planned.caller, planned.codecs[:1]), (planned.way.engines[-1], planned.codecs[-1:]))
    return {name: codec for name, known in ends for codec in known if codec is not None}


def _silence(attempt: _Attempt) -> list[str]:
    if attempt.found.end is None:
        return []
    speech = (("caller to callee", attempt.there), ("callee to caller", attempt.back))
    mute = [f"{name} sent no speech" for name in attempt.mute]
    return mute or [f"no speech from {way}" for way, stream in speech if stream is None]


def _rows(network: Network, index: int, listed: Sequence[Message]) -> list[MessageRow]:
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
