"""What scenarios about a link monitor print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weirlab.cli.quantities import clock, plural

if TYPE_CHECKING:
    from weirlab.links.monitor.study import MonitorFindings
    from weirlab.studies.contract import Outcome


def conclusion(outcome: Outcome[MonitorFindings]) -> str:
    """What was found, a sentence each, then the run and its report."""
    found = outcome.found
    lines = [*found.conclusions] or ["No trial was measured."]
    attempts, valid = len(found.rows), sum(row.valid for row in found.rows)
    spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
    open_sums = (
        f" Counters do not agree in {plural(found.unbalanced, 'attempt')}."
        if found.unbalanced
        else " The counters of every trial agree."
    )
    if found.remainder:
        open_sums += f" {plural(found.remainder, 'frame')} disappeared where losses are not counted."
    report = "" if outcome.report is None else f" Report: {outcome.report.path}"
    lines.append(
        f"Run {outcome.run.run_id}: {found.planned - len(found.missing)} of {found.planned} trials "
        f"measured in {clock(found.elapsed_s)}{spoiled}.{open_sums}{report}"
    )
    return "\n".join(lines)
