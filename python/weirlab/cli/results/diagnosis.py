"""Tables and sentences that show a diagnosis on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from weirlab.base.tables import Table
from weirlab.diagnosis.causes import UNKNOWN
from weirlab.trace.quantities import NOTHING, bit_rate, count, duration, octets, percent, plural, size

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import (
        Diagnosis,
        DiagnosisFinding,
        PathEvidence,
        RetransmissionCounts,
        TransferSummary,
    )

_COUNTERS: Final = {
    "application": "nothing to send",
    "receiver": "receiver",
    "send_buffer": "send buffer",
    "network": "network",
}


def tables(found: Diagnosis) -> list[Table]:
    """Where the time went, what shows it, the transfer in numbers, and the kernel's counters."""
    evidence = [
        (finding.cause.held if number == 0 else "", said)
        for finding in found.findings
        for number, said in enumerate(finding.evidence)
    ]
    made = [
        where(found.findings),
        Table("What shows it", ("Cause", "Evidence"), evidence),
        Table("Transfer", ("", ""), _summary(found)),
        *between(found),
    ]
    if found.counters is not None:
        made.append(_counters(found))
    return [table for table in made if table.rows]


def where(findings: Sequence[DiagnosisFinding]) -> Table:
    """Where the time went."""
    causes = [
        (finding.cause.held, percent(finding.share), duration(finding.seconds * 1e9), finding.confidence)
        for finding in findings
    ]
    return Table("Where the time went", ("Cause", "Share", "Time", "Confidence"), causes)


def sentences(found: Mapping[int, Diagnosis]) -> Table:
    """A sentence per connection, by its number, and what to do."""
    rows = [(str(number), answer(each)) for number, each in found.items()]
    return Table("Why not faster (--connection shows the rest)", ("#", ""), rows)


def answer(found: Diagnosis) -> str:
    """The main cause, what to do about it, and how sure that is."""
    sure = "" if found.main is UNKNOWN else f"Confidence: {found.findings[0].confidence}."
    return " ".join(filter(None, (found.sentence, found.advice, sure)))


def remarks(found: Diagnosis) -> list[str]:
    """Settings to change, what cannot be determined, and where the kernel's counters are wrong."""
    said = [f"Setting: {note}." for note in found.notes]
    said += [f"Cannot be told from here: {each.what}; {each.why}." for each in found.blind]
    said += [
        f"The kernel's counters are wrong here. {each[0].upper()}{each[1:]}." for each in found.counters_wrong
    ]
    return said


def _summary(found: Diagnosis) -> list[tuple[str, str]]:
    one: TransferSummary = found.summary
    rows = [
        ("payload", f"{octets(one.data_bytes)} in {duration(one.seconds * 1e9)}"),
        ("throughput", bit_rate(one.throughput_bps)),
        ("segments", f"{count(one.segments)} of {octets(one.segment_bytes)} on average"),
        ("retransmitted", f"{count(one.retransmitted)}; loss {percent(one.loss_ratio)}"),
        ("duplicate ACKs, SACK blocks", f"{count(one.duplicate_acks)}, {count(one.sack_blocks)}"),
        (
            "RTT least, mean over time",
            f"{_time(one.rtt_min_s)}, {_time(one.rtt_mean_s)}{_from(one.rtt_origin)}",
        ),
        ("greatest window", _window(one)),
        ("bottleneck, payload", bit_rate(one.capacity_bps)),
    ]
    limited = ", ".join(f"{who} {percent(found.of(who))}" for who in ("sender", "receiver", "network"))
    return [*rows, ("limited by", limited)]


def between(found: Diagnosis) -> list[Table]:
    """What the captures at both ends show together; empty without both."""
    if found.between is None:
        return []
    return [Table("Between the captures at both ends", ("", ""), _fates(found.between))]


def _fates(one: PathEvidence) -> list[tuple[str, str]]:
    pairs = f"{bit_rate(one.capacity_bps or 0.0)}, by {plural(one.pairs, 'pair')} of segments"
    rows = [
        ("data waited in queues", _time(one.there_s)),
        ("the receiver's host answered after", _time(one.answer_s)),
        ("ACKs waited in queues", _time(one.back_s)),
        ("bottleneck", NOTHING if one.capacity_bps is None else pairs),
    ]
    if (fates := one.fates) is None:
        return rows
    return [
        *rows,
        ("sent again because lost on the path", count(fates.lost)),
        ("because dropped by the receiver's host", count(fates.dropped)),
        ("because later segments overtook it", count(fates.late)),
        ("because its ACK came late or not at all", count(fates.needless)),
        ("overtaken by later segments", _late(fates)),
        ("duplicated on the path", count(fates.duplicated)),
        ("ACKs lost on the path", f"{count(fates.acks_lost)} of {count(fates.acks)}"),
    ]


def _late(fates: RetransmissionCounts) -> str:
    late = f", by up to {duration(fates.overtaken_s * 1e9)}" if fates.overtaken else ""
    return f"{count(fates.overtaken)}{late}"


def _counters(found: Diagnosis) -> Table:
    counters = found.counters or {}
    rows = [(said, percent(counters[name])) for name, said in _COUNTERS.items()]
    return Table("The kernel's own counters", ("Held up by", "Share"), rows)


def _window(one: TransferSummary) -> str:
    if one.window_max_bytes is None:
        return NOTHING
    allows = "" if one.window_allows_bps is None else f", allows {bit_rate(one.window_allows_bps)}"
    return f"{size(one.window_max_bytes)}{allows}"


def _from(origin: str) -> str:
    return f", from {origin}" if origin else ""


def _time(seconds: float | None) -> str:
    return duration(None if seconds is None else seconds * 1e9)
