"""What was done to runs and to this machine, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weirlab.cli.quantities import count, plural, words

if TYPE_CHECKING:
    from weirlab.jobs.inventory import RunOutcome
    from weirlab.lab.finding import Finding
    from weirlab.lab.machines.building import ImageBuild
    from weirlab.report.export import ReportOutcome
    from weirlab.store import RunSummary
    from weirlab.store.labels import RunLabel


def run(outcome: RunOutcome) -> str:
    """The state of a run, and the command to run next."""
    manifest = outcome.manifest
    valid = sum(n["valid"] for n in outcome.counts.values())
    attempts = sum(n["attempts"] for n in outcome.counts.values())
    lead = f"{manifest.kind.capitalize()} {manifest.run_id} is {manifest.status}"
    if unusable := outcome.refusal:
        held = f", with {count(valid)} of {count(attempts)} attempts valid" if attempts else ""
        return f"{lead}, but does not count: {unusable}{held}."
    if not attempts and outcome.own_tables:
        kept = f"table{'s' if len(outcome.own_tables) > 1 else ''} {words(outcome.own_tables)}"
        return f"{lead}, with the {kept}; next: weir export {manifest.run_id} --out DIR"
    if not attempts and manifest.status == "complete":
        # Runs of some kinds have no trials.
        return f"{lead}."
    made = " of the simulated device" if outcome.run.simulated else ""
    told = f"{lead} with {count(valid)} of {count(attempts)} attempts{made} valid"
    if manifest.kind != "profile":
        return f"{told}."
    command = "weir run --resume" if manifest.status == "interrupted" else "weir report"
    return f"{told}; next: {command} {manifest.run_id}"


def runs(found: Sequence[RunSummary], root: Path, kind: str | None = None) -> str:
    """How many runs there are, of one kind or of all."""
    if not found and kind is not None:
        return f"No run of the kind {kind} in {root}; 'weir runs' lists all."
    if not found:
        return f"No runs in {root}; 'weir trial' or 'weir run' makes the first."
    damaged = [run for run in found if run.problem]
    end = f", {len(damaged)} of them damaged" if damaged else ""
    unusable = [run for run in found if run.unusable]
    last = f" {len(unusable)} of them {_count(unusable)} (weir show says why)." if unusable else ""
    return f"{plural(len(found), 'run')} in {root}{end}.{last}"


def label(run_id: str, found: RunLabel) -> str:
    """What people say about a run."""
    parts = [
        f"name: {found.name}" if found.name else "",
        "a star" if found.star else "",
        f"tags: {', '.join(found.tags)}" if found.tags else "",
        f"note: {found.note}" if found.note else "",
    ]
    told = "; ".join(filter(None, parts)) or "no label"
    return f"Run {run_id} has {told}." if told == "no label" else f"Run {run_id}: {told}."


def _count(runs: Sequence[RunSummary]) -> str:
    return "does not count" if len(runs) == 1 else "do not count"


def module(device: str, out: Path, further: str) -> str:
    """Where a device was written for a simulator, and what to do ``further`` there."""
    return f"{device} is in {out}; next there: {further}."


def export(run_id: str, files: Sequence[Path], out: Path) -> str:
    """What was exported."""
    return f"{plural(len(files), 'file')} of run {run_id} written to {out}."


def doctor(findings: Sequence[Finding]) -> str:
    """What works on this machine, first of all."""
    missing = [finding.name for finding in findings if not finding.ok and finding.essential]
    if missing:
        works = "Captures, plans and simulated trials work here. "
        if {"engine", "run store"} & {*missing}:
            works = ""
        return f"{works}Trials in namespaces will not work here: {words(missing)}; the table says what to do."
    lesser = [finding.name for finding in findings if not finding.ok]
    if lesser:
        return (
            "Trials in namespaces work here. Not everything is in order, though: "
            f"{words(lesser)}; the table says what to do."
        )
    return "Everything that Weir needs works here."


def clean(
    removed: Sequence[str], settings: Sequence[str] = (), taps: Sequence[str] = (), left: Sequence[str] = ()
) -> str:
    """What was left behind and is now removed."""
    said = []
    if removed:
        said.append(f"Removed {plural(len(removed), 'namespace')} of dead owners: {', '.join(removed)}.")
    if settings:
        said.append(f"Restored {words(settings)}, which a dead test bed had changed.")
    if taps:
        said.append(f"Put back what {plural(len(taps), 'dead session')} had changed: {', '.join(taps)}.")
    if left:
        said.append(f"Not put back: {plural(len(left), 'change')} of dead sessions.")
    return " ".join(said) or "Nothing was left behind."


def build(built: ImageBuild, missing: Sequence[str] = ()) -> str:
    """What the virtual machine consists of now, and what else it needs."""
    image = built.image
    done = "Built" if built.renewed else "There is already"
    size = f"{image.size_bytes / 1e6:.0f} MB"
    said = f"{done} the virtual machine with kernel {image.about.release} ({size} in {image.folder})."
    needs = f" To run it: {'; '.join(missing)}." if missing else ""
    return said + (needs or " It can be tested: weir trial --dut vm --rate 100 --frame 128.")


def report(outcome: ReportOutcome) -> str:
    """Where the report is."""
    folders = sorted({str(path.parent) for path in outcome.plots})
    more = f", {plural(len(outcome.plots), 'plot file')} in {words(folders)}" if folders else ""
    return f"Report: {outcome.path}{more}"
