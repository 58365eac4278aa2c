"""Runs and diagnoses as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING
from weirlab.cli.results.tables import effects, rates, reasons, repetitions

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
    tables += [*repetitions(outcome.repetitions), *rates(outcome.rates)]
    if outcome.reasons:
        tables.append(reasons(outcome.reasons))
    return [*tables, *effects(outcome.effects), Table("Conditions", ("", ""), more, details=True)]


def _fact(value: Any) -> str:
    """``cpu 2, mode native`` for a mapping."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_fact(inner)}" for name, inner in value.items())
    return ", ".join(map(_fact, value)) if isinstance(value, list | tuple) else str(value)


def doctor(findings: Sequence[Finding]) -> list[Table]:
    """What works, what does not, and what to do; what trials need comes first."""
    lacking = sorted((finding for finding in findings if not finding.ok), key=lambda each: not each.essential)
    made = []
    if working := [(finding.name, finding.detail) for finding in findings if finding.ok]:
        made.append(Table("Works here", ("What", "Found"), working))
    if lacking:
        rows = [(each.name, "needed" if each.essential else "not needed", each.detail) for each in lacking]
        made.append(Table("Does not work here", ("What", "For trials", "Found"), rows))
    remedies: dict[str, list[str]] = {}
    for finding in lacking:
        if finding.remedy:
            remedies.setdefault(finding.remedy, []).append(finding.name)
    if remedies:
        ways = [(", ".join(names), remedy) for remedy, names in remedies.items()]
        made.append(Table("What to do", ("For", "Do"), ways))
    return made
