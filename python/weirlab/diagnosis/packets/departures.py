"""When packets left their sender, by the sender's own clock in the time-stamp option (RFC 7323).

Away from the sender a capture shows when a packet passed. TSval shows when it left, to a tick. Its delay
beyond that of the least delayed packet was spent in queues before the point of capture.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.timeline import Floats

    Ints = NDArray[np.int64]

TICKS_NS: Final = (1e3, 1e6, 1e9 / 300, 4e6, 10e6)
"""Ticks of clocks in use: Linux since 6.7 with ``tcp_usec_ts``; Linux since 4.13, Windows and BSD; older
Linux by its HZ. Slower clocks are too coarse to show a queue.
"""
NEAR: Final = 0.08
"""A measured tick may differ from these by this share: a growing queue makes a clock seem slow."""
LEAST_TICKS: Final = 20
MOSTLY: Final = 0.9
"""Share of the packets that must have a time stamp; a RST may have none."""
DRIFT: Final = 2e-4
"""Two clocks drift no faster than this: a greater change is a queue that grows or shrinks."""
PARTS: Final = 64
"""Parts of the time; the least delay in each shows the drift."""


@dataclass(frozen=True)
class Departures:
    """By packet of the sender: when it left, in ns on the capture's axis, as if no queue had held it up.

    Accurate to ``tick_ns``, and never too early; exact if no queue held the packet up.
    """

    left_ns: Ints
    tick_ns: float

    def waited_ns(self, came_ns: Ints) -> Ints:
        """The time spent in queues before the point of capture."""
        return np.asarray(np.maximum(came_ns - self.left_ns, 0))


def departures(came_ns: Ints, tsval: Floats) -> Departures | None:
    """Read the sender's clock.

    Parameters
    ----------
    came_ns
        When each packet of the sender was captured.
    tsval
        TSval as sent, 32 bits; NaN without the option.

    Returns
    -------
    Departures or None
        None without time stamps, or if their clock is unknown.
    """
    there = np.flatnonzero(np.isfinite(tsval))
    if len(there) < max(LEAST_TICKS, MOSTLY * len(tsval)):
        return None
    came = came_ns[there]
    ticks = _carried_on(tsval[there])
    tick_ns = _tick(came, ticks)
    if tick_ns is None:
        return None
    since = (came - came[0]).astype(np.float64)
    left = ticks * tick_ns
    late = since - left
    drifted = _drift(since, late) * since
    # A packet that leaves right after a tick seems the least delayed.
    earliest = left + drifted + float((late - drifted).min())
    left_ns = came_ns.copy()
    left_ns[there] = np.rint(np.minimum(since, earliest + tick_ns)).astype(np.int64) + came[0]
    return Departures(left_ns, tick_ns)


def _carried_on(tsval: Floats) -> Floats:
    """TSval continued beyond 32 bits, from 0; for packets that were overtaken it goes back."""
    whole = tsval.astype(np.int64)
    steps = np.concatenate([[0], whole[1:] - whole[:-1]])
    return np.cumsum(np.mod(steps + (1 << 31), 1 << 32) - (1 << 31)).astype(np.float64)


def _tick(came_ns: Ints, ticks: Floats) -> float | None:
    first, last = int(np.argmin(ticks)), int(np.argmax(ticks))
    grown = ticks[last] - ticks[first]
    if grown < LEAST_TICKS:
        return None
    measured = float(came_ns[last] - came_ns[first]) / grown
    nearest = min(TICKS_NS, key=lambda each: abs(measured / each - 1))
    return nearest if abs(measured / nearest - 1) <= NEAR else None


def _drift(since: Floats, late: Floats) -> float:
    """How much faster the capture's clock is, by the lower edge of the delays (Moon et al., INFOCOM 1999)."""
    whole = float(since.max())
    part = np.minimum((since * (PARTS / max(whole, 1.0))).astype(np.int64), PARTS - 1)
    order = np.lexsort((late, part))
    least = order[np.unique(part[order], return_index=True)[1]]
    edge: list[int] = []
    for at in least[np.argsort(since[least], kind="stable")]:
        while len(edge) > 1 and not _turns_left(since, late, edge[-2], edge[-1], int(at)):
            edge.pop()
        edge.append(int(at))
    over = [(one, other) for one, other in itertools.pairwise(edge) if since[other] >= whole / 2]
    if not over or since[over[0][1]] <= since[over[0][0]]:
        return 0.0
    one, other = over[0]
    slope = float((late[other] - late[one]) / (since[other] - since[one]))
    return slope if abs(slope) <= DRIFT else 0.0


def _turns_left(x: Floats, y: Floats, one: int, two: int, three: int) -> bool:
    return bool((x[two] - x[one]) * (y[three] - y[one]) > (y[two] - y[one]) * (x[three] - x[one]))
