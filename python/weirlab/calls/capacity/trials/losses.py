"""Lost packets: which departed while the host disturbed a trial, and where a device begins to drop; pure.

A trial with calls is judged as a whole, since a call is heard from its beginning to its end. What the
scheduler counted in each bin is known all the same (:mod:`weirlab.measure.windows`), so lost packets can be
told apart by the bin that they departed in. That is no proof that the host lost them: an overloaded device
drops packets in disturbed bins too. What is lost in the other bins is the device's own doing, as far as the
host can be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from weirlab.calls.capacity.trials.rows import CapacityRow, DisturbanceCounts
from weirlab.lab.monitoring.view import InsideView
from weirlab.measure import windows
from weirlab.measure.windows import OTHERS, WAITED, HostDisturbance
from weirlab.records import EngineResult, HostSample

_LOOKS_NS: Final = 5_000_000
"""Longest time for which the agent inside the device reads counters, its turns of some 3 ms included."""


@dataclass(frozen=True)
class CallLoss:
    """The packets of all valid trials with the same number of calls at one position.

    ``disturbed_sent`` and ``disturbed_lost`` are those of the disturbed bins; None where the host was not
    looked at in some of the trials.
    """

    position: int
    calls: int
    trials: int
    sent: int
    lost: int
    disturbed_sent: int | None
    disturbed_lost: int | None

    @property
    def disturbed_share(self) -> float:
        """Share of the lost packets that departed in disturbed bins; NaN where not known or none was lost."""
        if self.disturbed_lost is None or not self.lost:
            return math.nan
        return self.disturbed_lost / self.lost

    @property
    def rest_ratio(self) -> float:
        """Loss ratio in the other bins; NaN where not known, or there are none."""
        if self.disturbed_lost is None or self.disturbed_sent is None or self.sent <= self.disturbed_sent:
            return math.nan
        return (self.lost - self.disturbed_lost) / (self.sent - self.disturbed_sent)

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "disturbed_share": self.disturbed_share,
            "rest_loss_ratio": self.rest_ratio,
        }


def disturbed(
    result: EngineResult, host: HostSample, inside: InsideView | None = None
) -> DisturbanceCounts | None:
    """What departed while the host disturbed this trial; None where that is not known.

    What the device waited while its own monitoring (``inside``) looked around counts as the device's, so a
    disturbance by somebody else at that very moment is missed. Nothing is said beside a management session,
    whose moments are not known.
    """
    if result.windows is None or result.windows.looks is None:
        return None
    if host.management_s is not None and inside is None:
        return None
    found = [
        one
        for one in windows.disturbances(result)
        # Other work delays packets. They are lost only if the device also waits, which is counted by itself.
        if one.who != OTHERS and not _is_own(one, result, inside)
    ]
    bins = ~windows.kept_bins(result, windows.left_out(result, found))
    series = result.series
    sent, received = int(series.sent[bins].sum()), int(series.received[bins].sum())
    return DisturbanceCounts(
        disturbed_s=int(bins.sum()) * series.bin_ns / 1e9,
        disturbed_sent=sent,
        disturbed_lost=max(sent - received, 0),
    )


def losses(rows: Iterable[CapacityRow]) -> list[CallLoss]:
    """By position and number of calls, of the valid rows; in that order."""
    groups: dict[tuple[int, int], list[CapacityRow]] = {}
    for row in rows:
        if row.valid:
            groups.setdefault((row.position, row.calls), []).append(row)
    return [
        CallLoss(
            position,
            calls,
            len(lines),
            sum(line.sent for line in lines),
            sum(line.lost for line in lines),
            _total(line.disturbed_sent for line in lines),
            _total(line.disturbed_lost for line in lines),
        )
        for (position, calls), lines in sorted(groups.items())
    ]


def _is_own(one: HostDisturbance, result: EngineResult, inside: InsideView | None) -> bool:
    """Did the device wait for its own monitoring?"""
    if inside is None or one.who != WAITED:
        return False
    begin_ns, end_ns = one.begin_ns + result.record_start_ns, one.end_ns + result.record_start_ns
    return any(
        begin_ns < sample.taken_ns + _LOOKS_NS and sample.taken_ns < end_ns for sample in inside.samples
    )


def _total(values: Iterable[int | None]) -> int | None:
    """None where one is not known."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


@dataclass(frozen=True)
class DropThreshold:
    """At one position, the numbers of calls between which the device begins to drop.

    A number of calls is carried when most of its trials lost nothing. ``carried`` is None where not
    even the fewest are, ``dropped`` where all are.
    """

    position: int
    carried: int | None
    carried_pps: float | None
    dropped: int | None
    dropped_pps: float | None
    loss_ratio: float | None
    """Median loss at ``dropped``."""
    most: int
    """Most calls tried."""


def dropping(rows: Iterable[CapacityRow], loss_ratio: float = 0.0) -> list[DropThreshold]:
    """Per position what the valid rows of a sweep show; loss up to ``loss_ratio`` counts as none."""
    by_position: dict[int, dict[int, list[CapacityRow]]] = {}
    for row in rows:
        if row.phase == "sweep" and row.valid:
            by_position.setdefault(row.position, {}).setdefault(row.calls, []).append(row)
    return [_at(position, counts, loss_ratio) for position, counts in sorted(by_position.items())]


def _at(position: int, counts: Mapping[int, list[CapacityRow]], tolerated: float) -> DropThreshold:
    ordered = sorted(counts)
    dropped = next(
        (count for count in ordered if median(row.loss_ratio for row in counts[count]) > tolerated), None
    )
    below = [count for count in ordered if dropped is None or count < dropped]
    carried = below[-1] if below else None
    return DropThreshold(
        position,
        carried,
        None if carried is None else _pps(counts[carried]),
        dropped,
        None if dropped is None else _pps(counts[dropped]),
        None if dropped is None else float(median(row.loss_ratio for row in counts[dropped])),
        ordered[-1],
    )


def _pps(rows: list[CapacityRow]) -> float:
    return float(median(row.offered_pps for row in rows))
