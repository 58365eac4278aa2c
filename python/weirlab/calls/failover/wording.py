"""What switches showed, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weirlab.cli.quantities import clock, plural

if TYPE_CHECKING:
    from weirlab.calls.failover.study import FailoverFindings
    from weirlab.studies.contract import Outcome


def conclusion(outcome: Outcome[FailoverFindings]) -> str:
    """A sentence per pair and kind of event, then the load, the run and its report."""
    from weirlab.calls.failover.study import load_text

    found = outcome.found
    lines = [*found.conclusions] or ["No switch was measured."]
    attempts, valid = len(found.rows), sum(row.valid for row in found.rows)
    spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
    took = f" in {clock(found.elapsed_s)}" if found.elapsed_s else ""
    report = "" if outcome.report is None else f" Report: {outcome.report.path}"
    told = load_text(found.load)
    lines.append(f"{told[0].upper()}{told[1:]}.")
    lines.append(
        f"Run {outcome.run.run_id}: {valid} of {found.planned} switches measured{took}{spoiled}.{report}"
    )
    return "\n".join(lines)
