"""What the rules look at: a timeline, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.timeline import Facts, Timeline, lasting, rates, weighted_quantile

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

QUEUE_RATIO: Final = 1.1
"""A round trip so much longer than the least has waited in a queue; ``QUEUE_S`` is what hosts scatter."""
QUEUE_S: Final = 0.001
PLAIN_QUEUE_RATIO: Final = 1.2
FULL: Final = 0.8
"""Of the capacity, from which on it counts as used in full (as in BBR's and Dapper's rules)."""
LEAST_QUEUED: Final = 0.1
"""Share of the time for which a queue must stand before the rate meanwhile is taken for the capacity."""
SHARED_TRIPS: Final = 8
"""Round trips for which others must have had a part: acknowledged data comes in bursts, too."""
MOSTLY: Final = 0.5
"""Of the time, for which a queue must stand meanwhile."""
ROOM: Final = 1 / 3
"""Of the congestion window that TCP may leave unused to send larger bursts (``tcp_tso_should_defer``)."""


@dataclass(frozen=True)
class View:
    """Masks are True, or numbers between 0 and 1, by piece of time."""

    timeline: Timeline
    facts: Facts
    target_bps: float | None = None

    @cached_property
    def rate(self) -> Floats:
        """Delivered, bytes per second, over about a round trip."""
        t = self.timeline
        return rates(t.start_s, t.lasts_s, t.acked_bytes, t.rtt_s)

    @cached_property
    def idle(self) -> Bools:
        """Nothing waits to be sent."""
        return np.asarray(self.timeline.unsent_bytes == 0)

    @cached_property
    def window_full(self) -> Bools:
        """The receiver's window has no room for a segment, or had none within the last round trip.

        As long as data waits, a sender leaves room unused only to fill it by a larger burst
        (``tcp_tso_should_defer``).
        """
        t = self.timeline
        full = t.window_bytes - t.flight_bytes < self.facts.mss_bytes
        rtt = np.where(np.isfinite(t.rtt_s), t.rtt_s, self.facts.min_rtt_s)
        last = np.maximum.accumulate(np.where(full, t.start_s + t.lasts_s, -np.inf))
        return np.asarray(full | ((t.start_s - last < rtt) & ~self.idle & ~t.held_small))

    @cached_property
    def queued(self) -> Bools:
        """The round trip is longer than the least: a queue stands on the path."""
        least = self.facts.min_rtt_s
        return np.asarray(self.timeline.rtt_s > least * QUEUE_RATIO + QUEUE_S)

    @cached_property
    def plainly_queued(self) -> Bools:
        return np.asarray(self.timeline.rtt_s > self.facts.min_rtt_s * PLAIN_QUEUE_RATIO + 2 * QUEUE_S)

    @cached_property
    def capacity(self) -> float | None:
        """Of the bottleneck, bytes per second: what was delivered while a queue stood in front of it.

        None where no queue was ever seen: then the most that was delivered says nothing of what could be.
        """
        t = self.timeline
        held = self.queued & ~self.idle
        queued_s = float(t.lasts_s[held].sum())
        if queued_s < max(LEAST_QUEUED * t.seconds, 2 * self.facts.min_rtt_s):
            return None
        found = weighted_quantile(self.rate[held], t.lasts_s[held], 0.75)
        # Delayed ACKs and busy hosts lengthen round trips, too; but nothing is faster than a full link.
        most = weighted_quantile(self.rate, t.lasts_s, 0.9)
        return found if found > 0 and found >= FULL * most else None

    @cached_property
    def shared(self) -> Bools:
        """A queue stands, and for long this transfer is far from what it had at other times."""
        if self.capacity is None:
            return np.zeros(len(self.rate), dtype=bool)
        t = self.timeline
        # Longer than a recovery, in which nothing is acknowledged and then much at once.
        rate = rates(t.start_s, t.lasts_s, t.acked_bytes, t.rtt_s, SHARED_TRIPS / 2)
        # Senders that back off leave the queue empty now and then.
        waited = np.cumsum(self.queued * t.lasts_s) - self.queued * t.lasts_s
        stands = rates(t.start_s, t.lasts_s, waited, t.rtt_s, SHARED_TRIPS / 2) > MOSTLY
        less = stands & (rate < FULL * self.capacity)
        return lasting(less | t.recovery, t.lasts_s, SHARED_TRIPS * self.facts.min_rtt_s) & less

    @cached_property
    def saturated(self) -> Bools:
        """A queue stands, and this transfer has all of the bottleneck."""
        if self.capacity is None:
            return np.zeros(len(self.rate), dtype=bool)
        full = self.queued & (self.rate >= FULL * self.capacity)
        return np.asarray((full | self.plainly_queued) & ~self.shared)

    @cached_property
    def lossy(self) -> Bools:
        """Something was sent again before."""
        return np.asarray(self.timeline.lost > 0)

    @cached_property
    def has_room(self) -> Bools:
        """Data waits, and neither window keeps it back. Only the kernel knows."""
        t, mss = self.timeline, self.facts.mss_bytes
        cwnd = t.cwnd_room_bytes + t.flight_bytes
        waits = t.unsent_bytes >= mss
        return np.asarray(
            waits & (t.cwnd_room_bytes > ROOM * cwnd + 2 * mss) & ~self.window_full & ~t.recovery
        )

    def share(self, weights: Floats) -> float:
        """Of the time."""
        whole = self.timeline.seconds
        return float((weights * self.timeline.lasts_s).sum()) / whole if whole > 0 else 0.0

    def usual(self, values: Floats, weights: Floats, share: float = 0.5) -> float:
        """The median of ``values`` in the pieces that count; NaN of nothing."""
        return weighted_quantile(values, weights * self.timeline.lasts_s, share)
