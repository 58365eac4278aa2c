"""The sentence with which every command ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weirlab.cli.quantities import count, duration, percent, plural, rate, rules, words
from weirlab.model.base import TOLD_LEVEL
from weirlab.model.planning.requirements import NO_LOSS
from weirlab.records import device_in_words
from weirlab.traffic.places import describe_places

if TYPE_CHECKING:
    from weirlab.jobs import (
        CalibrationOutcome,
        DevicesOutcome,
        FitOutcome,
        PredictionOutcome,
        ProfileOutcome,
        ReportOutcome,
        RunOutcome,
        ScenarioOutcome,
        TrialOutcome,
        VerificationOutcome,
    )
    from weirlab.lab.doctor import Finding
    from weirlab.measure.adaptive import AdaptiveOutcome
    from weirlab.measure.verdict import Verdict
    from weirlab.store import RunSummary


MORE_TRIALS: Final = (
    "Profile again with more repetitions (weir profile --repetitions 10) on a quieter machine"
)
"""What to do about a profile that scatters too much."""


def of_device(simulated: bool, said: str) -> str:
    """``said``, which does not name the device; of a simulated one nobody may take it for a measurement."""
    return f"Simulated, not measured: {said}" if simulated else said


def trial(outcome: TrialOutcome) -> str:
    """What one trial showed."""
    record = outcome.record
    result = record.result
    if not record.valid:
        return f"Invalid after {plural(len(outcome.records), 'attempt')}: {'; '.join(record.invalid)}."
    setting = device_in_words(record.dut, first=True)
    if record.dut not in ("ruleset", "none"):
        setting += f" with {rules(record.spec.rules.position)}"
    if len(record.spec.rules.accepting) > 1:
        setting += f", matching at {describe_places(record.spec.rules.places)},"
    p50, p99 = (duration(result.histogram.quantile_ns(q)) for q in (0.5, 0.99))
    if result.lost == 0:
        return f"{setting} forwarded all of {rate(result.achieved_pps)}; median delay {p50}, p99 {p99}."
    return (
        f"{setting} forwarded {rate(result.forwarding_pps)} of {rate(result.achieved_pps)} "
        f"({percent(result.loss_ratio)} lost); median delay {p50}, p99 {p99}, "
        f"about {outcome.queue_packets:.0f} packets in the device."
    )


def calibration(outcome: CalibrationOutcome) -> str:
    """The tool's own error."""
    found = outcome.calibration
    return (
        f"Weir's own error here: pacing within {percent(found.pacing_error_ratio)} up to "
        f"{rate(found.paced_limit_pps)}, time stamps +{duration(found.delay_p50_ns)} (median) and at most "
        f"+{duration(found.delay_p99_ns)} (p99), {count(found.lost)} of {count(found.sent)} packets falsely "
        f"lost; later results name calibration {found.id}."
    )


def machine(verdict: Verdict | None) -> str:
    """What the machine was good for; empty for a simulated device."""
    return "" if verdict is None else verdict.sentence


def profile(outcome: ProfileOutcome) -> str:
    """What was profiled and what comes next."""
    run_id, measured = outcome.run.run_id, outcome.outcome
    missing = len(measured.invalid)
    of = " of the simulated device" if outcome.run.simulated else ""
    lead = f"Run {run_id}: {plural(measured.trials, 'trial')}{of} in {measured.elapsed_s:.0f} s"
    if missing == measured.trials:
        return (
            "No trial had a valid attempt, so nothing is known about the device. "
            f"{lead}; next: weir show {run_id}"
        )
    held = f"{count(missing)} of {plural(measured.trials, 'trial')} had no valid attempt. " if missing else ""
    if measured.stopped == "time":
        held += "The time budget is used up. "
    sure = "" if outcome.adaptive is None else f"{_certainty(outcome.adaptive)} "
    next_one = f"weir fit {run_id}" if outcome.problem() is None else f"weir profile --resume {run_id}"
    return f"{held}{sure}{lead}; next: {next_one}"


def _certainty(outcome: AdaptiveOutcome) -> str:
    """How sure the model is after an adaptive profile, and where least."""
    if not outcome.rounds:
        return "Nothing was chosen."
    last, trials = outcome.rounds[-1], outcome.outcome.trials
    of_grid = f"{plural(trials, 'trial')} of the {count(outcome.grid_trials)} of the whole grid"
    if math.isnan(last.most):
        return f"After {of_grid} no model can be fitted: {last.where}."
    target = percent(outcome.target_ratio)
    state = f"within the target of {target}" if outcome.reached else f"short of the target of {target}"
    return (
        f"After {of_grid} predictions are known to within {percent(last.most)} at 95 % of the settings "
        f"(median {percent(last.median)}), {state}; worst, {percent(last.largest)}, at {last.where}."
    )


def fit(outcome: FitOutcome) -> str:
    """The model in words and where it is."""
    model = outcome.queueing
    said = " ".join(model.in_words()) if model else f"Fitted {words(list(outcome.models))}."
    said += "".join(f" Too little evidence: {reason}." for reason in outcome.evidence.too_little)
    return of_device(outcome.run.simulated, f"{said} The models are in {outcome.path}.")


def devices(outcome: DevicesOutcome) -> str:
    """Which devices are in the file, and what to do with it."""
    names = words([f"'{name}'" for name in outcome.names])
    return f"{outcome.path} holds the models of {names}; next: weir plan {outcome.path} --rules 100"


def prediction(outcome: PredictionOutcome) -> str:
    """What to expect."""
    name, found = next(iter(outcome.predictions.items()))
    ends = {quantity: bands[TOLD_LEVEL] for quantity, bands in outcome.intervals.get(name, {}).items()}

    def told(quantity: str, show: Callable[[float], str]) -> str:
        between = f" ({' to '.join(map(show, ends[quantity]))})" if quantity in ends else ""
        return f"{show(found[quantity])}{between}"

    threshold = told("threshold_pps", rate)
    lead = "Extrapolated: " if outcome.outside else ""
    setting = (
        f"{rate(outcome.rate_pps)} of {outcome.frame_bytes:.4g}-byte frames behind {rules(outcome.position)}"
    )
    delay = f"mean delay {told('delay_mean_ns', duration)}, p99 {told('delay_p99_ns', duration)}"
    most_lost = ends.get("loss_ratio", (0.0, 0.0))[1]
    over = outcome.rate_pps > found["threshold_pps"]
    if found["loss_ratio"] > NO_LOSS:
        where = f"exceed the threshold of {threshold}" if over else f"lose packets below {threshold}"
        fate = f"{where}: {told('loss_ratio', percent)} lost, {delay}"
    elif most_lost > NO_LOSS:
        none = f"although none is predicted below the threshold of {threshold}"
        fate = f"may lose up to {percent(most_lost)}, {none}: {delay}"
    else:
        fate = f"pass without loss, below the threshold of {threshold}: {delay}"
    brackets = f"; in brackets {TOLD_LEVEL} % of trials" if ends else ""
    said = f"{lead}{setting} {fate} ({name} model{brackets})."
    if outcome.unsure:
        said += f" The profile is too noisy to say more about {words(outcome.unsure)}. {MORE_TRIALS}."
    return of_device(outcome.simulated, said)


def verification(outcome: VerificationOutcome) -> str:
    """How far the models are off, and the measurement from itself, in a sentence; or why nobody can say."""
    if outcome.problem() is not None:
        machine = f"the machine was {outcome.verdict.label}" if outcome.verdict is not None else ""
        why = outcome.undecided or machine
        return of_device(outcome.run.simulated, f"No verdict on the models: {why}.")
    rows = [row for row in outcome.errors if row.per == "trial" and not row.extrapolated]
    parts = []
    for model, measured in dict.fromkeys((row.model, row.of_measurement) for row in rows):
        errors = {row.quantity: row.mape_percent / 100 for row in rows if row.model == model}
        told = [
            f"{percent(errors[quantity])} {label}"
            for quantity, label in (
                ("threshold", "in the threshold"),
                ("delay_mean_below", "in the mean delay below it"),
            )
            if quantity in errors
        ]
        if not measured:
            parts.append(f"{model} is off by {words(told) or 'nothing comparable'}")
        elif told:
            parts.append(f"trials of one setting differ from each other by {words(told)}")
    alarms = [
        f"{row.model} in {plural(row.false_alarms, 'trial')}"
        for row in rows
        if row.false_alarms and not row.of_measurement
    ]
    warned = f" Loss was predicted where none was measured: by {words(alarms)}." if alarms else ""
    said = f"On {plural(outcome.trials, 'held-out trial')}, {'; '.join(parts)}.{warned}"
    return of_device(outcome.run.simulated, said)


def report(outcome: ReportOutcome) -> str:
    """Where the report is."""
    folders = sorted({str(path.parent) for path in outcome.plots})
    more = f", {plural(len(outcome.plots), 'plot file')} in {words(folders)}" if folders else ""
    return f"Report: {outcome.path}{more}"


def scenario(outcome: ScenarioOutcome) -> str:
    """What came of all parts."""
    parts = [f"Run {outcome.profile.run.run_id} is complete."]
    if outcome.verification is not None:
        parts.append(verification(outcome.verification))
    if outcome.report is not None:
        parts.append(report(outcome.report))
    return "\n".join(parts)


def run(outcome: RunOutcome) -> str:
    """What can be done with a run."""
    manifest = outcome.manifest
    valid = sum(n["valid"] for n in outcome.counts.values())
    attempts = sum(n["attempts"] for n in outcome.counts.values())
    lead = f"{manifest.kind.capitalize()} {manifest.run_id} is {manifest.status}"
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
    return f"{plural(len(found), 'run')} in {root}{end}."


def export(run_id: str, files: Sequence[Path], out: Path) -> str:
    """What was exported."""
    return f"{plural(len(files), 'file')} of run {run_id} written to {out}."


def doctor(findings: Sequence[Finding]) -> str:
    """Whether this machine is fit."""
    missing = [finding.name for finding in findings if not finding.ok and finding.essential]
    if missing:
        return f"Trials in namespaces will not work here: {words(missing)}; the table says what to do."
    lesser = [finding.name for finding in findings if not finding.ok]
    if lesser:
        return (
            "Trials in namespaces work here. Not everything is in order, though: "
            f"{words(lesser)}; the table says what to do."
        )
    return "Everything that Weir needs works here."


def clean(removed: Sequence[str], taps: Sequence[str] = (), left: Sequence[str] = ()) -> str:
    """What was left behind and is gone."""
    said = []
    if removed:
        said.append(f"Removed {plural(len(removed), 'namespace')} of dead owners: {', '.join(removed)}.")
    if taps:
        said.append(f"Put back what {plural(len(taps), 'dead tap')} had changed: {', '.join(taps)}.")
    if left:
        said.append(f"Not put back: {plural(len(left), 'change')} of a dead tap.")
    return " ".join(said) or "Nothing was left behind."
