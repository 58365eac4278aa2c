"""Tables that several commands print."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.cli.quantities import count, rate, rules
from weirlab.tables import Table

if TYPE_CHECKING:
    from weirlab.model.effects import Effect


def thresholds(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Threshold per rule count and frame size; no table without rows."""
    if not rows:
        return []
    columns = ("Rules", "Frames", "Threshold", "Lowest", "Highest", "Trials")
    cells = [
        (
            count(row["position"]) + (" stateful" if row["stateful"] else ""),
            row["sizes_text"],
            *(rate(row[name]) for name in ("threshold_pps", "low_pps", "high_pps")),
            str(row["n"]),
        )
        for row in rows
    ]
    return [Table("Forwarding rate in overload", columns, cells, spare=("Trials",))]


def reasons(counts: Mapping[str, int]) -> Table:
    """The reasons for invalid attempts, and how many attempts each has."""
    rows = [(reason, count(n)) for reason, n in counts.items()]
    return Table("Reasons for invalid attempts", ("Reason", "Attempts"), rows, details=True)


def effects(found: Sequence[Effect]) -> list[Table]:
    """Effects measured by comparing trials; no table if none were."""
    if not found:
        return []
    columns = ("Effect of", "At", "Regime", "Quantity", "Ratio", "95 % interval", "Loads", "Trials")
    names = {
        "delay_mean_ns": "mean delay",
        "delay_p50_ns": "median delay",
        "delay_p99_ns": "p99 delay",
        "forwarding_pps": "forwarding rate",
    }
    rows = [
        (
            each.kind,
            f"{each.places} for {count(each.position)}" if each.places else rules(each.position),
            each.regime,
            names[each.quantity],
            f"{each.ratio:.3f}",
            "unknown" if math.isnan(each.low) else f"{each.low:.3f} to {each.high:.3f}",
            str(each.loads),
            str(each.trials),
        )
        for each in found
    ]
    caption = "With over without, at the same loads"
    return [Table(caption, columns, rows, spare=("Trials", "Loads"), details=True)]
