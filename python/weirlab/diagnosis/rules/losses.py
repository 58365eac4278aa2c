"""Rules about time-outs, congestion marks and losses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.rules.allowance import AMPLE, at_rtt, got_through, seconds, wanted
from weirlab.diagnosis.rules.network import NEEDLESS, ONE_PLACE, even, fates_of
from weirlab.diagnosis.rules.rule import DiagnosisRule
from weirlab.diagnosis.view import MOSTLY, TimelineView
from weirlab.trace.quantities import bit_rate, count, octets, percent, plural, size

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import BlackHole, Bools, Floats


MOST_LOST: Final = 0.5
"""Share of the segments. With more, no transfer goes on: something only repeats packets."""
POLICED: Final = 0.05
"""Share of the segments. With fewer retransmissions, no sender overruns a policer all the time."""
FEW_SEGMENTS: Final = 16
"""With fewer in flight, delayed ACKs and repairs take most of the time."""
AMPLE_IN_RECOVERY: Final = 3.0
"""The same as ``AMPLE`` while a recovery lasts, in which the data in flight is counted up to twice."""
MARK_TRIPS: Final = 64
"""Round trips in which a congestion window that marks have reduced may still be growing again."""
MATHIS: Final = 1.22
"""Mathis et al., ACM CCR 27(3), 1997: throughput is at most ``1.22 MSS / (RTT sqrt(p))``."""


def _timing_out(view: TimelineView) -> Bools:
    return view.timeline.timing_out


def _black_hole(view: TimelineView) -> BlackHole | None:
    known = view.facts.timeouts
    return None if known is None else known.black_hole


def _swallowing(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    hole, known = _black_hole(view), view.facts.timeouts
    assert hole is not None
    assert known is not None
    why = (
        f"none of {plural(hole.tries, 'transmission')} of {octets(hole.lost_bytes)} or more was acknowledged"
        f", while up to {octets(hole.passed_bytes)} arrived"
    )
    alive = "after larger ones" if hole.later_passed else "beside larger ones"
    return why, (
        f"a segment of {octets(hole.passed_bytes)} that was sent {alive} was acknowledged",
        f"the sender waited for {plural(known.number, 'time-out')}, {seconds(known.longest_s)} at most",
    )


def _expiring(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    known = view.facts.timeouts
    assert known is not None
    waited = view.share(part) * view.timeline.seconds
    why = f"{plural(known.number, 'time')}, for {seconds(waited)} in all, {seconds(known.longest_s)} at most"
    evidence: list[str] = []
    if known.tails:
        evidence.append(
            f"{count(known.tails)} of them: nothing was sent after the lost segment, so no duplicate ACK "
            "could report it"
        )
    if known.ignored:
        evidence.append(
            f"{count(known.ignored)} of them: three or more duplicate ACKs had asked for the segment, but "
            "the sender waited"
        )
        if view.facts.misplaced_sacks:
            why += "; the sender could not use the receiver's SACK blocks, which cover what was never sent"
    return why, tuple(evidence) or ("the ACKs that would have reported the loss earlier did not come",)


def _knows_fates(view: TimelineView) -> bool:
    return fates_of(view) is not None


def _most_are(view: TimelineView, name: str) -> bool:
    """Whether most retransmitted segments have this fate."""
    fates = fates_of(view)
    return fates is not None and fates.again > 0 and getattr(fates, name) >= NEEDLESS * fates.again


def _fated(view: TimelineView) -> list[str]:
    """What captures at both ends show about the retransmissions."""
    fates = fates_of(view)
    if fates is None:
        return []
    told = (
        (fates.lost, "lost between the captures"),
        (fates.late, "late: later segments overtook the earlier copy"),
        (fates.dropped, "dropped by the receiver's host after they had arrived"),
        (
            fates.needless,
            "not needed: the earlier copy arrived, and its ACK came late or not at all",
        ),
    )
    said = [f"{count(number)} {what}" for number, what in told if number]
    return [f"of {plural(fates.again, 'retransmitted segment')}, {'; '.join(said)}"] if said else []


def _dropping(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    fates = fates_of(view)
    assert fates is not None
    why = (
        f"{count(fates.dropped)} of {plural(fates.again, 'retransmitted segment')} had arrived there, but "
        "were not acknowledged until they arrived again"
    )
    return why, (
        *_fated(view),
        "nothing before them was missing, and later segments had arrived: the receiver should have "
        "acknowledged them at once",
    )


def _spurious(view: TimelineView) -> bool:
    if _knows_fates(view):
        return _most_are(view, "late")
    again, needless, fast = view.facts.retransmitted, view.facts.spurious, view.facts.fast
    if fast is not None and not view.facts.reordered:
        # A time-out or a probe is needless because an ACK was late; only what later segments seemed to ask
        # for shows that these had overtaken it.
        needless = max(needless - (again - fast), 0)
    return again > 0 and needless >= NEEDLESS * again


def _marked(view: TimelineView) -> Bools:
    """Congestion marks were reported lately, and reduced the congestion window (RFC 3168)."""
    t = view.timeline
    if t.marks is None:
        return np.zeros(len(t.lasts_s), dtype=bool)
    new = np.diff(t.marks, prepend=t.marks[:1]) > 0
    last_s = np.maximum.accumulate(np.where(new, t.start_s, -np.inf))
    return np.asarray(t.start_s - last_s <= MARK_TRIPS * view.facts.min_rtt_s)


def _marking(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    assert t.marks is not None
    flight, rtt = view.usual(t.flight_bytes, part), view.usual(t.rtt_s, part)
    what = "segments" if t.source == "kernel" else "ACKs"
    known = "arrived with a mark (ECN)" if t.source == "kernel" else "reported a mark (ECN)"
    why = f"{count(int(t.marks[-1]))} {what} {known}, which held it near {size(flight)}"
    return f"{why} ({at_rtt(flight * 8 / rtt, rtt)})" if rtt > 0 else why, (
        "nothing was lost, and no queue was seen: whatever marks does so early",
    )


def _policed(view: TimelineView) -> Bools:
    policer, t = view.facts.policer, view.timeline
    if policer is None:
        return np.zeros(len(t.lasts_s), dtype=bool)
    part = (t.start_s >= policer.from_s) & (t.start_s < policer.until_s)
    # In front of a full queue, what exceeds its rate is lost as well. Just before losses, above all at the
    # start, BBR fills other queues too.
    return np.asarray(part & (_rtt_ratio(view, part.astype(float)) <= view.full_ratio))


def _rtt_ratio(view: TimelineView, part: Floats) -> float:
    least = view.facts.min_rtt_s
    return view.usual(view.timeline.rtt_s, part) / least if least > 0 else math.nan


def _policing(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    policer = view.facts.policer
    assert policer is not None
    rate = bit_rate(policer.rate_bytes_per_s * 8)
    why = f"it let {rate} through, and dropped {percent(policer.lost / policer.sent)} of the segments"
    return why, (
        f"{count(policer.lost)} of {plural(policer.sent, 'segment')} were lost, most of them when a token "
        f"bucket that is filled at {rate} is empty; nearly all others left when it is not",
        f"meanwhile the RTT was usually {_rtt_ratio(view, part):.2f} times the minimum: no queue was full",
        "the sender did not slow down: its congestion control (such as BBR) bears such losses",
        "a queue of a few packets would look the same",
    )


def _disorder(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    facts, fates = view.facts, fates_of(view)
    if fates is not None:
        return f"{count(fates.late)} of {plural(fates.again, 'retransmitted segment')} had not been lost", (
            *_fated(view),
            f"{plural(fates.overtaken, 'segment')} arrived after later ones, by up to "
            f"{seconds(fates.overtaken_s)}",
        )
    again = plural(facts.retransmitted, "retransmitted segment")
    why = f"{count(facts.spurious)} of {again} had arrived already: they were late, not lost"
    evidence = ["the receiver reported them by DSACK (RFC 2883)"]
    if facts.reordered:
        evidence.append(f"reordering was seen {count(facts.reordered)} times")
    return why, tuple(evidence)


def ample_window(view: TimelineView) -> tuple[float, float] | None:
    """What the congestion window allowed after losses, and what got through, in bit/s; None if that is much
    the same: then the window is the limit.
    """
    t = view.timeline
    # While nothing arrives, it is not the window that shows.
    sends = (view.rate > 0) & ~view.idle & ~view.window_full & view.lossy & ~view.saturated
    return _allowance(view, sends & ~(t.recovery | t.timing_out), AMPLE) or _bears_losses(view)


def _bears_losses(view: TimelineView) -> tuple[float, float] | None:
    """The same of recoveries, seen at the sender: what is in flight contains what arrived behind a hole."""
    t = view.timeline
    if t.source == "kernel":
        return None
    repairs = t.recovery & ~t.timing_out & (view.rate > 0) & view.lossy
    return _allowance(view, repairs, AMPLE_IN_RECOVERY) if view.share(repairs) > MOSTLY else None


def _allowance(view: TimelineView, part: Bools, ratio: float) -> tuple[float, float] | None:
    t, weights = view.timeline, part.astype(np.float64)
    rtt_s, flight = view.usual(t.rtt_s, weights), view.usual(t.flight_bytes, weights)
    if not (rtt_s > 0 and flight >= FEW_SEGMENTS * view.facts.mss_bytes):
        return None
    allowed, got = flight * 8 / rtt_s, got_through(view, weights)[0]
    return (allowed, got) if allowed >= ratio * got > 0 else None


def _reduced(view: TimelineView) -> Bools:
    facts = view.facts
    if facts.fast is None or _knows_fates(view):
        lost = True
    else:
        # Packets that a capture has twice look like retransmissions that nothing explains.
        doubtful = facts.timeouts is None and facts.early > facts.retransmitted / 2
        real = facts.retransmitted - facts.spurious
        lost = real > 0 and not doubtful and real <= MOST_LOST * facts.segments
    reduced = view.lossy & (ample_window(view) is None)
    # What goes on arriving evenly was not slowed down.
    reduced |= view.timeline.recovery & (_bears_losses(view) is None)
    return reduced & lost & ~even(view) & ~view.doubtful


def _reduction(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t, facts = view.timeline, view.facts
    if not facts.retransmitted and view.lossy[0]:
        return _reduction_before(view, part)
    real = max(facts.retransmitted - facts.spurious, 1)
    ratio = real / max(facts.segments, 1)
    flight, rtt = view.usual(t.flight_bytes, part), view.usual(t.rtt_s, part)
    allowed = MATHIS * facts.mss_bytes * 8 / (rtt * math.sqrt(ratio)) if rtt > 0 else float("nan")
    evidence = [
        f"{plural(facts.retransmitted, 'segment')} of {count(facts.segments)} were retransmitted, "
        f"{count(facts.spurious)} of them spuriously",
        f"the recoveries themselves took {percent(view.share(part * t.recovery))} of the time",
        f"at this loss and RTT, Reno gets about {bit_rate(allowed)} (Mathis)"
        if rtt > 0
        else "the RTT is not known: no data that was sent only once was acknowledged",
        _before(view),
    ]
    evidence = [*_fated(view), *evidence]
    if _most_are(view, "needless"):
        return f"little was lost, but late or missing ACKs held it near {size(flight)}", tuple(evidence)
    why = f"{percent(ratio)} of the segments were lost, which held it near {size(flight)}"
    return why + _at_this_flight(view, flight, rtt), tuple(evidence)


def _reduction_before(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    """The kernel's counters know losses from before the first sample."""
    t = view.timeline
    flight, rtt = view.usual(t.flight_bytes, part), view.usual(t.rtt_s, part)
    why = f"nothing was lost meanwhile, but earlier losses hold it near {size(flight)}"
    return why + _at_this_flight(view, flight, rtt), (
        f"none of {plural(view.facts.segments, 'segment')} was retransmitted meanwhile, but some were before",
        f"recoveries took {percent(view.share(part * t.recovery))} of the time",
    )


def _at_this_flight(view: TimelineView, flight_bytes: float, rtt_s: float) -> str:
    """What ``flight_bytes`` allow, if the RTT is known."""
    if not rtt_s > 0:
        return ""
    allowed_bps = flight_bytes * 8 / rtt_s
    return f" ({at_rtt(allowed_bps, rtt_s)}){_bearable(view, allowed_bps, rtt_s)}"


def _bearable(view: TimelineView, allowed_bps: float, rtt_s: float) -> str:
    """The loss that would allow the wanted throughput, by the same formula."""
    target = wanted(view, allowed_bps)
    if target is None:
        return ""
    ratio = (MATHIS * view.facts.mss_bytes * 8 / (rtt_s * target)) ** 2
    return f"; {bit_rate(target)} would need a loss below {percent(ratio)}"


def _before(view: TimelineView) -> str:
    """Whether a queue had filled up when packets were lost."""
    ratio = view.before_losses
    if math.isnan(ratio):
        return "the RTT before the losses is not known"
    full = "a queue had filled up" if view.overflowed else "no queue had filled up"
    return f"before losses the RTT was {ratio:.2f} times the minimum: {full}"


TIMEOUT_RULES: Final = (
    DiagnosisRule(
        causes.BLACK_HOLE,
        lambda view: _timing_out(view) & (_black_hole(view) is not None),
        _swallowing,
        dict.fromkeys(("sender", "between"), "medium"),
    ),
    DiagnosisRule(causes.TIMEOUT, _timing_out, _expiring, {"sender": "high"}),
)
MARK_RULES: Final = (
    DiagnosisRule(
        causes.MARKS,
        lambda view: _marked(view) & ~view.lossy & (view.capacity is None),
        _marking,
        {"kernel": "high", "sender": "high"},
    ),
)
POLICER_RULES: Final = (
    DiagnosisRule(
        causes.POLICER,
        _policed,
        _policing,
        {},
        dict.fromkeys(
            ("kernel", "between", "receiver"), "what exceeds its rate is lost, and it is not seen when"
        ),
        (causes.LOSS.key, causes.PACING.key, causes.BOTTLENECK.key),
        lambda view: view.facts.retransmitted < POLICED * max(view.facts.segments, 1),
    ),
)
LOSS_RULES: Final = (
    DiagnosisRule(
        causes.RECEIVER_DROPS,
        lambda view: _reduced(view) & _most_are(view, "dropped"),
        _dropping,
        {"both": "high"},
        dict.fromkeys(
            ONE_PLACE,
            "segments lost on the path and segments dropped by the receiver's host are retransmitted alike",
        ),
        (causes.LOSS.key,),
        _knows_fates,
    ),
    DiagnosisRule(
        causes.REORDERING,
        lambda view: view.lossy & _spurious(view),
        _disorder,
        {"kernel": "high", "sender": "high", "receiver": "high"},
        dict.fromkeys(ONE_PLACE, "without SACK the receiver does not report what arrived twice"),
        (causes.LOSS.key,),
        lambda view: _knows_fates(view) or view.facts.sack is not False,
    ),
    DiagnosisRule(causes.LOSS, _reduced, _reduction, {"kernel": "high", "sender": "high"}),
)
