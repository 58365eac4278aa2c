"""The input of the rules: a timeline, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.timeline import (
    FULL,
    QUEUE_S,
    SHRUNK,
    Timeline,
    TransferFacts,
    lasting,
    least_room,
    recent_most,
    weighted_quantile,
)

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

QUEUE_RATIO: Final = 1.1
"""A round trip longer than the least by this ratio plus ``QUEUE_S`` includes waiting in a queue."""
PLAIN_QUEUE_RATIO: Final = 1.2
FULL_QUEUE_RATIO: Final = 1.05
"""The same before losses at a bottleneck that is known."""
LEAST_QUEUED: Final = 0.1
"""Share of the time with a standing queue from which on the rate meanwhile counts as the capacity."""
SHARED_TRIPS: Final = 8
"""Round trips for which others must have had a part: acknowledged data comes in bursts, too."""
TRICKLE: Final = 0.05
"""Share of the capacity that other traffic always leaves; with less, the path stands still."""
STEADY_RATE_TRIPS: Final = 4
"""Round trips over which a rate is no longer that of a burst."""
MOSTLY: Final = 0.5
"""Share of that time in which a queue must be standing."""
PROBED: Final = 0.03
"""``LEAST_QUEUED`` for a sender that paces, which sends faster for a while to see whether more gets through
(BBR: a quarter more in one of eight round trips)."""
FASTER: Final = 1.12
"""Ratio to the usual delivery rate while it does so."""
MANY_LOSSES: Final = 0.05
"""Share of the segments that were sent again."""
STEADY_TRIPS: Final = 16
"""Round trips in which BBR's estimate grows by half as long as its probes find more capacity."""
STEADY: Final = 1.1
AT_LIMIT: Final = 0.95
"""Share of the socket's pacing limit from which on it counts as reached."""
LEAST_SILENCE_S: Final = 1.0
SILENT_TRIPS: Final = 4
"""Round trips without an answer, and the least time, from which on the receiver may have gone."""
BLUR: Final = 2.0
"""Time over which data in flight is blurred, as a multiple of how exactly ACKs are known."""
ROOM: Final = 1 / 3
"""Share of the congestion window that TCP may leave unused for larger bursts (``tcp_tso_should_defer``)."""


@dataclass(frozen=True)
class TimelineView:
    """A timeline with derived values; masks (True, or from 0 to 1) have an entry per piece of time."""

    timeline: Timeline
    facts: TransferFacts
    target_bps: float | None = None

    @cached_property
    def rate(self) -> Floats:
        """Delivered, bytes per second, over about a round trip."""
        t = self.timeline
        return t.rates(t.acked_bytes)

    @cached_property
    def idle(self) -> Bools:
        """Nothing waits to be sent."""
        return np.asarray((self.timeline.unsent_bytes == 0) & ~self.doubtful)

    @cached_property
    def doubtful(self) -> Bools:
        """The same beside many losses, if the sender may be elsewhere: it may have waited for ACKs."""
        facts, nothing = self.facts, self.timeline.unsent_bytes == 0
        many = facts.retransmitted >= MANY_LOSSES * max(facts.segments, 1)
        return np.asarray(nothing & self.lossy & (many and not facts.place_known))

    @cached_property
    def window_full(self) -> Bools:
        """The receiver's window has no room for a segment, or had none within the last round trip.

        While data waits, a sender leaves room unused only to fill it with a larger burst
        (``tcp_tso_should_defer``).
        """
        t = self.timeline
        full = t.window_bytes - t.flight_bytes < least_room(t.window_bytes, self.facts.mss_bytes)
        if not full.any():
            return np.asarray(full)
        rtt = np.where(np.isfinite(t.rtt_s), t.rtt_s, self.facts.min_rtt_s)
        last = np.maximum.accumulate(np.where(full, t.start_s + t.lasts_s, -np.inf))
        known = np.isfinite(t.window_bytes)
        return np.asarray(full | ((t.start_s - last < rtt) & known & ~self.idle & ~t.held_small))

    @cached_property
    def most_window(self) -> Floats:
        """The largest receive window so far."""
        most = np.fmax.accumulate(self.timeline.window_bytes)
        return np.asarray(np.fmax(most, self.facts.window_before_bytes))

    @cached_property
    def _reads_late(self) -> Bools:
        """Unread data closed a full window around here: the kernel's mean RTT has ACKs that came late."""
        t = self.timeline
        shrunk = self.window_full & (t.window_bytes < SHRUNK * self.most_window)
        if t.source != "kernel" or not shrunk.any():
            return np.zeros(len(t.lasts_s), dtype=bool)
        return np.asarray(shrunk | (self._near(shrunk) > 0))

    @cached_property
    def unanswered(self) -> Bools:
        """Nothing comes back any more: what the receiver last said of its window tells nothing about it."""
        t, since_s = self.timeline, self.facts.unanswered_s
        if since_s < max(LEAST_SILENCE_S, SILENT_TRIPS * self.facts.min_rtt_s):
            return np.zeros(len(t.lasts_s), dtype=bool)
        return np.asarray(t.start_s >= t.seconds - since_s)

    @cached_property
    def nearly_full(self) -> Bools:
        """The receiver's window may have no room: away from the sender, the flight is only known roughly."""
        t, least_s = self.timeline, self.facts.min_rtt_s
        if not self.facts.blur_s or least_s <= 0:
            return np.zeros(len(t.lasts_s), dtype=bool)
        most = recent_most(t.flight_bytes, t.lasts_s, least_s)
        room = self.facts.mss_bytes + most * BLUR * self.facts.blur_s / least_s
        return np.asarray(t.window_bytes - most < room)

    @cached_property
    def queued(self) -> Bools:
        """There is a queue on the way to the receiver; if only round trips are known, on the path."""
        return self._waits(self._waited_s, QUEUE_RATIO, QUEUE_S)

    @cached_property
    def plainly_queued(self) -> Bools:
        return self._waits(self._waited_s, PLAIN_QUEUE_RATIO, 2 * QUEUE_S)

    @cached_property
    def acks_queued(self) -> Bools:
        """There is a queue on the way back, and none on the way to the receiver."""
        back_s = self.timeline.back_s
        if back_s is None:
            return np.zeros(len(self.timeline.lasts_s), dtype=bool)
        return self._waits(back_s, QUEUE_RATIO, QUEUE_S) & ~self.queued

    @property
    def _waited_s(self) -> Floats:
        t = self.timeline
        if t.queue_s is not None:
            return t.queue_s
        # Without a least round trip, no part of one is known to be a wait.
        return t.rtt_s - (self.facts.min_rtt_s if self.facts.min_rtt_s > 0 else np.inf)

    def _waits(self, waited_s: Floats, ratio: float, least_s: float) -> Bools:
        return np.asarray((waited_s > self.facts.min_rtt_s * (ratio - 1) + least_s) & ~self._reads_late)

    @cached_property
    def paired(self) -> float | None:
        """The capacity from pairs of segments, bytes per second, unless more was delivered for long."""
        between, t = self.facts.between, self.timeline
        if between is None or between.capacity_bps is None:
            return None
        steady = t.rates(t.acked_bytes, STEADY_RATE_TRIPS)
        found = between.capacity_bps / 8
        return None if found < FULL * weighted_quantile(steady, t.lasts_s, 0.9) else found

    @cached_property
    def capacity(self) -> float | None:
        """The capacity of the bottleneck, bytes per second: what was delivered during a standing queue.

        None if no queue was ever seen: then the highest delivered rate says nothing about the capacity,
        unless a sender that paces probes for more.
        """
        found = self._behind_queue()
        if found is None and (drain := self.facts.drain) is not None and drain.is_full:
            found = drain.rate_bytes_per_s
        return self._estimated() if found is None else found

    def _behind_queue(self) -> float | None:
        t = self.timeline
        # Other traffic may have a part of it during a standing queue.
        held, least, quantile = self.queued & ~self.idle, LEAST_QUEUED, 0.75
        paced = self.share(t.paced) > MOSTLY
        if paced:
            held, least, quantile = held & self._probing(), PROBED, 0.5
        queued_s = float(t.lasts_s[held].sum())
        if queued_s < max(least * t.seconds, 2 * self.facts.min_rtt_s):
            return None
        if self.paired is not None and not paced:
            return self.paired if self._stands_long(held) else None
        if not paced and self._queues_behind_itself(held):
            return None
        found = weighted_quantile(self.rate[held], t.lasts_s[held], quantile)
        # Delayed ACKs and busy hosts lengthen round trips, too. But no rate exceeds that of a full link,
        # except after data was held up.
        steady = t.rates(t.acked_bytes, STEADY_RATE_TRIPS)
        most = weighted_quantile(steady, t.lasts_s * self._undisturbed(), 0.9)
        if not found > 0 or found < FULL * most or not (paced or self.follows_flight(found)):
            return None
        return found if self._stands_long(held) or self._no_slower(held) else None

    def follows_flight(self, capacity: float, *, varied: bool = False) -> bool:
        """Whether round trips are as long as a queue in front of ``capacity`` bytes per second makes them.

        ``varied``: and whether the data in flight varied enough to show that. A flight that stays the same
        shows nothing against a queue.
        """
        t, full = self.timeline, self.rate >= FULL * capacity
        counts = ~self.idle & ~t.recovery & ~t.timing_out & np.isfinite(t.rtt_s) & (t.rtt_s > 0)
        fits = self._fits(counts, full, capacity, varied)
        if fits or t.source != "kernel":
            return fits
        settled = counts & t.settled()
        if settled.any():
            return self._fits(settled, full, capacity, varied)
        # All is one recovery, in which as much is delivered behind a queue all the same.
        return not varied and self.share(full & self.plainly_queued) > 1 - LEAST_QUEUED

    def _fits(self, counts: Bools, full: Bools, capacity: float, varied: bool) -> bool:
        from weirlab import _engine

        if self.timeline.waits_without_flight(counts, full, capacity, self.facts.min_rtt_s):
            return False
        t, facts = self.timeline, self.facts
        # Where less got through later, others may have filled the queue.
        counts = counts & (full | (np.arange(len(full)) < int(np.argmax(full))))
        if not counts.any() and t.source == "receiver":
            # All is one recovery, but data shows itself how long it waited.
            counts = full & ~self.idle & ~t.timing_out & np.isfinite(t.rtt_s) & (t.rtt_s > 0)
        # At the receiver a round trip is known when its data left, elsewhere when that was acknowledged.
        trips = t.start_s, t.rtt_s, t.steady_flight_bytes, counts, t.source == "receiver"
        fits, varies = _engine.queue_explains(*trips, capacity, facts.min_rtt_s, facts.mss_bytes)
        return fits and (varies or not varied)

    def _undisturbed(self) -> Bools:
        """Where no recovery was near: after one, much is acknowledged at once. Everywhere if that is rare."""
        t = self.timeline
        held_up = (t.recovery | t.timing_out) * t.lasts_s
        clean = t.rates(np.cumsum(held_up) - held_up, STEADY_RATE_TRIPS) <= 0
        return np.asarray(clean if self.share(clean) >= LEAST_QUEUED else np.ones_like(clean))

    def _queues_behind_itself(self, held: Bools) -> bool:
        """Whether it was the queue of blocks, each of which left once the one before was acknowledged.

        From then until the next block comes, a least round trip at least, the bottleneck is idle.
        """
        some, least_s = self.timeline.flight_bytes > 0, self.facts.min_rtt_s
        idle_s = int((some[1:] & ~some[:-1]).sum()) * least_s
        return self.facts.blur_s < least_s and idle_s > (1 - FULL) * self.timeline.seconds * self.share(held)

    def _stands_long(self, held: Bools) -> bool:
        """Whether ``held`` consists mostly of stretches that only a queue explains."""
        long = lasting(held, self.timeline.lasts_s, SHARED_TRIPS * self.facts.min_rtt_s)
        return self.share(long) > MOSTLY * self.share(held)

    def _no_slower(self, held: Bools) -> bool:
        """Whether as much is delivered in ``held`` as otherwise: a single long round trip means nothing."""
        lasts_s = self.timeline.lasts_s
        usual = weighted_quantile(self.rate[held], lasts_s[held], 0.5)
        return not usual < FULL * weighted_quantile(self.rate, lasts_s * ~(held | self.idle), 0.5)

    def _probing(self) -> Bools:
        """More was sent in the last round trips than is usually delivered."""
        t = self.timeline
        left = t.rates(t.acked_bytes + t.flight_bytes)
        usual = weighted_quantile(self.rate, t.lasts_s, 0.5)
        return np.asarray(recent_most(left, t.lasts_s, 2 * self.facts.min_rtt_s) > FASTER * usual)

    def _estimated(self) -> float | None:
        """The capacity that BBR estimates, once its probes find no more."""
        t, trips_s = self.timeline, STEADY_TRIPS * self.facts.min_rtt_s
        if not t.knows("estimate_bytes_per_s") or bool(self.at_limit.any()) or t.seconds < 3 * trips_s:
            return None
        ends = t.start_s + t.lasts_s
        last = ends > ends[-1] - trips_s
        before = ~last & (ends > ends[-1] - 2 * trips_s)
        found, earlier = (
            weighted_quantile(t.estimate_bytes_per_s, t.lasts_s * part, 0.5) for part in (last, before)
        )
        return found if 0 < found <= STEADY * earlier else None

    @cached_property
    def at_limit(self) -> Bools:
        """The socket's pacing limit is reached."""
        limit = self.facts.pacing_limit_bytes_per_s
        return np.asarray(self.timeline.pacing_bytes_per_s >= AT_LIMIT * (limit or np.inf))

    def behind_queue(self, held: Bools) -> Bools:
        """Where the bottleneck is busy anyway, although ``held`` says that the sender had a limit of its own.

        A busy host lengthens some round trips, too; a queue that such a limit fills stands most of the time.
        At the receiver the sender's time stamps tell how long data took, which a host hardly changes.
        """
        if not held.any():
            return held
        both = held & (self.queued if self.timeline.source == "receiver" else self.plainly_queued)
        if self.share(both) <= MOSTLY * self.share(held):
            return np.zeros(len(both), dtype=bool)
        return np.asarray(both & self.saturated)

    @cached_property
    def _gets_less(self) -> Bools:
        """There is a standing queue, and this transfer gets much less than at other times, for long."""
        t = self.timeline
        # Longer than a recovery, in which at first nothing is acknowledged, then much at once.
        rate = t.rates(t.acked_bytes, SHARED_TRIPS / 2)
        # When senders back off, the queue is empty for a moment.
        stands = self._near(self.queued) > MOSTLY
        less = stands & (rate < FULL * (self.capacity or 0.0))
        return lasting(less | t.recovery, t.lasts_s, SHARED_TRIPS * self.facts.min_rtt_s) & less

    def _near(self, mask: Bools) -> Floats:
        """The share of the time around each piece in which ``mask`` is True."""
        t = self.timeline
        return t.rates(np.cumsum(mask * t.lasts_s) - mask * t.lasts_s, SHARED_TRIPS / 2)

    @cached_property
    def _pauses(self) -> Bools:
        return self._near(self.idle | self.timeline.held_small) > 0

    @cached_property
    def shared(self) -> Bools:
        """The same although the sender could send: others take the rest."""
        still = self._near(self.rate <= TRICKLE * (self.capacity or 0.0)) > 0
        return np.asarray(self._gets_less & ~still & ~self._pauses & ~(self._near(self.window_full) > 0))

    @cached_property
    def saturated(self) -> Bools:
        """There is a standing queue, and this transfer has the whole bottleneck."""
        if self.capacity is None:
            return np.zeros(len(self.rate), dtype=bool)
        full = self.queued & (self.rate >= FULL * self.capacity)
        # Just before and after a pause, the usual rate is lower than that of the moment.
        less = self._gets_less & ((self._near(self.window_full) > 0) | ~self._pauses)
        return np.asarray((full | self.plainly_queued) & ~less)

    @cached_property
    def lossy(self) -> Bools:
        """There was a retransmission before."""
        return np.asarray(self.timeline.lost > 0)

    @cached_property
    def before_losses(self) -> float:
        """The usual RTT just before losses divided by the minimum RTT; NaN if it is not known."""
        t = self.timeline
        # The kernel's counter has losses from before the first sample.
        known = t.lost[0] if t.source == "kernel" else 0.0
        at = np.flatnonzero(np.diff(t.lost, prepend=known) > 0)
        before = t.rtt_s[np.maximum(at - 1, 0)]
        before = before[np.isfinite(before)]
        least = self.facts.min_rtt_s
        return float(np.median(before)) / least if len(before) and least > 0 else float("nan")

    @property
    def queued_before_losses(self) -> bool:
        """There was a queue when something was lost, or that is not known."""
        return not (self.before_losses - QUEUE_RATIO) * self.facts.min_rtt_s <= QUEUE_S

    @property
    def overflowed(self) -> bool:
        """A queue had filled up when something was lost."""
        return self.before_losses > self.full_ratio

    @property
    def full_ratio(self) -> float:
        """From which ratio of the RTT to its minimum a queue is full."""
        # A round trip that is hardly longer shows this only if the bottleneck is known.
        plain = PLAIN_QUEUE_RATIO + 2 * QUEUE_S / max(self.facts.min_rtt_s, QUEUE_S)
        return plain if self.capacity is None else FULL_QUEUE_RATIO

    @cached_property
    def has_room(self) -> Bools:
        """Data waits, and neither window holds it back. Only the kernel knows."""
        t, mss = self.timeline, self.facts.mss_bytes
        if not t.knows("cwnd_room_bytes"):
            return np.zeros(len(t.lasts_s), dtype=bool)
        cwnd = t.cwnd_room_bytes + t.flight_bytes
        waits = t.unsent_bytes >= mss
        # A sender that paces sends small bursts, and leaves no room for larger ones.
        unused = (0.0 if self.facts.pacing else ROOM) * cwnd + 2 * mss
        return np.asarray(waits & (t.cwnd_room_bytes > unused) & ~self.window_full & ~t.recovery)

    def share(self, weights: Floats | Bools) -> float:
        """The share of the time, weighted with ``weights``."""
        whole = self.timeline.seconds
        # Summed up as the whole is, so that all of it is exactly 1.
        return float((weights * self.timeline.lasts_s).sum()) / whole if whole > 0 else 0.0

    def usual(self, values: Floats, weights: Floats, share: float = 0.5) -> float:
        """The median (or quantile ``share``) of ``values`` over weighted pieces; NaN if there are none."""
        return weighted_quantile(values, weights * self.timeline.lasts_s, share)
