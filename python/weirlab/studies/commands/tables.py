"""Runs and diagnoses as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING
from weirlab.cli.results.tables import effects, reasons, thresholds

if TYPE_CHECKING:
    from weirlab.jobs.inventory import RunOutcome
    from weirlab.lab.finding import Finding


def run(outcome: RunOutcome) -> list[Table]:
    """What a run contains."""
    manifest = outcome.manifest
    facts = [
        ("name", str(manifest.scenario.get("name", ""))),
        ("created", f"{manifest.created[:19].replace('T', ' ')} UTC"),
        ("device, lab", ", ".join(str(manifest.facts.get(name, NOTHING)) for name in ("dut", "lab"))),
        ("calibration", manifest.calibration or "none"),
        ("folder", str(outcome.run.path)),
    ]
    more = [
        ("host, kernel", f"{manifest.host}, {manifest.kernel}"),
        ("files", ", ".join(path.name for path in outcome.files)),
        *((name.replace("_", " "), _fact(value)) for name, value in manifest.facts.items()),
    ]
    tables = [Table("Run", ("", ""), facts)]
    if outcome.counts:
        rows = [(role, str(n["attempts"]), str(n["valid"])) for role, n in outcome.counts.items()]
        tables.append(Table("Trials", ("Trials", "Attempts", "Valid"), rows))
    tables += thresholds(outcome.thresholds)
    if outcome.reasons:
        tables.append(reasons(outcome.reasons))
    return [*tables, *effects(outcome.effects), Table("Conditions", ("", ""), more, details=True)]


def _fact(value: Any) -> str:
    """``cpu 2, mode native`` for a mapping."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_fact(inner)}" for name, inner in value.items())
    return ", ".join(map(_fact, value)) if isinstance(value, list | tuple) else str(value)


def doctor(findings: Sequence[Finding]) -> list[Table]:
    """What works and what does not."""

    def verdict(finding: Finding) -> str:
        return "yes" if finding.ok else "NO" if finding.essential else "no"

    rows = [(verdict(f), f.name, f.detail) for f in findings]
    made = [Table("This machine", ("Works", "What", "Found"), rows)]
    remedies: dict[str, list[str]] = {}
    for finding in findings:
        if not finding.ok and finding.remedy:
            remedies.setdefault(finding.remedy, []).append(finding.name)
    if remedies:
        ways = [(", ".join(names), remedy) for remedy, names in remedies.items()]
        made.append(Table("What to do", ("For", "Do"), ways))
    return made
