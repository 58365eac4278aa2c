"""Applies the rules to a timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.causes import UNKNOWN
from weirlab.diagnosis.finding import BlindSpot, CauseInterval, Diagnosis, DiagnosisFinding, TransferSummary
from weirlab.diagnosis.notes import notes
from weirlab.diagnosis.rules import RULES, DiagnosisRule
from weirlab.diagnosis.rules.losses import ample_window
from weirlab.diagnosis.rules.network import even, rises_apart, stands_still
from weirlab.diagnosis.timeline import Timeline, TransferFacts
from weirlab.diagnosis.view import TimelineView
from weirlab.trace.quantities import bit_rate, duration, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weirlab.diagnosis.causes import Cause, Confidence
    from weirlab.diagnosis.timeline import Floats

MOST: Final = 2000
"""Most intervals: more than a screen has columns."""


def intervals(timeline: Timeline, parts: Mapping[Cause, Floats]) -> tuple[CauseInterval, ...]:
    """The largest cause of each moment; ``parts`` has the share of each piece of time (0 to 1) by cause.

    What ``parts`` leave is not known. If causes alternate more than :data:`MOST` times, time is divided into
    as many equal bins, each with the cause that had most of it.
    """
    names = [*parts, UNKNOWN]
    shares = np.array([*parts.values()]).reshape(len(parts), len(timeline.lasts_s))
    shares = np.vstack([shares, 1 - shares.sum(axis=0)])
    edges = np.concatenate([[0.0], np.cumsum(timeline.lasts_s)])
    held = shares.argmax(axis=0)
    if np.count_nonzero(np.diff(held)) >= MOST:
        seconds = np.concatenate(
            [np.zeros((len(names), 1)), np.cumsum(shares * timeline.lasts_s, axis=1)], axis=1
        )
        bins = np.linspace(0.0, edges[-1], MOST + 1)
        held = np.diff([np.interp(bins, edges, each) for each in seconds], axis=1).argmax(axis=0)
        edges = bins
    first = np.flatnonzero(np.diff(held, prepend=-1))
    ends = edges[[*first[1:], len(held)]]
    return tuple(
        CauseInterval(names[held[at]], float(edges[at]), float(end))
        for at, end in zip(first, ends, strict=True)
    )


LEAST_SHARE: Final = 0.005
"""Smaller shares are not reported, and count as unknown."""
MINOR: Final = 0.05
"""A cause with a smaller share, or a smaller one than what looks like it, may be much of that, too. What may
only be part of smaller shares is not worth a word.
"""
COUNTER_OFF: Final = 0.1
"""Difference above which the kernel's own counter is called wrong."""
LEAST_PIECES: Final = 3
LEAST_TRIPS: Final = 8
"""Round trips that a cause must have lasted for high confidence."""

LEAST_LEAD: Final = 0.1
"""Share of the time by which the largest cause must exceed the next one for high confidence."""

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "application": ("application_write", "application_ask"),
    "receiver": ("application_read", "receiver_host", "receive_window", "window_scaling"),
    "send_buffer": ("send_buffer",),
}
_WHY_WRONG: Final[Mapping[str, str]] = {
    "application": "busy time ends only when everything is acknowledged, so an application that writes more "
    "than once per round trip is counted as the network",
    "receiver": "the kernel counts the receiver only while its window alone stops a segment from leaving",
    "send_buffer": "the kernel counts the send buffer only while nothing else holds the sender back",
    "network": "the kernel counts all remaining time as the network",
}


def diagnose(
    timeline: Timeline, facts: TransferFacts, *, target_bps: float | None = None
) -> Diagnosis | None:
    """Find where the time of a transfer went.

    Parameters
    ----------
    timeline, facts
        From :mod:`weirlab.diagnosis.kernel` or :mod:`weirlab.diagnosis.capture`.
    target_bps
        The wanted throughput; the sentences then say what it would need.

    Returns
    -------
    Diagnosis or None
        None if there is too little data.
    """
    if len(timeline.lasts_s) < LEAST_PIECES or timeline.seconds <= 0:
        return None
    view = TimelineView(timeline, facts, target_bps)
    if facts.flaw is not None:
        nothing = _unknown(view, 1.0, facts.flaw)
        return Diagnosis(
            source=timeline.source,
            sentence=nothing.sentence,
            findings=(nothing,),
            notes=tuple(notes(view)),
            blind=(),
            summary=_summary(view),
            intervals=intervals(timeline, {}),
            begun_ns=timeline.begun_ns,
        )
    left = np.ones(len(timeline.lasts_s))
    parts: dict[str, tuple[DiagnosisRule, Floats]] = {}
    for rule in RULES:
        held = rule.holds(view)
        if not held.any():
            continue
        part = left * held
        left -= part
        if view.share(part) >= LEAST_SHARE:
            first, before = parts.get(rule.cause.key, (rule, np.zeros(len(left))))
            # The larger part decides how sure the whole is.
            main = rule if view.share(part) > view.share(before) else first
            parts[rule.cause.key] = (main, before + part)
    if facts.unread_s >= LEAST_SHARE * _whole_s(view):
        reading = next(rule for rule in RULES if rule.cause is causes.APPLICATION_READ)
        parts.setdefault(reading.cause.key, (reading, np.zeros(len(left))))
    sizes = {key: view.share(part) for key, (_, part) in parts.items()}
    found = [
        _finding(view, rule, part, alone=not _mistakable(view, rule, sizes)) for rule, part in parts.values()
    ]
    rest = 1 - sum(each.share for each in found)
    if rest >= LEAST_SHARE:
        found.append(_unknown(view, rest))
    found.sort(key=lambda each: -each.share)
    if timeline.source != "kernel" and found[0].confidence == "high":
        found[0] = _compared(found)
    shares = {each.cause.key: each.share for each in found}
    return Diagnosis(
        source=timeline.source,
        sentence=found[0].sentence + _wanted(view, found[0].sentence),
        findings=tuple(found),
        notes=tuple(notes(view)),
        blind=tuple(_blind(view, shares)),
        summary=_summary(view),
        counters=facts.counters,
        counters_wrong=tuple(_wrong(facts.counters, shares)),
        between=facts.between,
        intervals=(
            *intervals(timeline, {rule.cause: part for rule, part in parts.values()}),
            *_reads_on(view),
        ),
        begun_ns=timeline.begun_ns,
    )


def _whole_s(view: TimelineView) -> float:
    """From the first data to the last, or until the receiver had read it."""
    return view.timeline.seconds + view.facts.unread_s


def _reads_on(view: TimelineView) -> list[CauseInterval]:
    begin_s, end_s = view.timeline.seconds, _whole_s(view)
    return [CauseInterval(causes.APPLICATION_READ, begin_s, end_s)] if end_s > begin_s else []


def _wanted(view: TimelineView, sentence: str) -> str:
    """What the target throughput would need, unless ``sentence`` says it."""
    target, capacity = view.target_bps, view.capacity
    if target is None or f" {bit_rate(target)}" in sentence:
        return ""
    if _throughput_bps(view) >= target:
        return f" {bit_rate(target)} was reached."
    if capacity is not None and capacity * 8 < target:
        return f" {bit_rate(target)} needs a path that carries more than {bit_rate(capacity * 8)}."
    return f" {bit_rate(target)} was not reached, and the path is not known to carry less."


def _throughput_bps(view: TimelineView) -> float:
    return view.facts.data_bytes * 8 / (view.facts.data_s or view.timeline.seconds)


def _mistakable(view: TimelineView, rule: DiagnosisRule, shares: Mapping[str, float]) -> bool:
    """Whether another cause would look like this one from here, or looked like it in part."""
    key = rule.cause.key
    return any(
        key in other.looks_like
        and (other.unseen(view) is not None or shares.get(other.cause.key, 0.0) >= MINOR)
        for other in RULES
        if other.cause.key != key
    )


def _finding(view: TimelineView, rule: DiagnosisRule, part: Floats, *, alone: bool) -> DiagnosisFinding:
    after_s = view.facts.unread_s if rule.cause is causes.APPLICATION_READ else 0.0
    held_s = view.share(part) * view.timeline.seconds + after_s
    share = held_s / _whole_s(view)
    why, evidence = rule.explains(view, part)
    return DiagnosisFinding(
        cause=rule.cause,
        share=share,
        seconds=held_s,
        confidence=_confidence(view, rule, part, alone=alone),
        sentence=f"{percent(share)} of the time {rule.cause.held}: {why}.",
        evidence=evidence,
    )


def _confidence(view: TimelineView, rule: DiagnosisRule, part: Floats, *, alone: bool) -> Confidence:
    """The rule's, but never high if another cause would look alike, nor on weak evidence from captures: an
    uncertain place, hardly any time, or a queue that never grew nor shrank with the data in flight; nor where
    a full window or send buffer may only fill a short queue.
    """
    sure, source, share = rule.sure(view.timeline.source), view.timeline.source, view.share(part)
    if sure == "high" and not alone:
        return "medium"
    limits = (causes.RECEIVE_WINDOW, causes.WINDOW_SCALING, causes.SEND_BUFFER)
    behind = rule.cause in limits and view.share(part * view.queued) > share / 2
    if sure != "high" or source == "kernel":
        return "medium" if sure == "high" and behind else sure
    few = share * view.timeline.seconds < LEAST_TRIPS * view.facts.min_rtt_s
    still = (
        rule.cause is causes.BOTTLENECK
        and view.paired is None
        and not view.follows_flight(view.capacity or 0.0, varied=True)
    )
    return "medium" if few or still or behind or not view.facts.place_known else sure


def _compared(found: Sequence[DiagnosisFinding]) -> DiagnosisFinding:
    """The first cause, which is not certain to be the largest if the next one is hardly smaller."""
    first = found[0]
    near = len(found) > 1 and found[1].share > first.share - LEAST_LEAD
    return replace(first, confidence="medium") if near else first


def _unknown(view: TimelineView, share: float, why: str | None = None) -> DiagnosisFinding:
    t = view.timeline
    if why is None and view.share(view.unanswered) > share / 2:
        why = f"nothing came back any more for {duration(view.facts.unanswered_s * 1e9)}"
    if why is None and view.share(stands_still(view) & view.idle) > share / 2:
        why = "data was in flight, but no ACK came: the path or a host stood still, or the application paused"
    if why is None and view.share(view.doubtful) > share / 2:
        why = "it is not certain where it was captured, so gaps beside losses may be the application's or not"
    if why is None and view.share(even(view)) > share / 2:
        why = "data arrived at one rate, however much was lost, so the losses did not limit it"
    if why is None and view.share(view.lossy) > share / 2 and (ample := ample_window(view)) is not None:
        allowed, got = map(bit_rate, ample)
        why = f"after losses the congestion window allowed {allowed}, but {got} got through"
    if why is None and rises_apart(view):
        least, usual = view.facts.min_rtt_s, view.usual(t.rtt_s, np.ones(len(t.lasts_s)))
        why = (
            f"the RTT rose from {duration(least * 1e9)} to {duration(usual * 1e9)}, but does not follow the "
            "data in flight: perhaps ACKs waited on their way back, or at the receiver"
        )
    if why is None:
        where = causes.PLACES[t.source]
        why = f"{where} shows neither a full window, nor a queue, nor loss, nor an application that pauses"
    return DiagnosisFinding(
        causes.UNKNOWN,
        share,
        share * _whole_s(view),
        "low",
        f"{percent(share)} of the time {causes.UNKNOWN.held}: {why}.",
        (),
    )


def _blind(view: TimelineView, shares: Mapping[str, float]) -> list[BlindSpot]:
    """What the rules cannot tell from here."""
    source = view.timeline.source
    found: dict[str, BlindSpot] = {}
    for rule in RULES:
        why = rule.unseen(view)
        alike = sum(shares.get(key, 0.0) for key in rule.looks_like)
        is_found = shares.get(rule.cause.key, 0.0) >= max(MINOR, alike)
        if why is None or is_found or alike < MINOR:
            continue
        found[rule.cause.key] = BlindSpot(rule.cause.held, why)
    if source == "kernel":
        if not view.timeline.knows("buffer_fill") and "application_write" in shares:
            found["send_buffer"] = BlindSpot(
                causes.SEND_BUFFER.held, "the memory of the send buffer was not sampled (INET_DIAG_SKMEMINFO)"
            )
        if not view.timeline.knows("cpu_wait") and "application_read" in shares:
            found["receiver_host"] = BlindSpot(
                causes.RECEIVER_HOST.held, "the scheduler of the receiver's host was not sampled"
            )
    return list(found.values())


def _wrong(counters: Mapping[str, float] | None, shares: Mapping[str, float]) -> list[str]:
    """The kernel's counters that differ from what was found, each with the reason."""
    if counters is None:
        return []
    found = {name: sum(shares.get(key, 0.0) for key in keys) for name, keys in _GROUPS.items()}
    found["network"] = 1 - sum(found.values())
    return [
        f"{name.replace('_', ' ')}: {percent(counters[name])} instead of {percent(max(share, 0.0))}; "
        f"{_WHY_WRONG[name]}"
        for name, share in found.items()
        if abs(counters[name] - share) > COUNTER_OFF
    ]


def _summary(view: TimelineView) -> TransferSummary:
    t, facts = view.timeline, view.facts
    times = t.lasts_s > 0
    known = times & np.isfinite(t.rtt_s)
    mean = float(np.average(t.rtt_s[known], weights=t.lasts_s[known])) if known.any() else None
    most = float(np.nanmax(t.window_bytes)) if t.knows("window_bytes") else None
    return TransferSummary(
        data_bytes=facts.data_bytes,
        seconds=t.seconds,
        throughput_bps=_throughput_bps(view),
        segments=facts.segments,
        segment_bytes=facts.segment_bytes,
        retransmitted=facts.retransmitted,
        loss_ratio=max(facts.retransmitted - facts.spurious, 0) / facts.segments if facts.segments else 0.0,
        duplicate_acks=facts.duplicate_acks,
        sack_blocks=facts.sack_blocks,
        rtt_mean_s=mean,
        rtt_min_s=facts.min_rtt_s if facts.min_rtt_s > 0 else None,
        rtt_origin=facts.rtt_origin,
        window_max_bytes=None if most is None else int(most),
        window_allows_bps=None if most is None or not mean else most * 8 / mean,
        capacity_bps=None if view.capacity is None else view.capacity * 8,
    )
