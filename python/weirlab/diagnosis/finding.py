"""The contents of a diagnosis, plain values, and how they are read back from its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Final

from weirlab.diagnosis.causes import (
    APPLICATION_ASK,
    APPLICATION_WRITE,
    BOTTLENECK,
    CAUSES,
    PLACES,
    UNKNOWN,
    Cause,
    Confidence,
    Source,
    Who,
)
from weirlab.trace.quantities import percent


@dataclass(frozen=True)
class RetransmissionCounts:
    """Counts of segments in the sender's capture. The first four add up to all retransmissions."""

    lost: int
    """The earlier copy was lost between the captures."""
    late: int
    """It was not lost: later segments overtook it. Further copies that followed from this count, too."""
    dropped: int
    """It arrived, but the receiver's host did not acknowledge it."""
    needless: int
    """It arrived, but its ACK came too late or not at all."""
    overtaken: int
    """Segments that later ones overtook, whether they were sent again or not."""
    overtaken_s: float
    """The longest time by which one of these was late."""
    duplicated: int
    """Segments that arrived more often than they were sent."""
    acks: int
    """Packets that the receiver sent."""
    acks_lost: int
    """Of these, lost between the captures."""

    @property
    def again(self) -> int:
        """Retransmitted segments."""
        return self.lost + self.late + self.dropped + self.needless


@dataclass(frozen=True)
class PathEvidence:
    """All of the evidence; times in s, None if they are not known."""

    fates: RetransmissionCounts | None
    """None if packets are missing from a capture."""
    there_s: float | None
    """How long data waited on its way to the receiver, on average, beyond the least delay."""
    answer_s: float | None
    """Mean time from data to its ACK at the receiver's host, delayed ACKs included."""
    back_s: float | None
    """How long ACKs waited on their way back, on average."""
    capacity_bps: float | None
    """Capacity of the bottleneck, from the spacing of segments that were sent together."""
    pairs: int
    """Pairs of segments that show the capacity."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "fates": None if self.fates is None else vars(self.fates)}


def path_evidence(document: Mapping[str, Any]) -> PathEvidence:
    """The inverse of ``PathEvidence.document``; ``LookupError`` or ``TypeError`` for something else."""
    fates = document["fates"]
    return PathEvidence(**{**document, "fates": None if fates is None else RetransmissionCounts(**fates)})


@dataclass(frozen=True)
class DiagnosisFinding:
    """A cause, how much of the time it applied, and the evidence for it."""

    cause: Cause
    share: float
    seconds: float
    confidence: Confidence
    sentence: str
    evidence: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {
            "cause": self.cause.key,
            "who": self.cause.who,
            "share": self.share,
            "seconds": self.seconds,
            "confidence": self.confidence,
            "sentence": self.sentence,
            "evidence": list(self.evidence),
        }


LARGE: Final = 0.2
"""Share of the time from which on a cause that is not the first one is named, too."""


def share_of(findings: Sequence[DiagnosisFinding], who: Who) -> float:
    return sum(finding.share for finding in findings if finding.cause.who == who)


def advice(findings: Sequence[DiagnosisFinding]) -> str:
    """What to do about the first cause, and the second one if it is large."""
    first, *others = findings
    at_ends = max(share_of(findings, who) for who in ("sender", "receiver")) >= LARGE
    second = next((each for each in others if each.share >= LARGE and each.cause is not UNKNOWN), None)
    said = [first.cause.advice]
    if second is not None:
        said += [f"{percent(second.share)} of the time {second.cause.held}.", second.cause.advice]
    return " ".join(each for each in said if each and not (at_ends and each == BOTTLENECK.advice))


@dataclass(frozen=True)
class CauseInterval:
    """From when to when a cause was the largest one, in seconds since the transfer began."""

    cause: Cause
    start_s: float
    end_s: float


@dataclass(frozen=True)
class BlindSpot:
    """What cannot be told from this place, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class TransferSummary:
    """Summary of the transfer; None for what the source does not show."""

    data_bytes: int
    seconds: float
    throughput_bps: float
    segments: int
    segment_bytes: float
    retransmitted: int
    loss_ratio: float
    """Share of the segments that were retransmitted, spurious retransmissions left out."""
    duplicate_acks: int | None
    sack_blocks: int | None
    rtt_mean_s: float | None
    rtt_min_s: float | None
    window_max_bytes: int | None
    window_allows_bps: float | None
    """The throughput of the largest window per mean round trip."""
    capacity_bps: float | None
    rtt_origin: str = ""
    """What shows the round trips in a capture; empty for the kernel's own."""


@dataclass(frozen=True)
class Diagnosis:
    """Where the time went: ``findings`` add up to all of it, the largest first."""

    source: Source
    sentence: str
    findings: tuple[DiagnosisFinding, ...]
    notes: tuple[str, ...]
    """Settings that cost throughput, whether they were the limit or not."""
    blind: tuple[BlindSpot, ...]
    summary: TransferSummary
    counters: Mapping[str, float] | None = None
    """The kernel's own counters, for comparison."""
    counters_wrong: tuple[str, ...] = ()
    between: PathEvidence | None = None
    """What the captures at both ends show together."""
    intervals: tuple[CauseInterval, ...] = field(default=(), compare=False)
    """Without gaps, the earliest first; empty for a diagnosis that was read back."""
    begun_ns: float = field(default=0.0, compare=False)
    """When the transfer began, by the clock of the capture; 0 for other sources."""

    @property
    def main(self) -> Cause:
        """The cause with the largest share of the time."""
        return self.findings[0].cause

    @property
    def advice(self) -> str:
        return advice(self.findings)

    def share(self, key: str) -> float:
        """Share of the time of a cause, by its key."""
        return sum(finding.share for finding in self.findings if finding.cause.key == key)

    @property
    def lost_s(self) -> float:
        """How long the transfer was held up while it had something to send."""
        idle = (APPLICATION_WRITE, APPLICATION_ASK, UNKNOWN)
        return sum(finding.seconds for finding in self.findings if finding.cause not in idle)

    def of(self, who: Who) -> float:
        """Share of the time for which one party was the limit."""
        return share_of(self.findings, who)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "from": PLACES[self.source],
            "source": self.source,
            "sentence": self.sentence,
            "limited_by": {who: self.of(who) for who in ("sender", "receiver", "network", "unknown")},
            "findings": [finding.document() for finding in self.findings],
            "notes": list(self.notes),
            "cannot_be_told": [vars(each) for each in self.blind],
            "summary": vars(self.summary),
            "kernel_counters": None if self.counters is None else dict(self.counters),
            "kernel_counters_wrong": list(self.counters_wrong),
            "between": None if self.between is None else self.between.document(),
        }


_CAUSES: Final = {cause.key: cause for cause in CAUSES}


def read(document: Mapping[str, Any]) -> Diagnosis:
    """The inverse of :meth:`Diagnosis.document`; it also reads documents of earlier versions.

    Raises
    ------
    LookupError, TypeError
        The document is not a diagnosis.
    """
    told, between = document["summary"], document.get("between")
    return Diagnosis(
        source=document["source"],
        sentence=document["sentence"],
        findings=tuple(_finding(each) for each in document["findings"]),
        notes=tuple(document["notes"]),
        blind=tuple(BlindSpot(each["what"], each["why"]) for each in document["cannot_be_told"]),
        # What an earlier version did not report is not known.
        summary=TransferSummary(**{field.name: told.get(field.name) for field in fields(TransferSummary)}),
        counters=document["kernel_counters"],
        counters_wrong=tuple(document["kernel_counters_wrong"]),
        between=None if between is None else path_evidence(between),
    )


def _finding(told: Mapping[str, Any]) -> DiagnosisFinding:
    key = told["cause"]
    return DiagnosisFinding(
        # A cause that only a later version knows is named by its key.
        cause=_CAUSES.get(key) or Cause(key, told["who"], key.replace("_", " ")),
        share=told["share"],
        seconds=told["seconds"],
        confidence=told["confidence"],
        sentence=told["sentence"],
        evidence=tuple(told["evidence"]),
    )


COUNTERS: Final = ("busy_time_us", "rwnd_limited_us", "sndbuf_limited_us")
"""Of the kernel (Linux 4.10, ``tcp_chrono_start`` in ``net/ipv4/tcp_output.c``), counted in jiffies. They are
shown as they are; :data:`CAUTION` says when they are known to be wrong."""

CAUTION: Final = (
    "These are the kernel's own counters, in steps of a jiffy (1 to 10 ms). An application that writes more "
    "than once per round trip looks like the network. The send buffer is counted only while nothing else "
    "holds the sender back."
)


@dataclass(frozen=True)
class TimeShares:
    """Shares of the time, from 0 to 1; their sum is 1.

    ``application``: nothing to send; ``receiver``: its window was full; ``send_buffer``: it was full;
    ``network``: everything else, which is the congestion window, pacing and the path.
    """

    application: float
    receiver: float
    send_buffer: float
    network: float


def time_shares(counters: Mapping[str, int], elapsed_us: float) -> TimeShares | None:
    """Shares of one connection, from the growth of its counters in ``elapsed_us``; None without counters.

    Jiffies may add up to more than the time that passed; then the shares are of their sum.
    """
    if elapsed_us <= 0 or any(name not in counters for name in COUNTERS):
        return None
    busy, receiver, send_buffer = (counters[name] for name in COUNTERS)
    held_back = receiver + send_buffer
    whole = max(elapsed_us, busy, held_back)
    busy = max(busy, held_back)
    return TimeShares(
        application=(whole - busy) / whole,
        receiver=receiver / whole,
        send_buffer=send_buffer / whole,
        network=(busy - held_back) / whole,
    )


def mean_shares(parts: Sequence[TimeShares]) -> TimeShares | None:
    """The mean shares of connections that lasted equally long; None if there are none."""
    if not parts:
        return None
    return TimeShares(*(sum(shares) / len(parts) for shares in zip(*map(astuple, parts), strict=True)))
