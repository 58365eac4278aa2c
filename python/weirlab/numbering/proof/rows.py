"""Tables of a proof: calls, messages, and lines of the engines' logs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

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
