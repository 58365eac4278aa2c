"""What two sources report about the same connection, side by side: tables for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from weirlab.base.quantities import NOTHING
from weirlab.base.tables import Table
from weirlab.trace.quantities import count, duration, octets, size

if TYPE_CHECKING:
    from weirlab.transfers.tcp.study.columns import AgreementRow, CrossingRow

SECTIONS: Final[Mapping[str, str]] = {
    "all": "sender to receiver",
    "before": "sender to in between",
    "behind": "in between to receiver",
}
_SAID: Final[Mapping[str, Callable[[float], str]]] = {
    "segments": lambda value: count(round(value)),
    "bytes": lambda value: octets(round(value)),
    "us": lambda value: duration(value * 1e3),
}


def agreement(found: Sequence[AgreementRow], *, many: bool) -> Iterator[Table]:
    """The kernel and the captures side by side; nothing without a capture.

    ``many``: there is more than one connection, so rows carry its number.
    """
    rows = [
        [
            *([str(each.connection)] if many else []),
            each.quantity,
            _SAID[each.unit](each.kernel),
            _SAID[each.unit](each.capture),
            each.place,
            "yes" if each.agrees else "no",
            each.why,
        ]
        for each in found
    ]
    columns = ["Quantity", "Sender's kernel", "Capture", "Captured at", "Agree", "Why they differ"]
    if rows:
        names = ["#", *columns] if many else columns
        yield Table("The same from two sources", names, rows, ("Why they differ",))


def crossings(found: Sequence[CrossingRow]) -> Iterator[Table]:
    """What happened to the data between two captures; nothing without two."""
    rows = [
        [
            str(each.connection),
            SECTIONS[each.section],
            size(each.sent_bytes),
            size(each.again_bytes),
            size(each.lost_bytes),
            size(each.arrived_bytes),
            size(each.twice_bytes),
            _ways(each.there_min_us, each.there_mean_us, each.there_max_us),
            _ways(each.back_min_us, each.back_mean_us, each.back_max_us),
        ]
        for each in found
    ]
    columns = ("#", "Captures", "Sent", "Sent again", "Lost", "Arrived", "Twice", "Data took", "ACKs took")
    if rows:
        yield Table("Between two captures (delays: least / mean / greatest)", columns, rows, ("#",))


def _ways(*delays_us: float) -> str:
    return NOTHING if any(map(math.isnan, delays_us)) else " / ".join(duration(us * 1e3) for us in delays_us)
