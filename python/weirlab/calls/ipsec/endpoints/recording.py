"""What an attempt was like as rows; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weirlab.base.quantities import duration, percent
from weirlab.calls.ipsec.endpoints.figures import (
    DELAY,
    DELTA,
    JITTER,
    LATENESS,
    QUANTITIES,
    figures,
    highest,
    mean,
    quantile,
)
from weirlab.calls.ipsec.endpoints.plan import HOG, SOCKETS, EndpointCalls, EndpointPlan
from weirlab.calls.ipsec.endpoints.rows import DistributionRow, EndpointAttemptRow
from weirlab.measure.validity import DEFAULT_LIMITS

if TYPE_CHECKING:
    from weirlab.calls.ipsec.endpoints.bed import EndpointObservation

LEAST_HOG_SHARE: Final = 0.01
"""A hog that had less of the CPUs was none."""


@dataclass(frozen=True)
class EndpointAttempt:
    """An attempt as it is kept."""

    row: EndpointAttemptRow
    distributions: tuple[DistributionRow, ...]


def reasons(talked: EndpointObservation, talk: EndpointCalls) -> Iterator[str]:
    """Why an attempt does not count: by what the host did, and never by the result."""
    limits = DEFAULT_LIMITS
    allowed_s = max(limits.steal_ratio * talked.wall_s, limits.steal_ticks * limits.tick_s)
    for role, stolen_s in talked.steal_s.items():
        # Differences of ticks in floating point: half a tick decides.
        if stolen_s > allowed_s + limits.tick_s / 2:
            told = f"{duration(stolen_s * 1e9)} stolen from the {role} endpoint's CPU"
            yield f"{told} (at most {duration(allowed_s * 1e9)})"
    if talk.arm != SOCKETS and not talked.real_time:
        yield f"the threads could not be real time ({talked.real_time_refused})"
    if talk.beside == HOG and talked.hog_share < LEAST_HOG_SHARE:
        yield f"a CPU hog had {percent(talked.hog_share)} of its CPU only"


def recorded(
    talked: EndpointObservation,
    talk: EndpointCalls,
    planned: EndpointPlan,
    number: int,
    purpose: str,
    *,
    late_ns: float,
) -> EndpointAttempt:
    """The rows of an attempt; a packet is bad that is heard later than ``late_ns`` after it was due."""
    found = figures(talked.ways, talk.warmup_packets)
    late, delay, jitter, delta = (found.values[each] for each in (LATENESS, DELAY, JITTER, DELTA))
    invalid = "; ".join(reasons(talked, talk))
    shortest, longest = talked.ip_bytes
    handled = sum(int((way.sent_ns > 0).sum() + (way.heard_ns > 0).sum()) for way in talked.ways)
    nan = float("nan")
    row = EndpointAttemptRow(
        number=number,
        purpose=purpose,
        arm=planned.arm,
        beside=planned.beside,
        calls=planned.calls,
        repetition=planned.repetition,
        valid=not invalid,
        invalid=invalid,
        start_ns=talked.since_1970_ns,
        lasts_s=(talk.packets - talk.warmup_packets) * talk.stream.packet_ns / 1e9,
        packets=found.due,
        unsent=found.unsent,
        lost=found.lost,
        bad=found.bad(late_ns),
        damaged=talked.damaged,
        ip_bytes=shortest if shortest == longest else 0,
        late_p50_ns=quantile(late, 0.5),
        late_p99_ns=quantile(late, 0.99),
        late_max_ns=highest(late),
        delay_p50_ns=quantile(delay, 0.5),
        delay_p99_ns=quantile(delay, 0.99),
        delay_max_ns=highest(delay),
        jitter_mean_ns=mean(jitter),
        jitter_max_ns=highest(jitter),
        delta_p99_ns=quantile(delta, 0.99),
        delta_max_ns=highest(delta),
        cpu_ns=talked.cpu_s * 1e9 / handled if handled else nan,
        work_ns=talked.work_s * 1e9 / handled if handled else nan,
        cpu_share=talked.cpu_s / (2 * talk.lasts_s),
        hog_share=talked.hog_share,
        steal_ratio=sum(talked.steal_s.values()) / (len(talked.steal_s) * talked.wall_s)
        if talked.steal_s
        else nan,
        real_time=talked.real_time,
        polls=talked.polls,
        zero_copy=talked.zero_copy,
        refused=talked.refused,
    )
    bins = (
        DistributionRow(number, quantity, from_ns, to_ns, packets)
        for quantity in QUANTITIES
        for from_ns, to_ns, packets in found.distribution(quantity)
    )
    # Of the search only its figures are kept.
    return EndpointAttempt(row, () if purpose != "compare" else tuple(bins))
