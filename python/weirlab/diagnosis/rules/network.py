"""Causes on the path: capacity, loss, order, and the congestion window that follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.rules.allowance import seconds
from weirlab.diagnosis.rules.rule import DiagnosisRule
from weirlab.diagnosis.timeline import FULL, median
from weirlab.diagnosis.view import MOSTLY, TimelineView
from weirlab.trace.quantities import bit_rate, count, percent, plural, size

if TYPE_CHECKING:
    from weirlab.diagnosis.causes import Source
    from weirlab.diagnosis.finding import RetransmissionCounts
    from weirlab.diagnosis.timeline import Bools, Floats


NEEDLESS: Final = 0.5
"""Share of spurious retransmissions from which on reordering was mistaken for loss."""
RISEN: Final = 1.5
"""Ratio to the least round trip from which on something waits."""
ACK_DELAY_S: Final = 0.04
"""Linux delays an ACK by no more (``TCP_DELACK_MIN``), as long as data comes."""
GROWTH_TRIPS: Final = 8
"""Round trips in which a congestion window that grows at all becomes larger than before."""


def _held(view: TimelineView) -> Bools:
    """The congestion window is full and has not grown for some round trips, although nothing was lost."""
    t = view.timeline
    if not t.knows("cwnd_room_bytes"):
        return np.zeros(len(t.lasts_s), dtype=bool)
    full = (t.cwnd_room_bytes <= 2 * view.facts.mss_bytes) & ~view.window_full & (view.rate > 0)
    return np.asarray(t.starting & full & ~view.saturated & ~view.lossy & ~_grew_lately(view, t.start_s[0]))


def _hold(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    rtt, held = view.usual(t.rtt_s, part), view.usual(t.cwnd_room_bytes + t.flight_bytes, part)
    return f"{size(held)}, which allows {bit_rate(held * 8 / rtt)} at an RTT of {seconds(rtt)}", (
        "it was full, and did not grow although nothing was lost and the path had room",
    )


def _grew_lately(view: TimelineView, begun_s: float = -np.inf) -> Bools:
    """The congestion window has grown within some round trips, or since ``begun_s``."""
    t = view.timeline
    cwnd = np.nan_to_num(t.cwnd_room_bytes) + t.flight_bytes
    more = np.diff(np.maximum.accumulate(cwnd), prepend=cwnd[:1]) > 0
    grew_s = np.maximum.accumulate(np.where(more, t.start_s, begun_s))
    return np.asarray(t.start_s - grew_s <= GROWTH_TRIPS * view.facts.min_rtt_s)


def _growth(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    rtt = view.usual(t.rtt_s, part)
    lasted = view.share(part) * t.seconds
    trips = max(round(lasted / rtt), 1) if rtt > 0 else 0
    about = f", about {plural(trips, 'round trip')} of {seconds(rtt)}" if trips else ""
    return f"for {seconds(lasted)}{about}", (
        "nothing had been lost yet, and the data in flight grew from round trip to round trip",
    )


def stands_still(view: TimelineView) -> Bools:
    """Data is in flight, but no ACK comes for longer than a round trip and a delayed ACK take."""
    t = view.timeline
    some, arrives = t.flight_bytes > 0, np.diff(t.acked_bytes, prepend=t.acked_bytes[:1]) > 0
    if t.source not in ("sender", "both") or not some.any():
        return np.zeros(len(some), dtype=bool)
    wait = np.cumsum(arrives)
    waits_s = np.bincount(wait, weights=t.lasts_s * some)
    return np.asarray(some & (waits_s[wait] > median(t.rtt_s) + ACK_DELAY_S))


def _shared(view: TimelineView) -> Bools:
    # Connections of the same test are no other traffic.
    return view.shared & (view.facts.siblings == 0)


def _sharing(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    rate, rtt = view.usual(view.rate, part), view.usual(view.timeline.rtt_s, part)
    capacity = bit_rate((view.capacity or float("nan")) * 8)
    stood = f"there was a standing queue: the minimum RTT was {seconds(view.facts.min_rtt_s)}"
    alone = f"at other times this transfer alone got {capacity}"
    return f"this transfer got {bit_rate(rate * 8)} of {capacity}, at an RTT of {seconds(rtt)}", (
        (stood, alone) if view.paired is None else (_waited(view, part), _by_pairs(view))
    )


def _by_pairs(view: TimelineView) -> str:
    between = view.facts.between
    assert between is not None
    return (
        f"the bottleneck carries {bit_rate(between.capacity_bps or 0.0)}: {plural(between.pairs, 'pair')} of "
        "segments that left together arrived as far apart as that takes"
    )


def _waited(view: TimelineView, part: Floats) -> str:
    """How long data waited between the two captures."""
    t = view.timeline
    assert t.queue_s is not None
    return f"between the captures data waited {seconds(view.usual(t.queue_s, part))} in a queue"


def even(view: TimelineView) -> Bools:
    """Data arrived at one rate although much was lost: the losses did not slow the sender down."""
    drain, start_s = view.facts.drain, view.timeline.start_s
    # Behind a link that carries much more, they did.
    if drain is None or drain.rate_bytes_per_s < FULL * (view.capacity or 0.0):
        return np.zeros(len(start_s), dtype=bool)
    return np.asarray((start_s >= drain.from_s) & (start_s < drain.until_s))


def _drained(view: TimelineView) -> Bools:
    """The same, as a full link delivers it."""
    return even(view) & (view.facts.drain is not None and view.facts.drain.is_full)


def _saturated(view: TimelineView) -> Floats:
    """All of the time with a standing queue; otherwise the share of the capacity that is used."""
    if view.capacity is None:
        return np.zeros(len(view.rate))
    used = np.clip(view.rate / view.capacity, 0.0, 1.0)
    if not view.queued_before_losses:
        # No queue caused the losses, which are the limit while none stands, unless the sender bears them.
        used = np.where(view.lossy & ~even(view) & (view.facts.pacing != "BBR"), 0.0, used)
    return np.where(view.saturated | _drained(view) | (view.shared & (view.facts.siblings > 0)), 1.0, used)


def _carries(view: TimelineView) -> str:
    """The capacity in payload, and in all that passes the link, as it is sold."""
    capacity, headers, mss = view.capacity or float("nan"), view.facts.header_bytes, view.facts.mss_bytes
    whole = f" ({bit_rate(capacity * 8 * (1 + headers / mss))} with headers)" if headers and mss else ""
    return f"it carries {bit_rate(capacity * 8)} of payload{whole}"


def _saturation(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    capacity = (view.capacity or float("nan")) * 8
    rtt = view.usual(view.timeline.rtt_s, part * view.queued)
    least = view.facts.min_rtt_s
    if view.facts.siblings and view.paired is None:
        others = plural(view.facts.siblings, "other connection")
        got = bit_rate(view.usual(view.rate, part) * 8)
        return f"{others} of this test stood in the same queue, and this one got {got}", (
            f"the RTT rose from {seconds(least)} to {seconds(rtt)}",
            "whether other traffic had a part of it, too, is not seen",
        )
    if view.share(part * _drained(view)) > view.share(part) / 2:
        again = plural(view.facts.retransmitted, "segment")
        tried = (
            "segments did not come faster even for a moment, which a path that carries more would show"
            if view.timeline.source == "receiver"
            else "again and again more was sent for a while, as BBR does as a probe, and no more arrived"
        )
        return f"{_carries(view)}, as evenly as data arrived whatever was lost", (
            f"{again} were retransmitted, but after losses as much arrived as before, and without gaps",
            tried,
            "a policer would look the same",
        )
    if not view.share(part * view.queued) > 0:
        return f"{_carries(view)}, as BBR's probes found", (
            "BBR sends a quarter more in one of eight round trips, and no more was delivered",
            f"there was no standing queue: the RTT stayed near {seconds(least)}",
        )
    evidence = [
        f"while there was a standing queue, {bit_rate(capacity)} was delivered"
        if view.paired is None
        else _by_pairs(view),
        f"the RTT rose from {seconds(least)} to {seconds(rtt)}",
    ]
    if view.timeline.queue_s is not None:
        evidence.append(_waited(view, part * view.queued))
    if view.facts.retransmitted:
        evidence.append(f"{plural(view.facts.retransmitted, 'segment')} were retransmitted")
    if view.share(part * view.queued) > view.share(part) / 2:
        return f"{_carries(view)}, with a standing queue in front of it", tuple(evidence)
    used = view.usual(view.rate, part) * 8 / capacity
    return f"{_carries(view)}, of which this transfer used {percent(used)}", tuple(evidence)


def rises_apart(view: TimelineView) -> bool:
    """Whether round trips are mostly much longer than the least, and no queue of the data explains it."""
    if view.capacity is not None or view.timeline.queue_s is not None:
        return False
    rtt_s, least_s = view.usual(view.timeline.rtt_s, np.ones(len(view.rate))), view.facts.min_rtt_s
    return bool(rtt_s > RISEN * least_s > 0) and view.share(view.plainly_queued) > MOSTLY


def _knows_the_ways(view: TimelineView) -> bool:
    """Whether no cause that was found could be a queue on the way back."""
    t = view.timeline
    if t.back_s is not None:
        return True
    if t.source == "receiver":
        # The data alone shows whether it waited in a queue.
        return not t.paced.any()
    return view.capacity is None and not rises_apart(view)


def fates_of(view: TimelineView) -> RetransmissionCounts | None:
    between = view.facts.between
    return None if between is None else between.fates


def _ack_queue(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    assert t.back_s is not None
    waited, rtt = view.usual(t.back_s, part), view.usual(t.rtt_s, part)
    evidence = [
        f"between the captures ACKs waited {seconds(waited)}, and data hardly waited",
        f"the RTT rose from {seconds(view.facts.min_rtt_s)} to {seconds(rtt)}",
    ]
    if (fates := fates_of(view)) is not None and fates.acks_lost:
        evidence.append(f"{count(fates.acks_lost)} of {count(fates.acks)} ACKs were lost on their way back")
    return f"for {seconds(waited)}, at an RTT of {seconds(rtt)}", tuple(evidence)


def _unfilled(view: TimelineView) -> Bools:
    """The congestion window is the limit, no loss has reduced it, and it still grows."""
    t = view.timeline
    if not t.knows("cwnd_room_bytes"):
        return np.zeros(len(t.lasts_s), dtype=bool)
    limited = np.isfinite(t.cwnd_room_bytes) & ~view.has_room
    return np.asarray(~view.lossy & limited & _grew_lately(view))


_OTHERS: Final = (
    "own and foreign congestion look alike, unless the transfer had the path to itself for a while: other "
    "traffic is not seen"
)
ONE_PLACE: Final[tuple[Source, ...]] = ("kernel", "sender", "between", "receiver")

PATH_RULES: Final = (
    DiagnosisRule(
        causes.SLOW_START,
        lambda view: view.timeline.starting & ~view.saturated & ~view.lossy & ~_held(view),
        _growth,
        {"kernel": "high"},
    ),
    DiagnosisRule(
        causes.CWND_LIMIT,
        _held,
        _hold,
        {"kernel": "high"},
        dict.fromkeys(
            ("sender", "between", "receiver"),
            "a congestion window that is held looks like a full send buffer",
        ),
        (causes.SEND_BUFFER.key,),
    ),
    DiagnosisRule(
        causes.ACK_QUEUE,
        lambda view: view.acks_queued,
        _ack_queue,
        {"both": "high"},
        {
            **dict.fromkeys(ONE_PLACE, "a round trip does not show in which direction the queue is"),
            "receiver": "the return path of the ACKs is not seen, and segments that ACKs release one by one "
            "arrive as evenly as paced ones",
        },
        (causes.BOTTLENECK.key, causes.FOREIGN.key, causes.PACING.key, causes.UNKNOWN.key),
        _knows_the_ways,
    ),
    DiagnosisRule(
        causes.FOREIGN, lambda view: _shared(view) & (view.paired is not None), _sharing, {"both": "high"}
    ),
    DiagnosisRule(
        causes.FOREIGN,
        _shared,
        _sharing,
        {},
        {"kernel": _OTHERS, "sender": _OTHERS, "between": _OTHERS, "receiver": _OTHERS},
        (causes.BOTTLENECK.key, causes.LOSS.key),
        # Loss without a full queue before it is not congestion.
        lambda view: view.paired is not None or not (view.capacity is not None or view.overflowed),
    ),
    DiagnosisRule(causes.BOTTLENECK, _saturated, _saturation, {"kernel": "high", "sender": "high"}),
)
GROWTH_RULES: Final = (DiagnosisRule(causes.SLOW_START, _unfilled, _growth),)
