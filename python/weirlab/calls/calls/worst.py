"""The callers who hear worst, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weirlab.base.tables import Table
from weirlab.report.numbers import NOTHING, count, duration, significant

WORST: Final = (
    "call", "back", "mos", "lost", "sent", "longest_run", "burst_ratio", "delay_mean_ns", "jitter_ns",
    "longest_gap_ns",
)  # fmt: skip
"""What :func:`worst` needs to know about a caller, besides ``late``."""


def worst(callers: Iterable[Mapping[str, Any]], caption: str) -> Table:
    """A row per caller, in the order given; None or NaN for what is not known."""
    columns = (
        "Call", "Direction", "MOS", "Lost", "Longest run", "Burst ratio", "Late", "Mean delay", "Jitter",
        "Longest gap",
    )  # fmt: skip
    rows = [
        (
            str(caller["call"]),
            "back" if caller["back"] else "forward",
            f"{caller['mos']:.2f}",
            f"{caller['lost']:,} of {caller['sent']:,}",
            count(caller["longest_run"]),
            NOTHING if (ratio := caller["burst_ratio"]) is None else significant(ratio),
            count(caller["late"]),
            *(duration(caller[name]) for name in ("delay_mean_ns", "jitter_ns", "longest_gap_ns")),
        )
        for caller in callers
    ]
    return Table(caption, columns, rows, spare=("Burst ratio", "Longest gap", "Longest run"))
