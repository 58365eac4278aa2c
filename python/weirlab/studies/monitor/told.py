"""What scenarios about a link monitor print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weirlab.cli.output import Table
from weirlab.cli.quantities import NOTHING, clock, percent, plural

if TYPE_CHECKING:
    from weirlab.studies.contract import Outcome
    from weirlab.studies.monitor.study import MonitorFindings


def conclusion(outcome: Outcome[MonitorFindings]) -> str:
    """What was found, a sentence each, and where everything is."""
    found = outcome.found
    lines = [*found.conclusions] or ["No trial was measured."]
    attempts, valid = len(found.rows), sum(row.valid for row in found.rows)
    spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
    open_sums = (
        f" In {plural(found.unbalanced, 'attempt')} counters do not agree."
        if found.unbalanced
        else " The counters of every trial agree."
    )
    if found.remainder:
        open_sums += f" {plural(found.remainder, 'frame')} got lost where nobody counts."
    report = "" if outcome.report is None else f" Report: {outcome.report.path}"
    lines.append(
        f"Run {outcome.run.run_id}: {found.planned - len(found.missing)} of {found.planned} trials "
        f"measured in {clock(found.elapsed_s)}{spoiled}.{open_sums}{report}"
    )
    return "\n".join(lines)


def tables(found: MonitorFindings) -> list[Table]:
    """Medians per method, payload and load."""
    if not found.groups:
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
        for group in found.groups
    ]
    return [Table(columns, rows, title="frames: medians of the runs", right=(columns[1], *columns[3:]))]


def _share(ratio: float) -> str:
    return percent(ratio) if math.isfinite(ratio) else NOTHING
