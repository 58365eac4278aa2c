"""Outcomes as tables for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from weirlab.cli.output import Table
from weirlab.cli.quantities import count, duration, percent, rate, rules, significant
from weirlab.model.base import TOLD_LEVEL
from weirlab.records import TrialRecord, device_in_words

if TYPE_CHECKING:
    from weirlab.jobs import (
        CalibrationOutcome,
        DevicesOutcome,
        FitOutcome,
        PredictionOutcome,
        ProfileOutcome,
        RunOutcome,
        ScenarioOutcome,
        TrialOutcome,
        VerificationOutcome,
    )
    from weirlab.lab.doctor import Finding
    from weirlab.model import ErrorRow
    from weirlab.model.effects import Effect


def trial(outcome: TrialOutcome) -> list[Table]:
    """Load, delay, device and host of the attempt that counts."""
    record = outcome.record
    result = record.result
    q = {name: duration(result.histogram.quantile_ns(name)) for name in (0.5, 0.9, 0.99, 0.999)}
    extremes = (result.delay_min_ns, result.delay_mean_ns, result.delay_max_ns)
    how = f"{record.lab}, {result.backend} {result.xdp_mode}".rstrip()
    facts = [
        ("run", outcome.run_id),
        ("device", device_in_words(record.dut) if record.lab == result.backend else f"{record.dut} ({how})"),
        ("valid", "yes" if record.valid else f"no: {'; '.join(record.invalid)}"),
        ("attempts", str(len(outcome.records))),
        *_left_out(record),
        ("offered load", "max" if record.spec.traffic.rate.unit == "max" else rate(record.offered_pps)),
        ("achieved load", rate(result.achieved_pps)),
        ("forwarding rate", rate(result.forwarding_pps)),
        ("frame loss ratio", f"{percent(result.loss_ratio)} ({count(result.lost)} of {count(result.sent)})"),
        ("duplicated, reordered", f"{count(result.duplicated)}, {count(result.reordered)}"),
        ("delay p50, p90, p99, p99.9", ", ".join(q.values())),
        ("delay min, mean, max", ", ".join(map(duration, extremes))),
        ("jitter (RFC 3550)", duration(result.jitter_ns)),
        ("packets in the device", f"{outcome.queue_packets:.4g} (median delay x forwarding rate)"),
        ("calibration", outcome.calibration or "none"),
    ]
    tables = [Table(("trial", ""), facts)]
    cpu = record.host.cpu_s
    states = list(dict.fromkeys(state for times in cpu.values() for state in times))
    if states:
        rows = [(role, *(f"{times.get(state, 0.0):.2f}" for state in states)) for role, times in cpu.items()]
        tables.append(Table(("CPU time, s", *states), rows, right=states))
    counters = [(name, count(value)) for name, value in record.dut_counters.items() if value]
    if counters:
        tables.append(Table(("counters of the device", ""), counters, right=("",)))
    return tables


def _left_out(record: TrialRecord) -> list[tuple[str, str]]:
    """What the host disturbed of a valid trial, and what the trial says with it."""
    result, disturbed = record.result, record.disturbed
    if disturbed is None:
        return []
    most = max(result.left_out, key=lambda span: span.end_ns - span.begin_ns)
    return [
        (
            "left out",
            f"{duration(result.left_out_s * 1e9)} that the host disturbed (at most where {most.why})",
        ),
        (
            "with what is left out",
            f"{percent(disturbed.loss_ratio)} lost, mean delay {duration(disturbed.delay_mean_ns)}, "
            f"p99 {duration(disturbed.delay_p99_ns)}",
        ),
    ]


def calibration(outcome: CalibrationOutcome) -> list[Table]:
    """One row per load."""
    columns = (
        "load",
        "achieved",
        "pacing error",
        "late mean",
        "delay p50",
        "delay p99",
        "lost",
        "valid",
        "spoiled",
    )
    rows = [
        (
            point.rate_text,
            rate(point.achieved_pps),
            percent(point.pacing_error_ratio),
            duration(point.late_mean_ns),
            duration(point.delay_p50_ns),
            duration(point.delay_p99_ns),
            f"{count(point.lost)} of {count(point.sent)}",
            str(point.valid),
            str(point.invalid),
        )
        for point in outcome.calibration.points
    ]
    return [Table(columns, rows, right=columns[1:])]


def profile(outcome: ProfileOutcome) -> list[Table]:
    """Measured thresholds."""
    return thresholds(outcome.thresholds())


def thresholds(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Threshold per rule count and frame size; no table without rows."""
    if not rows:
        return []
    columns = ("rules", "frames", "threshold", "lowest", "highest", "trials")
    cells = [
        (
            count(row["position"]) + (" stateful" if row["stateful"] else ""),
            row["sizes_text"],
            *(rate(row[name]) for name in ("threshold_pps", "low_pps", "high_pps")),
            str(row["n"]),
        )
        for row in rows
    ]
    return [Table(columns, cells, title="forwarding rate in overload", right=columns)]


def effects(found: Sequence[Effect]) -> list[Table]:
    """What was compared trial against trial; no table where nothing was."""
    if not found:
        return []
    columns = ("effect of", "at", "regime", "quantity", "ratio", "95 % interval", "loads", "trials")
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
    return [Table(columns, rows, title="with over without, same loads", right=columns[4:])]


def fit(outcome: FitOutcome) -> list[Table]:
    """The queueing model's parameters, and what was compared without any model."""
    return [*_parameters(outcome), *effects(outcome.effects)]


def _parameters(outcome: FitOutcome) -> list[Table]:
    model = outcome.queueing
    if model is None:
        return []
    columns = ("parameter", "value", "± standard error", "unit", "meaning")
    rows = [
        (p.name, significant(p.value, 4), significant(p.stderr, 2), p.unit, p.meaning)
        for p in model.parameters()
    ]
    return [Table(columns, rows, title="queueing model", right=columns[1:3])]


def devices(outcome: DevicesOutcome) -> list[Table]:
    """The devices' parameters beside each other."""
    found = {
        name: {p.name: p for p in fit.queueing.parameters()} if fit.queueing else {}
        for name, fit in zip(outcome.names, outcome.fits, strict=True)
    }
    first = {p.name: p for parameters in found.values() for p in parameters.values()}
    rows = [
        (
            name,
            *(significant(own[name].value, 4) if name in own else "–" for own in found.values()),
            parameter.unit,
            parameter.meaning,
        )
        for name, parameter in first.items()
    ]
    return [Table(("parameter", *found, "unit", "meaning"), rows, title="queueing model", right=tuple(found))]


def prediction(outcome: PredictionOutcome) -> list[Table]:
    """One column per model, and one with the interval for a single trial where it gives one."""
    models = outcome.predictions
    lines = (
        ("threshold", "threshold_pps", rate),
        ("frame loss ratio", "loss_ratio", percent),
        ("delay mean", "delay_mean_ns", duration),
        ("delay p50", "delay_p50_ns", duration),
        ("delay p90", "delay_p90_ns", duration),
        ("delay p99", "delay_p99_ns", duration),
        ("delay p99.9", "delay_p999_ns", duration),
        ("jitter", "jitter_ns", duration),
    )

    def cells(model: str, name: str, shown: Callable[[float], str]) -> tuple[str, ...]:
        if not outcome.intervals.get(model):
            return (shown(models[model][name]),)
        ends = outcome.intervals[model].get(name, {}).get(TOLD_LEVEL)
        return shown(models[model][name]), f"{shown(ends[0])} to {shown(ends[1])}" if ends else "–"

    columns = [
        title
        for model in models
        for title in (model, *((f"{TOLD_LEVEL} % of trials",) if outcome.intervals.get(model) else ()))
    ]
    rows = [
        (label, *(cell for model in models for cell in cells(model, name, shown)))
        for label, name, shown in lines
    ]
    return [Table(("prediction", *columns), rows, right=tuple(columns))]


_RELATIVE: Final = "predicted minus measured in % (loss: percentage points)"


def verification(outcome: VerificationOutcome) -> list[Table]:
    """Errors per quantity and model: on single trials, on medians of repetitions, where extrapolated.

    None where the models cannot be judged.
    """
    if outcome.problem() is not None:
        return []
    kinds = (
        ("trial", False, f"single held-out trials, {_RELATIVE}"),
        ("setting", False, f"medians of the repetitions, {_RELATIVE}"),
        ("trial", True, f"single trials outside the profiled range, {_RELATIVE}"),
    )
    chosen = (
        (title, [row for row in outcome.errors if (row.per, row.extrapolated) == (per, extrapolated)])
        for per, extrapolated, title in kinds
    )
    return [_errors(rows, title) for title, rows in chosen if rows]


def _errors(rows: Sequence[ErrorRow], title: str) -> Table:
    """Relative errors (of loss, differences); the mean in the quantity's own unit as well."""
    covered = any(row.coverage_percent for row in rows)
    intervals = ("in 50/90/99 %",) if covered else ()
    columns = (
        "quantity",
        "model",
        "n",
        "mean abs.",
        "mean",
        "95 % CI of it",
        "std",
        "largest",
        "mean in unit",
        *intervals,
    )

    def cells(row: ErrorRow) -> tuple[str, ...]:
        found = row.relative or row.absolute
        off = row.absolute.mean
        own = duration(off) if row.unit == "ns" else f"{significant(off)} {row.unit}"
        # The others' median is off to both sides alike: the mean says nothing about repeatability.
        mean = (
            ("", "", "")
            if row.of_measurement
            else (
                f"{found.mean:+.2f}",
                f"{found.mean_low:+.2f} to {found.mean_high:+.2f}" if isfinite(found.mean_low) else "",
                own,
            )
        )
        share = "/".join(f"{level:.0f}" for level in row.coverage_percent.values())
        return (
            row.quantity,
            row.model,
            str(row.n),
            f"{found.mean_absolute:.2f}",
            *mean[:2],
            f"{found.std:.2f}" if isfinite(found.std) else "",
            f"{found.max:+.2f}",
            mean[2],
            *((share,) if covered else ()),
        )

    return Table(columns, [cells(row) for row in rows], title=title, right=columns[2:])


def scenario(outcome: ScenarioOutcome) -> list[Table]:
    """Thresholds, parameters and errors."""
    tables = [*profile(outcome.profile), *fit(outcome.fit)]
    return tables if outcome.verification is None else [*tables, *verification(outcome.verification)]


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
