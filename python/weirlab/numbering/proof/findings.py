"""What the calls of a run prove about their plan: calls, messages and logs as rows, findings, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.errors import NotMet
from weirlab.base.quantities import NOTHING, decimals, duration, plural, words
from weirlab.base.tables import Table
from weirlab.numbering.lab.device import PassageRow, device_table, silent
from weirlab.store import Run

CALLS: Final = "voice_calls"
MESSAGES: Final = "voice_messages"
LOGS: Final = "voice_logs"


@dataclass(frozen=True)
class ProofCallRow:
    """A call to a test number: what the plan says, and what happened."""

    index: int
    """Number of the call in its run, from 0."""
    number: str
    """What was dialled."""
    caller: str
    """The endpoint that called."""
    note: str
    """The plan's note on the test number."""
    down: str
    """The engine or name server that failed during the call; empty for none."""
    way_planned: str
    """Engines in the order of the plan: `phone > core > desk`."""
    way: str
    """Engines that the call went through, as signalling on the wire shows; empty if it was not made."""
    tried: str
    """Legs that did not lead to the answer, each with its own answer."""
    decided_planned: str
    """What each engine decides by in the plan, `static` or a tree: `core: public`."""
    decided: str
    """What each engine decided by, from its log."""
    answer_planned: int
    """Final answer to the caller in the plan."""
    answer: int
    """Final answer to the caller; 0 for none."""
    setup_ms: float
    """From the caller's INVITE, or its last digit, to the answer; null if the call was not answered."""
    codec: str
    """Accepted in the answer to the caller."""
    there_packets: int
    """RTP packets from caller to callee: expected at the callee, from the first to the last that arrived."""
    there_lost: int
    """Of these, packets that did not arrive."""
    there_jitter_ms: float
    """Mean jitter at the callee (RFC 3550)."""
    there_mos: float
    """MOS at the callee, without network delay."""
    back_packets: int
    """RTP packets from callee to caller: expected at the caller, from the first to the last that arrived."""
    back_lost: int
    """Of these, packets that did not arrive."""
    back_jitter_ms: float
    """Mean jitter at the caller (RFC 3550)."""
    back_mos: float
    """MOS at the caller, without network delay."""
    verdict: str
    """`as planned`, `not as planned`, or `not tried`."""
    why: str
    """How it differs, or why it was not tried."""
    fault: str = ""
    """How it failed: `off`, or the answer with which it refused every call; empty for none."""
    kinds: str = ""
    """Kinds of routes that the call is an example of, by the plan."""
    dns_ms: float = math.nan
    """Longest time that a name server took to answer; null if none answered."""

    @property
    def proved(self) -> bool:
        return self.verdict == AS_PLANNED

    @property
    def opinions(self) -> list[float]:
        """MOS in both directions, as far as known."""
        return [each for each in (self.there_mos, self.back_mos) if each >= 0]

    @property
    def jitter_ms(self) -> float:
        """The larger mean jitter of both directions; 0 if it is not known."""
        return max((each for each in (self.there_jitter_ms, self.back_jitter_ms) if each >= 0), default=0.0)


def titled(row: ProofCallRow) -> str:
    """``+420224355289``, ``+420224355289 without cyrus``, ``+420224355289, cyrus answers 503``."""
    if row.fault in ("", "off"):
        return f"{row.number} without {row.down}" if row.down else row.number
    return f"{row.number}, {row.down} answers {row.fault}"


def failing(row: ProofCallRow) -> str:
    """What fails during the call: ``cyrus``, ``cyrus: 503``; empty for nothing."""
    return row.down if row.fault in ("", "off") else f"{row.down}: {row.fault}"


AS_PLANNED: Final = "as planned"
NOT_AS_PLANNED: Final = "not as planned"
NOT_TRIED: Final = "not tried"


@dataclass(frozen=True)
class MessageRow:
    """A message of a call between two engines: SIP, H.225.0 or MGCP."""

    index: int
    """Number of the call."""
    at_ms: float
    """Since the first message of the call."""
    source: str
    """The engine that sent it, or its address."""
    target: str
    """The engine that it is for, or its address."""
    text: str
    """The message: `INVITE +420224355289`, `200 OK`, `ARQ 420224355289`, `CRCX`."""
    call_id: str
    """The Call-ID of SIP; other protocols have other references."""


@dataclass(frozen=True)
class LogRow:
    """A line of an engine's log."""

    engine: str
    """The engine; `named` for the name server."""
    line: str
    """The line."""


MOST_LISTED: Final = 3
"""Calls and reasons that an error names; the table has all."""
WORSE_MOS: Final = 0.2
"""How much lower a MOS is than the codec's best one if the machine spoiled it."""
UNEVEN_MS: Final = 5.0
"""Mean jitter from which speech came unevenly: a quarter of the usual packet time."""


@dataclass(frozen=True)
class RouteKind:
    """A kind of route, and its calls."""

    name: str
    proved: tuple[str, ...]
    """Calls that went as planned."""
    failed: tuple[str, ...]
    """Calls that did not go as planned, or were not tried."""

    @property
    def good(self) -> bool:
        return bool(self.proved) and not self.failed


def listed_kinds(rows: Sequence[ProofCallRow]) -> list[RouteKind]:
    """The kinds of ``rows`` in the order in which they appear."""
    names = dict.fromkeys(name for row in rows for name in row.kinds.split("; ") if name)
    of = {name: [row for row in rows if name in row.kinds.split("; ")] for name in names}
    return [
        RouteKind(
            name,
            tuple(titled(row) for row in of[name] if row.proved),
            tuple(titled(row) for row in of[name] if not row.proved),
        )
        for name in names
    ]


@dataclass(frozen=True)
class ProofFindings:
    """Every call of a run."""

    plan: str
    rows: tuple[ProofCallRow, ...]
    partly: bool
    """Do calls that could not be tried not count?"""
    device: str = ""
    """The device that the calls passed; empty for none."""
    passed: tuple[PassageRow, ...] = ()
    """Packets that passed the device."""
    not_called: tuple[str, ...] = ()
    """What no call shows, as phrases."""

    @property
    def remark(self) -> str:
        """What no call shows, as a sentence after another one; empty for nothing."""
        return f" Not called: {'; '.join(self.not_called)}." if self.not_called else ""

    @property
    def failed(self) -> list[ProofCallRow]:
        """Calls that did not go as planned."""
        return [row for row in self.rows if row.verdict == NOT_AS_PLANNED]

    @property
    def left_out(self) -> list[ProofCallRow]:
        """Calls that were not tried."""
        return [row for row in self.rows if row.verdict == NOT_TRIED]

    @property
    def proved(self) -> list[ProofCallRow]:
        """Calls that went as planned."""
        return [row for row in self.rows if row.proved]

    @property
    def kinds(self) -> list[RouteKind]:
        """Kinds of routes that the calls are examples of; those of calls left out do not count."""
        return listed_kinds([row for row in self.rows if not (self.partly and row.verdict == NOT_TRIED)])

    @property
    def uneven(self) -> list[ProofCallRow]:
        """Calls whose speech this machine spoiled: nothing else is between the endpoints."""
        return (
            []
            if self.device
            else [row for row in self.rows if row.jitter_ms > UNEVEN_MS or self._is_worse(row)]
        )

    def _is_worse(self, row: ProofCallRow) -> bool:
        """Is the MOS of a call lower than that of another one with the same codec?"""
        best = max(
            (mos for each in self.rows if each.codec == row.codec for mos in each.opinions), default=0.0
        )
        return any(mos < best - WORSE_MOS for mos in row.opinions)

    @property
    def sentence(self) -> str:
        """The conclusion of the proof."""
        tried = len(self.rows) - len(self.left_out)
        said = f"{len(self.proved)} of {plural(tried, 'call')} went as the plan {self.plan} says"
        if self.device:
            said += f", through {self.device}{silent(self.passed, 'call')}"
        if listed := self.kinds:
            good = sum(kind.good for kind in listed)
            said += f"; {good} of {plural(len(listed), 'kind')} of routes are proved"
        if self.left_out:
            said += f"; {plural(len(self.left_out), 'call')} could not be tried"
        if uneven := self.uneven:
            most = duration(max(row.jitter_ms for row in uneven) * 1e6)
            said += (
                f". This machine was busy: MOS of {plural(len(uneven), 'call')}, with a jitter of up to "
                f"{most}, is that of the machine, not of the plan"
            )
        return f"{said}."

    def document(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "proved": self.problem(None) is None,
            "kinds": [
                {"kind": kind.name, "good": kind.good, "proved": kind.proved, "failed": kind.failed}
                for kind in self.kinds
            ],
            "calls": self.rows,
            "not_called": self.not_called,
            **({"device": {"name": self.device, "packets": self.passed}} if self.device else {}),
        }

    def problem(self, run: Run | None) -> NotMet | None:
        """The error to raise if the plan is not proved."""
        if self.failed:
            listed = "; ".join(f"{titled(row)}: {row.why}" for row in self.failed[:MOST_LISTED])
            if (more := len(self.failed) - MOST_LISTED) > 0:
                listed += f"; and {more:,} more"
            return NotMet(f"{plural(len(self.failed), 'call')} did not go as planned: {listed}")
        if self.left_out and not self.partly:
            reasons = words(list(dict.fromkeys(row.why for row in self.left_out)), most=MOST_LISTED)
            count = plural(len(self.left_out), "call")
            return NotMet(f"{count} could not be tried: {reasons}; --partly leaves such calls out")
        return None


_COLUMNS: Final = (
    "Number", "Failing", "Way taken", "Decided", "Answer", "Set-up", "Codec", "There", "Back", "DNS",
    "Verdict",
)  # fmt: skip
_SPARE: Final = ("DNS", "Codec", "Decided", "Back", "There", "Set-up")
_MEDIA: Final = ("Number", "Direction", "Packets", "Lost", "Jitter", "MOS")


def acceptance(rows: Sequence[ProofCallRow], uneven: Sequence[ProofCallRow] = ()) -> Table:
    """A row per call; MOS of ``uneven`` ones is marked."""
    cells = [
        (
            row.number,
            failing(row) or NOTHING,
            row.way or f"planned: {row.way_planned}",
            row.decided or NOTHING,
            str(row.answer) if row.answer else NOTHING,
            duration(row.setup_ms * 1e6),
            row.codec or NOTHING,
            _opinion(row.there_packets, row.there_mos, row in uneven),
            _opinion(row.back_packets, row.back_mos, row in uneven),
            duration(row.dns_ms * 1e6),
            row.verdict,
        )
        for row in rows
    ]
    return Table("Calls; There and Back: MOS at callee and caller", _COLUMNS, cells, _SPARE)


def kinds_table(listed: Sequence[RouteKind]) -> Table:
    """A row per kind of route."""
    cells = [
        (
            each.name,
            f"{len(each.proved)} of {len(each.proved) + len(each.failed)}",
            _some(each.failed or each.proved),
            "proved" if each.good else "not proved",
        )
        for each in listed
    ]
    return Table("Kinds of routes", ("Kind", "Calls", "For example", "Verdict"), cells, ("For example",))


def _some(titles: Sequence[str]) -> str:
    return f"{titles[0]}, ..." if len(titles) > 1 else titles[0]


def media(rows: Sequence[ProofCallRow], uneven: Sequence[ProofCallRow] = ()) -> Table:
    """Two rows per answered call: what arrived at callee and caller; MOS of ``uneven`` ones is marked."""
    cells = []
    for row in rows:
        for direction, packets, lost, jitter_ms, mos in (
            ("to callee", row.there_packets, row.there_lost, row.there_jitter_ms, row.there_mos),
            ("to caller", row.back_packets, row.back_lost, row.back_jitter_ms, row.back_mos),
        ):
            if row.answer == 200:
                cells.append(
                    (
                        titled(row),
                        direction,
                        f"{packets:,}",
                        f"{lost:,}",
                        duration(jitter_ms * 1e6),
                        _opinion(1, mos, row in uneven),
                    )
                )
    return Table("Speech", _MEDIA, cells, details=True)


def through(rows: Sequence[ProofCallRow], passed: Sequence[PassageRow], device: str) -> Table | None:
    """Two rows per call: the packets that passed the device; None if there is none."""
    return device_table(passed, "Call", {row.index: titled(row) for row in rows}, device)


def differing(rows: Sequence[ProofCallRow]) -> Table | None:
    """Calls that did not go as planned or were not tried, with the reason; None if there are none."""
    cells = [
        (row.number, failing(row) or NOTHING, row.verdict, row.why, row.tried or NOTHING)
        for row in rows
        if not row.proved
    ]
    columns = ("Number", "Failing", "Verdict", "Why", "Tried before")
    return Table("Not as planned", columns, cells, spare=("Tried before",)) if cells else None


def _opinion(packets: int, mos: float, uneven: bool) -> str:
    mark = " (busy machine)" if uneven and not math.isnan(mos) else ""
    return f"{decimals(mos)}{mark}" if packets else NOTHING
