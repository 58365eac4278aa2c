"""What scenarios about a link monitor print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weirlab.cli.output import Table
from weirlab.cli.quantities import NOTHING, clock, percent, plural

if TYPE_CHECKING:
    from weirlab.jobs.monitor import MonitorOutcome


def conclusion(outcome: MonitorOutcome) -> str:
    """What was found, a sentence each, and where everything is."""
    lines = [*outcome.conclusions] or ["No trial was measured."]
    attempts, valid = len(outcome.rows), sum(row.valid for row in outcome.rows)
    spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
    open_sums = (
        f" In {plural(outcome.unbalanced, 'attempt')} counters do not agree."
        if outcome.unbalanced
        else " The counters of every trial agree."
    )
    if outcome.remainder:
        open_sums += f" {plural(outcome.remainder, 'frame')} got lost where nobody counts."
    report = "" if outcome.report is None else f" Report: {outcome.report.path}"
    lines.append(
        f"Run {outcome.run.run_id}: {outcome.planned - len(outcome.missing)} of {outcome.planned} trials "
        f"measured in {clock(outcome.elapsed_s)}{spoiled}.{open_sums}{report}"
    )
    return "\n".join(lines)


def tables(outcome: MonitorOutcome) -> list[Table]:
    """Medians per method, payload and load."""
    if not outcome.groups:
        return []
    columns = ("method", "payload B", "load", "runs", "sent/min", "arrived/min", "logged/min", "link loss",
               "not logged", "of what came by")  # fmt: skip
    rows = [
        (
            group.method,
            str(group.payload_bytes),
            group.load,
            str(group.runs),
            f"{group.sent_per_min:,.0f}",
            f"{group.received_per_min:,.0f}",
            NOTHING if group.logged_per_min is None else f"{group.logged_per_min:,.0f}",
            _share(group.link_loss_ratio),
            _share(group.logged_loss_ratio),
            _share(group.record_loss_ratio),
        )
        for group in outcome.groups
    ]
    return [Table(columns, rows, title="frames: medians of the runs", right=(columns[1], *columns[3:]))]


def _share(ratio: float) -> str:
    return percent(ratio) if math.isfinite(ratio) else NOTHING
