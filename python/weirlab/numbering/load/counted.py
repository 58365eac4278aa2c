"""Reads SIPp's statistics file. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

EDGES_MS: Final = (
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 250, 300, 400, 500, 750,
    1000, 1500, 2000, 3000, 5000, 10_000,
)  # fmt: skip
"""Upper ends of the classes of set-up times."""

_CLASS: Final = "ResponseTimeRepartition1_"
_LATE: Final = 0.02
"""Share of the calls by which a caller may be late, as the rows are a second apart."""


def edges(limit_ms: int) -> list[int]:
    """Upper ends of the classes, the limit among them."""
    return sorted({*EDGES_MS, limit_ms})


@dataclass(frozen=True)
class SippCounts:
    """The counts of a caller in a trial."""

    calls: int
    unsent: int
    failed: int
    slow: int
    retransmissions: int
    classes: Mapping[int, int]
    """Calls by the upper end of their set-up time, in ms."""
    longer: int
    """Calls above all classes."""

    def percentile_ms(self, share: float) -> float:
        """The upper end of the class in which a quantile lies; NaN above all classes, and for no calls."""
        total = sum(self.classes.values()) + self.longer
        passed = 0
        for edge in sorted(self.classes):
            passed += self.classes[edge]
            if total and passed >= share * total:
                return float(edge)
        return math.nan


def counted(text: str, rate_per_s: float, calls: int, limit_ms: int) -> SippCounts:
    """The last row of a statistics file, and how late the caller was.

    Parameters
    ----------
    text:
        What ``-trace_stat`` writes: names and rows, separated by semicolons.
    calls:
        How many were to be started.

    Raises
    ------
    ValueError
        There is no row.
    """
    names, *rows = [line.split(";") for line in text.splitlines() if line.strip()]
    if not rows:
        raise ValueError("SIPp's statistics have no rows")
    listed = [dict(zip(names, row, strict=False)) for row in rows]
    last = listed[-1]
    classes = {
        int(name.removeprefix(f"{_CLASS}<")): int(value)
        for name, value in last.items()
        if name.startswith(f"{_CLASS}<") and value
    }
    longer = sum(int(value) for name, value in last.items() if name.startswith(f"{_CLASS}>") and value)
    begun = int(last["OutgoingCall(C)"])
    return SippCounts(
        calls=begun,
        unsent=max(calls - begun, _late(listed, rate_per_s, calls)),
        failed=int(last["FailedCall(C)"]),
        slow=sum(count for edge, count in classes.items() if edge > limit_ms) + longer,
        retransmissions=int(last["Retransmissions(C)"]),
        classes=classes,
        longer=longer,
    )


def _late(rows: Sequence[Mapping[str, str]], rate_per_s: float, calls: int) -> int:
    """Calls by which the caller was behind its rate while it still had calls to start."""
    behind = 0.0
    for row in rows:
        begun, elapsed_s = int(row["OutgoingCall(C)"]), _epoch(row["CurrentTime"]) - _epoch(row["StartTime"])
        if begun < calls:
            behind = max(behind, min(elapsed_s * rate_per_s, calls) - begun)
    # SIPp starts calls in bursts: it is on time within one call and a tenth of a second of its rate.
    return round(behind) if behind > max(_LATE * calls, 1 + rate_per_s / 10) else 0


def _epoch(text: str) -> float:
    """The Unix time in s, the last field of a time stamp of SIPp."""
    return float(text.split("\t")[-1].split()[-1])
