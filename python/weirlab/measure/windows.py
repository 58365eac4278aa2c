"""Which bins of a trial the host disturbed, and what the trial says without them.

Bins are chosen only by what the host did: how long the device waited for its CPU, what else ran there,
what the hypervisor stole, how late the sender was. Delay and loss play no part, so leaving bins out
cannot flatter the device. The bins after a disturbance are left out too until the queue is as it was:
work of ``w`` that piled up while the CPU was away is done after ``w * u / (1 - u)``, ``u`` being the
share of time for which the device works (a queue that empties at rate ``1 - u``; ``docs/engine.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.quantities import duration
from weirlab.records import BinDetails, BinSpan, EngineResult, Histogram, SchedulerCounters, WholeTrialResult

Mask = npt.NDArray[np.bool_]

LATE: Final = "the sender was late by"
HELD_UP: Final = "the sender sent hardly anything for"
WAITED: Final = "the device waited"
OTHERS: Final = "other work ran on the device's CPU for"
_DEVICES: Final = "the host took the device's CPU for"
_SENDERS: Final = "the host took the sender's CPU for"

CATCH_UP: Final = 16
"""A sender that is behind needs this many times its delay to make up for it: its gaps are shorter by one
part in so many (``WEIR_RECOVERY_SHIFT`` in ``bpf/weir.h``)."""

_INSIDE_NS: Final = 5_000_000
"""Longest time for which the agent inside the device reads counters, its turns of some 3 ms included."""

SCHEDULER_TICK_NS: Final = 10_000_000
"""A running CPU updates the scheduler's clock at least this often (HZ of 100 or more)."""


@dataclass(frozen=True)
class Tolerance:
    """The size from which a disturbance spoils the bins that it touches; times in ns."""

    wait_ns: float = 50_000.0
    """Waiting of the device in one bin, beyond what is usual in this trial: a thread that is woken
    always waits for a moment."""

    others_ratio: float = 0.025
    """Share of a bin for which other work runs on the device's CPU, beyond what is usual in this trial: in a
    bin of 2 ms, one of 20 glances. The device has priority, but takes some 15 µs longer to wake when the CPU
    is not idle."""

    stolen_ns: float = 50_000.0
    """Time that the hypervisor took from a CPU."""

    late_ratio: float = 0.2
    """Lateness of the sender, as a share of the bin. The sender makes up for less
    (``Plan::slip_most_ns`` of the engine)."""

    unpaced_ratio: float = 0.25
    """Packets in a bin, relative to the busiest bins, below which a sender that sends as fast as possible was
    held up: what it sends does not depend on the device."""

    busy: float = 0.95
    """Share of the time at work from which a device cannot be told from one in overload, whose queue is full
    again as soon as it works."""


TOLERANCE: Final = Tolerance()


@dataclass(frozen=True)
class HostDisturbance:
    """Something that the host did; times from the start of recording, in ns."""

    begin_ns: float
    end_ns: float
    lasted_ns: float
    who: str
    behind_ns: float = 0.0
    """How far the sender was then behind its schedule, in all."""

    @property
    def why(self) -> str:
        return f"{self.who} {duration(self.lasted_ns)}"


def disturbances(
    result: EngineResult,
    *,
    waited_ns: float | None = None,
    inside_ns: Sequence[int] = (),
    unpaced: bool = False,
    tolerance: Tolerance = TOLERANCE,
) -> list[HostDisturbance]:
    """What the host did to a windowed trial, after-effects included.

    Parameters
    ----------
    waited_ns:
        How long the device waited in all, from before the trial until after it. The part that the
        sender did not see came after its last look. None if that is not known.
    inside_ns:
        When the device's own monitoring looked around. What the device waited then, and what else ran there,
        is the device's own doing, so a disturbance by somebody else at that very moment is missed.
    unpaced:
        Whether packets were sent as fast as possible. Such a sender is never late, but it may be held up.

    Raises
    ------
    ValueError
        The host was not observed during this trial.
    """
    windows = result.windows
    if windows is None or windows.looks is None:
        raise ValueError("this trial has no windows to choose from")
    looks = _SchedulerIntervals.of(windows.looks, result.record_start_ns)
    found = [
        *_waits(looks, waited_ns, tolerance),
        *_others(result, windows, tolerance),
        *_stolen(looks, tolerance),
        *_late(result, windows, tolerance),
        *(_held_up(result, tolerance) if unpaced else ()),
    ]
    return [
        _with_after_effects(one, looks, tolerance) for one in found if not _is_own(one, result, inside_ns)
    ]


def stolen_ns(result: EngineResult, begin_ns: float, end_ns: float) -> float | None:
    """What the hypervisor took from the sender's CPU or the device's, whichever lost more, between two times
    from the start of recording; what may have been taken earlier or later counts in full. None if the host
    was not observed during this trial."""
    if result.windows is None or result.windows.looks is None:
        return None
    seen = _SchedulerIntervals.of(result.windows.looks, result.record_start_ns)
    taken = {_SENDERS: 0.0, _DEVICES: 0.0}
    for one in _stolen(seen, replace(TOLERANCE, stolen_ns=0.0)):
        if one.begin_ns < end_ns and one.end_ns > begin_ns:
            taken[one.who] += one.lasted_ns
    return max(taken.values())


def left_out(result: EngineResult, found: list[HostDisturbance]) -> tuple[BinSpan, ...]:
    """The bins that ``found`` touches, neighbours with the same reason as one span; in order."""
    bin_ns, n_bins = result.series.bin_ns, len(result.series.sent)
    length_ns = result.record_end_ns - result.record_start_ns
    why: list[str | None] = [None] * n_bins
    # If several touch a bin, the longest one gives the reason.
    for one in sorted(found, key=lambda one: one.lasted_ns):
        first = int(max(one.begin_ns, 0.0) // bin_ns)
        last = int(min(one.end_ns, length_ns - 1) // bin_ns)
        why[first : last + 1] = [one.why] * max(last + 1 - first, 0)
    spans: list[BinSpan] = []
    for i, reason in enumerate(why):
        if reason is None:
            continue
        begin, end = i * bin_ns, min((i + 1) * bin_ns, length_ns)
        if spans and spans[-1].end_ns == begin and spans[-1].why == reason:
            spans[-1] = replace(spans[-1], end_ns=end)
        else:
            spans.append(BinSpan(begin, end, reason))
    return tuple(spans)


def without(result: EngineResult, spans: tuple[BinSpan, ...]) -> EngineResult:
    """``result`` recomputed from its other bins; the series and the flows stay complete.

    Raises
    ------
    ValueError
        The trial has no windows.
    """
    windows, series = result.windows, result.series
    if windows is None:
        raise ValueError("this trial has no windows to leave out")
    kept = kept_bins(result, spans)
    sent, received = int(series.sent[kept].sum()), int(series.received[kept].sum())
    arrived = kept & (series.received > 0)
    pairs = kept & _kept_before(kept, _lag(result))
    ipdv_count = int(windows.ipdv_count[pairs].sum())
    nan = float("nan")
    delay_min_ns = float(windows.delay_min_ns[arrived].min()) if received else nan
    delay_max_ns = float(series.delay_max_ns[arrived].max()) if received else nan
    return replace(
        result,
        sent=sent,
        received=received,
        lost=sent - received,
        delay_min_ns=delay_min_ns,
        delay_mean_ns=float(windows.delay_sum_ns[kept].sum()) / received if received else nan,
        delay_max_ns=delay_max_ns,
        jitter_ns=float(windows.ipdv_sum_ns[pairs].sum()) / ipdv_count if ipdv_count else nan,
        late_max_ns=int(windows.late_max_ns[kept].max()) if kept.any() else 0,
        histogram=_histogram(windows, kept).within(delay_min_ns, delay_max_ns),
        left_out=spans,
    )


def kept_bins(result: EngineResult, spans: tuple[BinSpan, ...]) -> Mask:
    """Which bins count, shape (bins,)."""
    bin_ns = result.series.bin_ns
    kept = np.ones(len(result.series.sent), np.bool_)
    for span in spans:
        kept[span.begin_ns // bin_ns : -(-span.end_ns // bin_ns)] = False
    return kept


def summary(result: EngineResult) -> WholeTrialResult:
    """What is kept of the full result beside the one without some of its bins."""
    return WholeTrialResult(
        result.sent, result.received, result.delay_mean_ns, result.histogram.quantile_ns(0.99)
    )


@dataclass(frozen=True)
class _SchedulerIntervals:
    """The looks that were taken, times from the start of recording; ``n`` looks, ``n - 1`` intervals."""

    at_ns: npt.NDArray[np.float64]
    waited_ns: npt.NDArray[np.float64]
    """In each interval, because of anything but the device itself."""
    busy: float
    """Share of the time for which the device worked."""
    sender_stolen_ns: npt.NDArray[np.float64]
    device_stolen_ns: npt.NDArray[np.float64]
    fresh: Mask
    """Whether the scheduler's clock on the device's CPU advanced in an interval."""

    @classmethod
    def of(cls, looks: SchedulerCounters, start_ns: int) -> _SchedulerIntervals:
        seen = looks.at_ns > 0
        at_ns = looks.at_ns[seen].astype(np.float64) - start_ns
        ran, waited = (_steps(values[seen]) for values in (looks.ran_ns, looks.waited_ns))
        # Threads that share a CPU wait for one another, which is the device's own doing.
        others = ran.sum(axis=1, keepdims=True) - ran
        total_ns = float(at_ns[-1] - at_ns[0]) if len(at_ns) > 1 else 0.0
        return cls(
            at_ns,
            np.clip(waited - others, 0.0, None).sum(axis=1),
            float(ran.sum()) / total_ns if total_ns > 0 else 0.0,
            _steps(looks.sender_stolen_ns[seen]),
            _steps(looks.device_stolen_ns[seen]),
            _steps(looks.device_clock_ns[seen]) > 0,
        )


def _steps(counted: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    return np.diff(counted.astype(np.float64), axis=0)


def _waits(
    seen: _SchedulerIntervals, waited_ns: float | None, tolerance: Tolerance
) -> Iterator[HostDisturbance]:
    lasts_ns = np.diff(seen.at_ns)
    if len(lasts_ns) == 0:
        return
    usual = float(np.median(seen.waited_ns / np.maximum(lasts_ns, 1.0)))
    beyond_ns = seen.waited_ns - usual * lasts_ns
    for i in np.flatnonzero(beyond_ns > tolerance.wait_ns):
        # A wait is counted when it ends.
        begin_ns = seen.at_ns[i] - seen.waited_ns[i]
        yield HostDisturbance(begin_ns, seen.at_ns[i + 1], float(seen.waited_ns[i]), WAITED)
    unseen_ns = 0.0 if waited_ns is None else waited_ns - float(seen.waited_ns.sum())
    if unseen_ns > tolerance.wait_ns + usual * SCHEDULER_TICK_NS:
        yield HostDisturbance(seen.at_ns[-1] - unseen_ns, math.inf, unseen_ns, WAITED)


def _others(result: EngineResult, windows: BinDetails, tolerance: Tolerance) -> Iterator[HostDisturbance]:
    if not windows.glances.any():
        return
    bin_ns = result.series.bin_ns
    share = windows.others / np.maximum(windows.glances, 1)
    usual = float(np.median(share[windows.glances > 0]))
    for i in np.flatnonzero(share - usual > tolerance.others_ratio):
        begin_ns = float(i * bin_ns)
        yield HostDisturbance(begin_ns, begin_ns + bin_ns - 1, float(share[i]) * bin_ns, OTHERS)


def _stolen(seen: _SchedulerIntervals, tolerance: Tolerance) -> Iterator[HostDisturbance]:
    for i in np.flatnonzero(seen.device_stolen_ns > tolerance.stolen_ns):
        # It was taken after the clock had last advanced.
        known = np.flatnonzero(seen.fresh[:i])
        begin_ns = seen.at_ns[known[-1]] if len(known) else -math.inf
        stolen_ns = float(seen.device_stolen_ns[i])
        yield HostDisturbance(begin_ns, seen.at_ns[i + 1], stolen_ns, _DEVICES)
    for i in np.flatnonzero(seen.sender_stolen_ns > tolerance.stolen_ns):
        begin_ns = seen.at_ns[i] - SCHEDULER_TICK_NS
        stolen_ns = float(seen.sender_stolen_ns[i])
        yield HostDisturbance(begin_ns, seen.at_ns[i + 1], stolen_ns, _SENDERS)


def _is_own(one: HostDisturbance, result: EngineResult, inside_ns: Sequence[int]) -> bool:
    """Whether the device's own monitoring explains it."""
    if one.who not in (WAITED, OTHERS):
        return False
    begin_ns, end_ns = one.begin_ns + result.record_start_ns, one.end_ns + result.record_start_ns
    return any(begin_ns < taken_ns + _INSIDE_NS and taken_ns < end_ns for taken_ns in inside_ns)


def _late(result: EngineResult, windows: BinDetails, tolerance: Tolerance) -> Iterator[HostDisturbance]:
    bin_ns = result.series.bin_ns
    # Calls keep their schedule, however far behind it the sender is (``Plan::slip_most_ns``).
    most_ns = tolerance.late_ratio * bin_ns if result.packets is None else math.inf
    caught_up_ns = 0.0
    for i in np.flatnonzero(windows.late_max_ns > tolerance.late_ratio * bin_ns):
        late_ns, begin_ns = float(windows.late_max_ns[i]), float(i * bin_ns)
        end_ns = begin_ns + bin_ns - 1
        left_ns = max(caught_up_ns - end_ns, 0.0) / CATCH_UP
        behind_ns = min(left_ns + late_ns, most_ns)
        caught_up_ns = end_ns + CATCH_UP * behind_ns
        yield HostDisturbance(begin_ns - late_ns, end_ns, late_ns, LATE, behind_ns)


def _held_up(result: EngineResult, tolerance: Tolerance) -> Iterator[HostDisturbance]:
    """Neighbouring bins in which a sender without a schedule sent far less than in its busiest tenth."""
    bin_ns, sent = result.series.bin_ns, result.series.sent
    whole = sent[: (result.record_end_ns - result.record_start_ns) // bin_ns]
    if not len(whole):
        return
    held = whole < tolerance.unpaced_ratio * np.quantile(whole, 0.9)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8)))
    for first, end in edges.reshape(-1, 2):
        yield HostDisturbance(first * bin_ns, end * bin_ns - 1, (end - first) * bin_ns, HELD_UP)


def _with_after_effects(
    one: HostDisturbance, seen: _SchedulerIntervals, tolerance: Tolerance
) -> HostDisturbance:
    if seen.busy >= tolerance.busy or one.who == OTHERS:
        # A full queue is full again at once, and other work gives way as soon as a packet comes.
        lasts_ns = 0.0
    elif one.who == LATE:
        lasts_ns = CATCH_UP * one.behind_ns
    else:
        lasts_ns = one.lasted_ns * seen.busy / (1.0 - seen.busy)
    return replace(one, end_ns=one.end_ns + lasts_ns)


def _lag(result: EngineResult) -> int:
    """How many bins back the predecessor of a packet in its flow may lie."""
    rate = result.sent / (result.record_end_ns - result.record_start_ns)
    between_ns = len(result.flows.sent) / rate if rate > 0 else 0.0
    return 1 + int(between_ns // result.series.bin_ns)


def _kept_before(kept: Mask, lag: int) -> Mask:
    """Whether the ``lag`` bins before each one are kept; before the first there is nothing to spoil."""
    before = np.ones(len(kept), np.bool_)
    for back in range(1, min(lag, len(kept)) + 1):
        before[back:] &= kept[:-back]
    return before


def _histogram(windows: BinDetails, kept: Mask) -> Histogram:
    sizes = np.diff(windows.end, prepend=0)
    counted = np.repeat(kept, sizes.astype(np.int64))
    lower_ns, where = np.unique(windows.lower_ns[counted], return_inverse=True)
    upper_ns = np.zeros(len(lower_ns), np.uint64)
    upper_ns[where] = windows.upper_ns[counted]
    count = np.zeros(len(lower_ns), np.uint64)
    np.add.at(count, where, windows.count[counted])
    return Histogram(lower_ns, upper_ns, count)
