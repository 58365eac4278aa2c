"""Whether the pair alone shaped a switch, or the host disturbed it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from weirlab.base.quantities import duration, percent
from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.event import Occurrence
from weirlab.calls.failover.switches.plan import IN_FLIGHT_NS, Timing
from weirlab.calls.failover.switches.switch import SwitchMeasurement
from weirlab.measure.validity import ValidityLimits, judge
from weirlab.measure.windows import stolen_ns as stolen
from weirlab.quality.segments import owner
from weirlab.records import EngineResult, HostSample

PAIR_LIMITS: Final = ValidityLimits(wait_ratio=0.05, left_out_ratio=0.0)
"""The pair's daemons share the CPU of what they control: a device that waits for them waits for itself."""


@dataclass(frozen=True)
class SwitchLimits:
    """Limits beyond which something other than the pair has shaped a switch."""

    host: ValidityLimits = PAIR_LIMITS
    """For the trial as a whole, see :mod:`weirlab.measure.validity`."""
    steal_s: float = 0.03
    """Time that may be stolen from a CPU while the pair switches; in the whole trial if it is not known
    when it was stolen. Elsewhere in a trial as much as in any other with calls."""
    steal_ratio: float = 0.05
    """In a longer interruption, the same as a share of it."""
    cut_ratio: float = 0.1
    """Largest share of the protocol's time to notice a death that the death itself may take. Taking a link
    down waits for the kernel's RTNL lock, which others hold for seconds while namespaces come and go."""
    lost_before_ratio: float = 5e-3
    """Share of the packets before the event that may be lost: the pair is to carry the load. They do not
    count into what the event cost. A virtual machine that stands still for some milliseconds now and
    then loses 0.02 to 0.3 % at 100,000 packets per second."""
    late_ns: int = 5_000_000
    """How far a stream may fall behind its pace while the pair switches: what is not sent cannot be
    forwarded."""
    late_ratio: float = 0.05
    """In a longer interruption, the same as a share of it."""
    lost_after_ratio: float = 5e-3
    """Share of the packets that may be lost when all is over, of streams that survived."""


DEFAULT_SWITCH_LIMITS: Final = SwitchLimits()


def judge_switch(
    result: EngineResult,
    host: HostSample,
    offered_pps: float,
    found: Occurrence,
    switch: SwitchMeasurement,
    timing: Timing,
    limits: SwitchLimits = DEFAULT_SWITCH_LIMITS,
) -> tuple[str, ...]:
    """The reasons why a switch is invalid; empty for a valid one."""
    return (
        *_host(result, host, offered_pps, switch, limits),
        *_moved(found),
        *_cut(found, limits),
        *_before(switch, limits),
        *_after(switch, limits),
        *_late(switch, limits),
        *_ended(switch, found, timing),
    )


def _calm(result: EngineResult) -> EngineResult:
    """``result`` without its losses and bins: the event shapes both, and is judged by itself."""
    empty = result.series.sent[:0]
    none = np.empty(0)
    series = replace(result.series, sent=empty, received=empty, delay_mean_ns=none, delay_max_ns=none)
    return replace(result, series=series, lost=0)


def _host(
    result: EngineResult,
    host: HostSample,
    offered_pps: float,
    switch: SwitchMeasurement,
    limits: SwitchLimits,
) -> Iterator[str]:
    """In a long trial a stolen moment counts for little, unless it falls on the switch."""
    outage_ns = switch.outage_ns if math.isfinite(switch.outage_ns) else 0.0
    limit_s = max(limits.steal_s, limits.steal_ratio * outage_ns / NS_PER_S)
    at_ns = switch.event_ns - result.record_start_ns
    over_ns = switch.resumed_ns if math.isfinite(switch.resumed_ns) else math.inf
    stolen_ns = stolen(result, at_ns - IN_FLIGHT_NS, at_ns + over_ns + IN_FLIGHT_NS)
    of_trial = limits.host
    if stolen_ns is None:
        of_trial = replace(of_trial, steal_ratio=limit_s / max(host.wall_s, limit_s), steal_ticks=0)
    elif stolen_ns > limit_s * NS_PER_S:
        yield (
            f"{stolen_ns / 1e6:.0f} ms stolen from a CPU while the pair switched "
            f"(at most {limit_s * 1e3:.0f} ms)"
        )
    yield from judge(_calm(result), host, offered_pps, of_trial)


def _moved(found: Occurrence) -> Iterator[str]:
    """Without this check, a master that stays where it is would look like a switch that loses nothing."""
    if found.moves and found.all_moved_ns() is None:
        yield "nothing was switched: the other firewall did not get the addresses of both sides"


def _cut(found: Occurrence, limits: SwitchLimits) -> Iterator[str]:
    assert found.event is not None
    if found.kind != "hard" or not found.expected_s[0]:
        return
    limit_s = limits.cut_ratio * found.expected_s[0]
    took_s = found.sudden_ns / NS_PER_S
    if took_s > limit_s:
        yield (
            f"cutting the master off took {duration(took_s * 1e9)} (at most {duration(limit_s * 1e9)}, "
            f"{percent(limits.cut_ratio)} of what the protocol needs to notice)"
        )


def _before(switch: SwitchMeasurement, limits: SwitchLimits) -> Iterator[str]:
    earlier = int(switch.earlier.sum())
    if switch.lost_before > limits.lost_before_ratio * earlier:
        yield (
            f"{switch.lost_before:,} of {earlier:,} packets lost before anything happened "
            f"(at most {percent(limits.lost_before_ratio)})"
        )
    silent = int((~switch.gaps.begun).sum())
    if silent:
        yield f"{silent:,} of {len(switch.gaps.begun):,} streams were not heard before the event"


def _after(switch: SwitchMeasurement, limits: SwitchLimits) -> Iterator[str]:
    from_ns = switch.event_ns + switch.windows.after[0]
    survived = switch.gaps.survived[owner(switch.packets.start)]
    late = survived & (switch.packets.sent_ns >= from_ns) & (switch.packets.sent_ns < switch.end_ns)
    lost, sent = int((late & switch.packets.lost).sum()), int(late.sum())
    if lost > limits.lost_after_ratio * sent:
        yield (
            f"{lost:,} of {sent:,} packets lost after all was over "
            f"(at most {percent(limits.lost_after_ratio)})"
        )


def _late(switch: SwitchMeasurement, limits: SwitchLimits) -> Iterator[str]:
    outage = switch.outage_ns if math.isfinite(switch.outage_ns) else 0.0
    limit_ns = max(limits.late_ns, limits.late_ratio * outage)
    if switch.sender_late_ns > limit_ns:
        yield (
            f"sender late: a stream fell {duration(switch.sender_late_ns)} behind its pace while the pair "
            f"switched (at most {duration(limit_ns)})"
        )


def _ended(switch: SwitchMeasurement, found: Occurrence, timing: Timing) -> Iterator[str]:
    left_s = (switch.end_ns - switch.event_ns) / NS_PER_S
    needed_s = timing.needed_s(found.expected_s[1])
    if left_s < needed_s:
        yield f"the event came late: {left_s:.2f} s of the trial were left (at least {needed_s:.3g} s)"
