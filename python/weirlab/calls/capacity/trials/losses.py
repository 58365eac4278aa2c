"""Lost packets: which departed while the host disturbed a trial, and where a device begins to drop; pure.

What the host did in each bin is known (:mod:`weirlab.measure.windows`), so lost packets can be told apart
by the bin that they departed in. What is lost in the other bins is the device's own doing, as far as the host
can be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from weirlab.calls.capacity.trials.rows import CapacityRow, DisturbanceCounts
from weirlab.measure.validity import is_windowed
from weirlab.records import DividedLoss, TrialRecord


@dataclass(frozen=True)
class CallLoss(DividedLoss):
    """The packets of all valid trials with the same number of calls at one position.

    Nothing is known of disturbed bins where the host was not looked at in some of the trials.
    """

    position: int
    calls: int
    trials: int

    def to_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "calls": self.calls,
            "trials": self.trials,
            **vars(self),
            "disturbed_share": self.disturbed_share,
            "rest_loss_ratio": self.rest_ratio,
        }


def disturbed(record: TrialRecord) -> DisturbanceCounts | None:
    """What departed while the host disturbed a valid trial; None where that is not known."""
    if not (record.valid and is_windowed(record.result, record.host)):
        return None
    return DisturbanceCounts(
        disturbed_s=record.result.left_out_s,
        disturbed_sent=record.loss.disturbed_sent,
        disturbed_lost=record.loss.disturbed_lost,
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
            sent=sum(line.sent for line in lines),
            lost=sum(line.lost for line in lines),
            disturbed_sent=_total(line.disturbed_sent for line in lines),
            disturbed_lost=_total(line.disturbed_lost for line in lines),
        )
        for (position, calls), lines in sorted(groups.items())
    ]


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
