"""Causes on the path: capacity, loss, order, and the congestion window that follows from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.rules.ends import at_rtt, seconds, wanted
from weirlab.diagnosis.rules.rule import Rule
from weirlab.diagnosis.view import View
from weirlab.trace.quantities import bit_rate, count, percent, plural, size

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

NEEDLESS: Final = 0.5
"""Share of retransmissions that were spurious, from which on reordering was mistaken for loss."""
MATHIS: Final = 1.22
"""Mathis et al., ACM CCR 27(3), 1997: throughput is at most ``1.22 MSS / (RTT sqrt(p))``."""


def _growing(view: View) -> Bools:
    return view.timeline.starting & ~view.saturated & ~view.lossy


def _growth(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    rtt = view.usual(t.rtt_s, part)
    lasted = view.share(part) * t.seconds
    trips = lasted / rtt if rtt > 0 else float("nan")
    return f"for {seconds(lasted)}, some {count(trips)} round trips of {seconds(rtt)}", (
        "nothing had been lost yet, and the data in flight grew from round trip to round trip",
    )


def _shared(view: View) -> Bools:
    return view.shared


def _sharing(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    rate, rtt = view.usual(view.rate, part), view.usual(view.timeline.rtt_s, part)
    capacity = view.capacity or float("nan")
    return (
        f"this transfer got {bit_rate(rate * 8)} of {bit_rate(capacity * 8)}, at an RTT of {seconds(rtt)}",
        (
            f"a queue stood: the least RTT was {seconds(view.facts.min_rtt_s)}",
            f"at other times this transfer alone had {bit_rate(capacity * 8)}",
        ),
    )


def _saturated(view: View) -> Floats:
    """All of the time in which a queue stands; else the share of the capacity that is used."""
    if view.capacity is None:
        return np.zeros(len(view.rate))
    used = np.clip(view.rate / view.capacity, 0.0, 1.0)
    return np.where(view.saturated, 1.0, used)


def _saturation(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    capacity = (view.capacity or float("nan")) * 8
    rtt = view.usual(view.timeline.rtt_s, part * view.queued)
    least = view.facts.min_rtt_s
    if not view.share(part * view.queued) > 0:
        return f"it carries {bit_rate(capacity)}, as the probes of BBR found", (
            "BBR sends a quarter more in one of eight round trips, and no more was delivered",
            f"no queue stood: the RTT stayed near {seconds(least)}",
        )
    evidence = [
        f"while a queue stood, {bit_rate(capacity)} were delivered",
        f"the RTT rose from {seconds(least)} to {seconds(rtt)}",
    ]
    if view.facts.retransmitted:
        evidence.append(f"{plural(view.facts.retransmitted, 'segment')} were retransmitted")
    if view.share(part * view.queued) > view.share(part) / 2:
        return f"it carries {bit_rate(capacity)}, and a queue stood in front of it", tuple(evidence)
    used = view.usual(view.rate, part) * 8 / capacity
    return f"it carries {bit_rate(capacity)}, of which this transfer used {percent(used)}", tuple(evidence)


def _spurious(view: View) -> bool:
    again = view.facts.retransmitted
    return again > 0 and view.facts.spurious >= NEEDLESS * again


def _disordered(view: View) -> Bools:
    return view.lossy & _spurious(view)


def _disorder(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    facts = view.facts
    again = plural(facts.retransmitted, "retransmitted segment")
    why = f"{count(facts.spurious)} of {again} had arrived already: they were late, not lost"
    evidence = ["the receiver reported them by DSACK (RFC 2883)"]
    if facts.reordered:
        evidence.append(f"segments out of order were seen {count(facts.reordered)} times")
    return why, tuple(evidence)


def _reduced(view: View) -> Bools:
    return view.lossy | view.timeline.recovery


def _reduction(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t, facts = view.timeline, view.facts
    real = max(facts.retransmitted - facts.spurious, 1)
    ratio = real / max(facts.segments, 1)
    flight, rtt = view.usual(t.flight_bytes, part), view.usual(t.rtt_s, part)
    allowed = MATHIS * facts.mss_bytes * 8 / (rtt * math.sqrt(ratio)) if rtt > 0 else float("nan")
    evidence = [
        f"{plural(facts.retransmitted, 'segment')} of {count(facts.segments)} were retransmitted, "
        f"{count(facts.spurious)} of them spuriously",
        f"{percent(view.share(part * t.recovery))} of the time went into the recoveries themselves",
        f"at this loss and RTT TCP of the Reno kind gets some {bit_rate(allowed)} (Mathis)"
        if rtt > 0
        else "the RTT is not known: no data was acknowledged that was sent once",
        _before(view),
    ]
    why = f"{percent(ratio)} of the segments were lost, which held it near {size(flight)}"
    if rtt > 0:
        why += f" ({at_rtt(flight * 8 / rtt, rtt)}){_bearable(view, flight * 8 / rtt, rtt)}"
    return why, tuple(evidence)


def _bearable(view: View, allowed_bps: float, rtt_s: float) -> str:
    """The loss at which a wanted throughput can be had, by the same formula."""
    target = wanted(view, allowed_bps)
    if target is None:
        return ""
    ratio = (MATHIS * view.facts.mss_bytes * 8 / (rtt_s * target)) ** 2
    return f"; {bit_rate(target)} would need a loss below {percent(ratio)}"


def _before(view: View) -> str:
    """Whether a queue had filled up when packets were lost."""
    t = view.timeline
    at = np.flatnonzero(np.diff(t.lost, prepend=0.0) > 0)
    before = t.rtt_s[np.maximum(at - 1, 0)]
    before = before[np.isfinite(before)]
    if len(before) == 0:
        return "the RTT before the losses is not known"
    ratio = float(np.median(before)) / view.facts.min_rtt_s if view.facts.min_rtt_s > 0 else float("nan")
    full = "a queue had filled up" if view.capacity is not None and ratio > 1.05 else "no queue had filled up"
    return f"before losses the RTT was {ratio:.2f} times the least: {full}"


def _unfilled(view: View) -> Bools:
    """Held by the congestion window, which no loss made small."""
    t = view.timeline
    return np.asarray(~view.lossy & np.isfinite(t.cwnd_room_bytes) & ~view.has_room)


_OTHERS: Final = (
    "own or foreign congestion, unless the transfer had the path to itself for a while: the packets of "
    "others are not seen"
)

PATH_RULES: Final = (
    Rule(
        causes.SLOW_START,
        _growing,
        _growth,
        {"kernel": "high", "sender": "medium", "between": "medium", "receiver": "medium"},
    ),
    Rule(
        causes.FOREIGN,
        _shared,
        _sharing,
        {"kernel": "medium", "sender": "medium", "between": "medium", "receiver": "medium"},
        {"kernel": _OTHERS, "sender": _OTHERS, "between": _OTHERS, "receiver": _OTHERS},
        (causes.BOTTLENECK.key,),
    ),
    Rule(
        causes.BOTTLENECK,
        _saturated,
        _saturation,
        {"kernel": "high", "sender": "high", "between": "medium", "receiver": "medium"},
    ),
)
LOSS_RULES: Final = (
    Rule(
        causes.REORDERING,
        _disordered,
        _disorder,
        {"kernel": "high", "sender": "high", "between": "medium", "receiver": "high"},
    ),
    Rule(
        causes.LOSS,
        _reduced,
        _reduction,
        {"kernel": "high", "sender": "high", "between": "medium", "receiver": "medium"},
    ),
)
GROWTH_RULES: Final = (Rule(causes.SLOW_START, _unfilled, _growth, {"kernel": "medium"}),)
