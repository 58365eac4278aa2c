"""Tables that several commands print, and phrases at the end of their output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.tables import Table
from weirlab.cli.quantities import count, duration, percent, rate, rules

if TYPE_CHECKING:
    from weirlab.measure.verdict import MachineVerdict
    from weirlab.model.effects import Effect
    from weirlab.records import TrialRecord


_WHY: Final = {
    "unsteady": "load of 98 % of the threshold or more, forwards less than 90 % of what others do; counted",
    "lossy": "loses packets at a lighter load; used for intervals alone",
    "late": "loses nothing below the threshold, but still had packets queued at its end; counted",
}


_RATES: Final[Mapping[str, tuple[str, Mapping[str, Callable[[Mapping[str, Any]], str]], Sequence[str]]]] = {
    "thresholds": (
        "Forwarding rate in overload",
        {
            "Threshold": lambda row: rate(row["threshold_pps"]),
            "95 % interval": lambda row: _interval(row["interval_low_pps"], row["interval_high_pps"]),
            "Lowest": lambda row: rate(row["low_pps"]),
            "Highest": lambda row: rate(row["high_pps"]),
            "Trials": lambda row: str(row["n"]),
        },
        ("Lowest", "Highest"),
    ),
    "delays": (
        "Delay below the threshold, medians of the trials",
        {
            "p50": lambda row: duration(row["delay_p50_ns"]),
            "p99": lambda row: duration(row["delay_p99_ns"]),
            "Loads": lambda row: _interval(row["low_pps"], row["high_pps"]),
            "Trials": lambda row: str(row["n"]),
        },
        ("Trials", "Loads"),
    ),
    "irregular": (
        "Valid trials unlike the others",
        {
            "Trial": lambda row: f"{row['role']} {row['index']}",
            "Load": lambda row: rate(row["achieved_pps"]),
            "Forwarded": lambda row: rate(row["forwarding_pps"]),
            "Lost": lambda row: percent(row["loss_ratio"]),
            "Why": lambda row: _WHY[row["why"]],
        },
        ("Lost",),
    ),
}
"""Captions, columns and those that a narrow terminal leaves out."""


def repetitions(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A row for each repetition of a trial, from its row in ``trials``, if there are several."""
    shown = [
        (
            str(n),
            "yes" if row["valid"] else "no",
            rate(row["forwarding_pps"]),
            percent(row["loss_ratio"]),
            *(duration(row[f"delay_{level}_ns"]) for level in ("p50", "p99")),
        )
        for n, row in enumerate(rows, 1)
    ]
    columns = ("", "Valid", "Forwarded", "Lost", "p50", "p99")
    return [Table("Repetitions", columns, shown)] if len(shown) > 1 else []


def rates(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    """What :func:`weirlab.measure.thresholds.rates` found, by rule count, frame size and, where it varies,
    share of packets that open a flow; no table without rows."""
    return [_by_setting(rows, *_RATES[name]) for name, rows in found.items() if rows]


def _by_setting(
    rows: Sequence[Mapping[str, Any]],
    caption: str,
    columns: Mapping[str, Callable[[Mapping[str, Any]], str]],
    spare: Sequence[str],
) -> Table:
    answered = "new_share" in rows[0]
    cells = [
        (
            *((percent(row["new_share"]),) if answered else ()),
            count(row.get("rules", row["position"])) + (" stateful" if row["stateful"] else ""),
            row["sizes_text"],
            *(of(row) for of in columns.values()),
        )
        for row in rows
    ]
    headings = (*(("New flows",) if answered else ()), "Rules", "Frames", *columns)
    return Table(caption, headings, cells, spare)


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


def left_out(record: TrialRecord) -> list[tuple[str, str]]:
    """What is left out of a valid trial because the host disturbed it, and the results with it included."""
    result, disturbed = record.result, record.disturbed
    if disturbed is None:
        return []
    most = max(result.left_out, key=lambda span: span.end_ns - span.begin_ns)
    return [
        ("left out", f"{duration(result.left_out_s * 1e9)} that the host disturbed (longest: {most.why})"),
        (
            "with that included",
            f"{percent(disturbed.loss_ratio)} lost, mean delay {duration(disturbed.delay_mean_ns)}, "
            f"p99 {duration(disturbed.delay_p99_ns)}",
        ),
    ]


def of_device(simulated: bool, said: str) -> str:
    """``said``, marked as simulated if the device is, so that it is not taken for a measurement."""
    return f"Simulated, not measured: {said}" if simulated else said


def of_run(unusable: str, said: str) -> str:
    """``said``, after the reason why the run that it rests on does not count; empty if it does."""
    return f"From a run that does not count ({unusable}): {said}" if unusable else said


def machine(verdict: MachineVerdict | None) -> str:
    """The verdict on the machine as a sentence; empty for a simulated device."""
    return "" if verdict is None else verdict.sentence
