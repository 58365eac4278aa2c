"""Runs and diagnoses as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weirlab.cli.output import Table
from weirlab.cli.tables import effects, thresholds

if TYPE_CHECKING:
    from weirlab.jobs.inventory import RunOutcome
    from weirlab.lab.doctor import Finding


def run(outcome: RunOutcome) -> list[Table]:
    """What a run holds."""
    manifest = outcome.manifest
    facts = [
        ("run", manifest.run_id),
        ("name", str(manifest.scenario.get("name", ""))),
        ("kind, status", f"{manifest.kind}, {manifest.status}"),
        ("created", manifest.created[:19].replace("T", " ") + " UTC"),
        ("host, kernel", f"{manifest.host}, {manifest.kernel}"),
        ("calibration", manifest.calibration or "none"),
        ("folder", str(outcome.run.path)),
        ("files", ", ".join(path.name for path in outcome.files)),
        *((f"facts: {name}", str(value)) for name, value in manifest.facts.items()),
    ]
    tables = [Table(("run", ""), facts)]
    if outcome.counts:
        rows = [(role, str(n["attempts"]), str(n["valid"])) for role, n in outcome.counts.items()]
        tables.append(Table(("trials", "attempts", "valid"), rows, right=("attempts", "valid")))
    if outcome.reasons:
        why = [(str(n), reason) for reason, n in outcome.reasons.items()]
        tables.append(Table(("invalid", "because"), why, right=("invalid",)))
    return [*tables, *thresholds(outcome.thresholds), *effects(outcome.effects)]


def doctor(findings: Sequence[Finding]) -> list[Table]:
    """What works and what does not."""

    def verdict(finding: Finding) -> str:
        return "yes" if finding.ok else "NO" if finding.essential else "no"

    rows = [(verdict(f), f.name, f.detail, "" if f.ok else f.remedy) for f in findings]
    return [Table(("works", "what", "found", "what to do"), rows)]
