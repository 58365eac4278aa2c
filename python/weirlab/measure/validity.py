"""Whether a trial shows the device, or a disturbance by the host.

Loss and delay of a disturbed trial say nothing about the device. Each limit in
:class:`ValidityLimits` says what is checked and why the limit is where it is. ``store/states.py`` takes a
verdict back when a run is read, if the host was in another state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.base.quantities import duration, percent
from weirlab.measure import windows
from weirlab.records import (
    REFUSED,
    SLOWEST_UNPACED_PPS,
    TABLE_FULL,
    EngineResult,
    HostSample,
    Series,
    WholeTrialResult,
)

ROLES: Final = ("sender", "dut")


CHANGED_RATIO: Final = 0.5
"""Foreign frames, as a share of those sent, that are likely those sent."""

OPEN_RATIO: Final = 0.99
"""Share of the known flows that connection tracking has to know."""


@dataclass(frozen=True)
class ValidityLimits:
    """The limits beyond which the host has spoiled a trial."""

    steal_ratio: float = 0.01
    """Share of the trial's wall time that may be stolen from the sender's or the device's CPU."""

    steal_ticks: int = 2
    """Ticks of stolen time that are allowed at any length of the trial, unless they show in the result.

    /proc/stat counts in ticks: a difference of n ticks stands for more than n - 1 and less
    than n + 1 ticks of real time. A single one may be next to nothing, and by the ratio
    alone a trial of half a second would be thrown away for it.
    Stolen time below the limit still spoils a trial when a stall shows in its time
    series: see ``stall_ns`` and ``stall_loss_ratio``.
    """

    tick_s: float = 0.01
    """The unit of /proc/stat (USER_HZ is 100 on every architecture that Linux runs on today)."""

    stall_ns: int = 1_000_000
    """A bin of the time series shows a stall when its largest delay exceeds three times the typical
    delay by this much. Shorter ones cannot be told from an idle CPU that wakes up."""

    stall_loss_ratio: float = 0.05
    """A bin shows a stall when it lost this much more (as a share of its packets) than the typical bin."""

    stall_bins_ratio: float = 0.2
    """Stalls in more than this share of the bins (and in more than four) are the device's own behaviour,
    not a momentary disturbance by the host."""

    late_ratio: float = 0.01
    """Share of the recorded window by which the sender may have fallen behind its schedule in all."""

    pacing_ratio: float = 0.01
    """How far the achieved load may be off nominal. Only for paced loads."""

    wait_ratio: float = 0.01
    """Share of the trial for which the device may wait while something else has its CPU."""

    wait_s: float = 0.0003
    """Time for which it may wait in any trial."""

    overload_wait_ratio: float = 0.01
    """The same share in overload, where waiting costs the device at most this share of its throughput."""

    overload_loss: float = 0.05
    """Loss ratio above which ``overload_wait_ratio`` applies."""

    handover_ratio: float = 1.3
    """By how much the time for a cache line to pass between the CPUs may change during a trial. A
    hypervisor that moves a virtual CPU changes it several times over, and the device's speed with it."""

    left_out_ratio: float = 0.5
    """Share of a trial that may be left out because the host disturbed it, where that is known bin by
    bin (:mod:`weirlab.measure.windows`). With 0, a trial is judged as a whole."""

    receiver_drops: int = 0
    """Frames that may be dropped behind the device, where the receiver should have counted them, in a
    trial that reports loss. In a trial without loss they cannot have been probes."""


DEFAULT_LIMITS: Final = ValidityLimits()

CAREFUL_LIMITS: Final = ValidityLimits(wait_ratio=0.001)
"""For trials that a model is fitted to or checked against: below the threshold a wait of one
millisecond in a trial of a third of a second doubles the mean delay."""


@dataclass(frozen=True)
class CleanResult:
    """A result without what the host disturbed, as far as that is known, and the reasons against it."""

    result: EngineResult
    invalid: tuple[str, ...]
    """Reasons; empty for a valid trial."""
    disturbed: WholeTrialResult | None = None
    """The result with the bins that were left out, if any were."""


def sift(
    result: EngineResult,
    host: HostSample,
    offered_pps: float,
    limits: ValidityLimits = DEFAULT_LIMITS,
    *,
    counters: Mapping[str, int] | None = None,
    regular: bool = True,
    works: bool = False,
) -> CleanResult:
    """Leave out what the host disturbed and judge the rest, if that is known bin by bin; otherwise judge
    the whole trial. Calls are judged as a whole as well if too little is left: their bins are long, and a
    short wait costs all of one. Parameters as of :func:`judge`; an invalid trial is kept as it was."""

    def whole() -> CleanResult:
        return CleanResult(
            result, judge(result, host, offered_pps, limits, counters=counters, regular=regular, works=works)
        )

    if not (is_windowed(result, host) and limits.left_out_ratio > 0):
        return whole()
    waited_ns = None if host.dut_wait_s is None else host.dut_wait_s * 1e9
    found = windows.disturbances(
        result, waited_ns=waited_ns, inside_ns=host.inside_ns or (), unpaced=not math.isfinite(offered_pps)
    )
    rest = windows.without(result, windows.left_out(result, found))
    too_much = tuple(_too_much_left_out(rest, limits))
    if too_much and result.packets is not None and host.dut_wait_s is not None:
        # What the device waited is known in all, and limited by :func:`judge`.
        serious = [one for one in found if one.who not in (windows.WAITED, windows.OTHERS)]
        others = windows.without(result, windows.left_out(result, serious))
        if not tuple(_too_much_left_out(others, limits)):
            return whole()
    reasons = (
        *_nothing(result if rest.sent or too_much else rest, works),
        *too_much,
        *_moved(host, limits),
        # Calls come, go and pause: their load is known only over the whole trial.
        *_off_nominal(rest if result.packets is None else result, offered_pps, limits, regular),
        *_dropped(rest, host, counters or {}, limits),
        *_unknown(result, counters or {}),
    )
    if reasons or not rest.left_out:
        return CleanResult(result, reasons)
    return CleanResult(rest, (), windows.summary(result))


def judge(
    result: EngineResult,
    host: HostSample,
    offered_pps: float,
    limits: ValidityLimits = DEFAULT_LIMITS,
    *,
    counters: Mapping[str, int] | None = None,
    regular: bool = True,
    works: bool = False,
) -> tuple[str, ...]:
    """The reasons why a trial as a whole is invalid; empty for a valid one.

    Parameters
    ----------
    host, counters:
        What the host and the device's interfaces counted during this trial (differences).
    offered_pps:
        Nominal load over the recorded window; infinite for "as fast as possible".
    regular:
        Whether the gaps between packets are all alike. Random gaps make the number of
        packets in a window vary without the sender being late.
    works:
        Whether the device is known to forward packets at a lower load, so that it may lose all of these.
    """
    reasons = [
        *_nothing(result, works),
        *_stolen(result, host, limits),
        *_waited(result, host, limits),
        *_moved(host, limits),
        *(_late(result, offered_pps, limits) or _off_nominal(result, offered_pps, limits, regular)),
        *_dropped(result, host, counters or {}, limits),
        *_unknown(result, counters or {}),
    ]
    return tuple(reasons)


def _unknown(result: EngineResult, counters: Mapping[str, int]) -> Iterator[str]:
    """Flows that the device should know and does not, connections that it had to forget, and frames that
    never left."""
    answers = result.answers
    if answers is not None and answers.open_flows < OPEN_RATIO * answers.known_flows:
        yield (
            f"only {answers.open_flows:,} of {answers.known_flows:,} known flows were opened: "
            "too much was lost before the load began, or a longer --warmup is needed"
        )
    if refused := counters.get(REFUSED):
        yield f"the sending port refused {refused:,} frames, which the device never saw; lower the load"
    if result.moved:
        yield (
            f"{result.moved:,} packets came in another receive queue than the one before them in their flow, "
            "which makes counts of flows unsure: let nothing change the port's table of queues (ethtool -x), "
            "or receive in one queue (ethtool -L PORT combined 1)"
        )
    if full := counters.get(TABLE_FULL):
        yield (
            f"the kernel's table of connections was full: {full:,} were dropped; lower --new or the load, or "
            "sysctl -w net.netfilter.nf_conntrack_max=2000000"
        )


def is_windowed(result: EngineResult, host: HostSample) -> bool:
    """Whether bins can be judged one by one. The work of a management session belongs to the device, and
    waiting for it cannot be told from waiting for others, unless it is monitoring whose moments are known."""
    looked = result.windows is not None and result.windows.looks is not None
    return looked and (host.management_s is None or host.inside_ns is not None)


def _too_much_left_out(result: EngineResult, limits: ValidityLimits) -> Iterator[str]:
    if result.left_out_ratio > limits.left_out_ratio:
        most = max(result.left_out, key=lambda span: span.end_ns - span.begin_ns)
        yield (
            f"too much disturbed by the host: {percent(result.left_out_ratio)} of the trial "
            f"(at most {percent(limits.left_out_ratio)}), longest where {most.why}"
        )


def stalls(series: Series, limits: ValidityLimits = DEFAULT_LIMITS) -> int:
    """Number of bins that stick out as if a CPU had been away; 0 if most bins do."""
    used = series.sent > 0
    bins = int(used.sum())
    if bins == 0:
        return 0
    sent = series.sent[used].astype(np.float64)
    received = series.received[used].astype(np.float64)
    loss = np.clip(1 - received / sent, 0, None)
    hit = loss > np.median(loss) + limits.stall_loss_ratio
    mean, longest = series.delay_mean_ns[used], series.delay_max_ns[used]
    known = np.isfinite(mean) & np.isfinite(longest)
    if known.any():
        hit[known] |= longest[known] > 3 * float(np.median(mean[known])) + limits.stall_ns
    found = int(hit.sum())
    return found if found <= max(4, limits.stall_bins_ratio * bins) else 0


def _nothing(result: EngineResult, works: bool) -> Iterator[str]:
    if result.sent == 0:
        yield "the sender sent nothing in the recorded window"
    elif result.received == 0 and not works:
        changed = f" (but {result.stray:,} other frames: the device changes those of the test)"
        is_changed = result.stray >= CHANGED_RATIO * result.sent
        yield f"nothing arrived at the receiver{changed if is_changed else ''}"


def _stolen(result: EngineResult, host: HostSample, limits: ValidityLimits) -> Iterator[str]:
    limit_s = max(limits.steal_ratio * host.wall_s, limits.steal_ticks * limits.tick_s)
    for role in ROLES:
        stolen_s = host.cpu_s.get(role, {}).get("steal", 0.0)
        # Differences of ticks in floating point: half a tick decides.
        if stolen_s < limits.tick_s / 2:
            continue
        told = f"{stolen_s * 1e3:.0f} ms stolen from the {role}'s CPU"
        if stolen_s > limit_s + limits.tick_s / 2:
            yield f"{told} (at most {limit_s * 1e3:.0f} ms)"
        elif found := stalls(result.series, limits):
            yield f"{told}, and {found} of {len(result.series.sent)} bins show a stall"


def _waited(result: EngineResult, host: HostSample, limits: ValidityLimits) -> Iterator[str]:
    """Waiting that a management session cannot account for.

    While a session is open, its work belongs to the device: the device waits for it at most
    as long as it had the CPU, so only waiting beyond that has another cause.
    """
    if host.dut_wait_s is None:
        return
    ratio = limits.overload_wait_ratio if result.loss_ratio > limits.overload_loss else limits.wait_ratio
    limit_s = max(ratio * host.wall_s, limits.wait_s)
    waited_s = max(host.dut_wait_s - (host.management_s or 0.0), 0.0)
    if waited_s > limit_s:
        yield (
            f"other work had the device's CPU for {waited_s * 1e3:.2f} ms (at most {limit_s * 1e3:.2f} ms)"
        )


def _moved(host: HostSample, limits: ValidityLimits) -> Iterator[str]:
    if host.handover_ns is not None and host.handover_change > limits.handover_ratio:
        yield (
            f"the host moved the CPUs during the trial: the time between them changed by a factor of "
            f"{host.handover_change:.1f} (at most {limits.handover_ratio:g})"
        )


def _late(result: EngineResult, offered_pps: float, limits: ValidityLimits) -> tuple[str, ...]:
    """Lateness that the sender did not make up for, as one reason or none."""
    window_ns = result.record_end_ns - result.record_start_ns
    if not math.isfinite(offered_pps) or result.slipped_ns <= limits.late_ratio * window_ns:
        return ()
    return (
        f"sender late: {duration(result.slipped_ns)} behind its schedule in {duration(window_ns)} "
        f"(at most {percent(limits.late_ratio)})",
    )


def _off_nominal(
    result: EngineResult, offered_pps: float, limits: ValidityLimits, regular: bool
) -> Iterator[str]:
    if result.sent == 0:
        return
    if not math.isfinite(offered_pps):
        if result.backend == "xdp" and result.achieved_pps < SLOWEST_UNPACED_PPS:
            yield (
                f"sender held up: {result.achieved_pps:,.0f} pps as fast as possible, but it reaches more "
                f"than {SLOWEST_UNPACED_PPS:,} pps once its memory is backed by the host"
            )
        return
    expected = offered_pps * result.record_s
    # A stretch may cut off a packet at either end; n random arrivals scatter with sqrt(n).
    stretches = 1 + len(result.left_out)
    scatter = 0.0 if regular else 4 * math.sqrt(expected)
    tolerated = max(limits.pacing_ratio * expected, 2.0 * stretches, scatter)
    if abs(result.sent - expected) > tolerated:
        off = 100 * (result.achieved_pps / offered_pps - 1)
        yield (
            f"load off nominal: {result.achieved_pps:,.0f} pps achieved of {offered_pps:,.0f} pps "
            f"({off:+.1f} %, at most ±{percent(limits.pacing_ratio)})"
        )


def _dropped(
    result: EngineResult, host: HostSample, counters: Mapping[str, int], limits: ValidityLimits
) -> Iterator[str]:
    if result.lost <= 0:
        return
    behind = {
        # A veth counts a full ring of its peer, the receiver, as its own dropped transmission. Where
        # calls are answered, the sender's side receives as well.
        "out_tx_dropped": counters.get("out_tx_dropped", 0),
        "in_tx_dropped": counters.get("in_tx_dropped", 0),
        **{
            name: value
            for name, value in counters.items()
            if name.startswith(("rx_rx_", "tx_rx_")) and name.endswith(("dropped", "errors"))
        },
        "receiver_dropped": result.receiver_dropped,
        "softnet_dropped": host.softnet_dropped,
    }
    told = [f"{name} {value}" for name, value in behind.items() if value > 0]
    if sum(max(value, 0) for value in behind.values()) > limits.receiver_drops:
        yield f"frames dropped at the receiver: {', '.join(told)}"
