"""Tables that several commands print, and phrases at the end of their output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.base.tables import Table
from weirlab.cli.quantities import count, percent, rate, rules

if TYPE_CHECKING:
    from weirlab.measure.verdict import MachineVerdict
    from weirlab.model.effects import Effect
    from weirlab.records import TrialRecord


def thresholds(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Threshold per rule count, share of packets that open a flow, and frame size; no table without rows."""
    if not rows:
        return []
    answered = "new_share" in rows[0]
    columns = (
        *(("New flows",) if answered else ()), "Rules", "Frames", "Threshold", "95 % interval", "Lowest",
        "Highest", "Trials",
    )  # fmt: skip
    cells = [
        (
            *((percent(row["new_share"]),) if answered else ()),
            count(row.get("rules", row["position"])) + (" stateful" if row["stateful"] else ""),
            row["sizes_text"],
            rate(row["threshold_pps"]),
            _interval(row["interval_low_pps"], row["interval_high_pps"]),
            *(rate(row[name]) for name in ("low_pps", "high_pps")),
            str(row["n"]),
        )
        for row in rows
    ]
    return [Table("Forwarding rate in overload", columns, cells, spare=("Lowest", "Highest"))]


def _interval(low_pps: float | None, high_pps: float | None) -> str:
    """``344 kpps to 399 kpps``; unknown for a single trial."""
    return "unknown" if low_pps is None or high_pps is None else f"{rate(low_pps)} to {rate(high_pps)}"


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


def rules_met(record: TrialRecord) -> list[tuple[str, str]]:
    """Which of the user's own rules packets met, beside what was expected."""
    found = record.rules_met
    if found is None:
        return []
    where = "in the device" if found.counted_in == "device" else "with a few packets in a copy of the rules"
    rows = []
    if found.met is not None:
        expected = "" if found.expected is None else f"; {found.expected:,.0f} expected"
        rows.append(("rules met", f"{found.met:,.1f} per packet{expected} (counted {where})"))
    if found.matched_ratio is not None:
        rows.append(("met the rule aimed at", f"{percent(found.matched_ratio)} of the packets"))
    return rows


def of_device(simulated: bool, said: str) -> str:
    """``said``, marked as simulated if the device is, so that it is not taken for a measurement."""
    return f"Simulated, not measured: {said}" if simulated else said


def of_run(unusable: str, said: str) -> str:
    """``said``, after the reason why the run that it rests on does not count; empty if it does."""
    return f"From a run that does not count ({unusable}): {said}" if unusable else said


def machine(verdict: MachineVerdict | None) -> str:
    """The verdict on the machine as a sentence; empty for a simulated device."""
    return "" if verdict is None else verdict.sentence
