"""Where a sweep shows that a device begins to drop; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from weirlab.calls.capacity.trials.columns import CapacityRow


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
