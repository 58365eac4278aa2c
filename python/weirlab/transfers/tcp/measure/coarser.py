"""Joins frequent reports of a transfer into the longer intervals that are shown; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from weirlab.transfers.tcp.results import Direction, Interval, joined_latency

_SLACK: float = 1e-9


class IntervalMerger:
    """Takes intervals in order; yields longer ones of about ``period_s`` by direction, or all if it is 0."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._parts: dict[Direction, list[Interval]] = {}

    def take(self, interval: Interval) -> Iterator[Interval]:
        """Take one more; yield the interval that it completes, if any."""
        if not self._period_s:
            yield interval
            return
        parts = self._parts.setdefault(interval.direction, [])
        parts.append(interval)
        # An interval ends at a multiple of the period, or just after it, so that no drift adds up.
        if interval.to_s // self._period_s > (parts[0].from_s + _SLACK) // self._period_s:
            yield self._joined(interval.direction)

    def rest(self) -> Iterator[Interval]:
        """Yield what is left at the end."""
        yield from [self._joined(direction) for direction in tuple(self._parts)]

    def _joined(self, direction: Direction) -> Interval:
        return joined(self._parts.pop(direction))


def joined(parts: Sequence[Interval]) -> Interval:
    """Intervals of one direction, one after the other, as one."""
    if len(parts) == 1:
        return parts[0]
    retransmissions = [part.retransmissions for part in parts if part.retransmissions is not None]
    return replace(
        parts[-1],
        from_s=parts[0].from_s,
        received_bytes=sum(part.received_bytes for part in parts),
        sent_bytes=sum(part.sent_bytes for part in parts),
        retransmissions=sum(retransmissions) if retransmissions else None,
        latency=joined_latency([part.latency for part in parts if part.latency is not None]),
        connections=tuple(_rows(parts)),
    )


def _rows(parts: Sequence[Interval]) -> Iterator[dict[str, Any]]:
    """By connection: the kernel's last report, and the sum of the bytes."""
    received: dict[int, int] = {}
    for row in (row for part in parts for row in part.connections):
        received[row["connection"]] = received.get(row["connection"], 0) + row["received_bytes"]
    for row in parts[-1].connections:
        yield {**row, "received_bytes": received[row["connection"]]}
