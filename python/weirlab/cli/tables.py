"""Outcomes as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.cli.output import Table
from weirlab.cli.quantities import count, duration, percent, rate, significant

if TYPE_CHECKING:
    from weirlab.jobs import (
        CalibrationOutcome,
        FitOutcome,
        PredictionOutcome,
        ProfileOutcome,
        RunOutcome,
        ScenarioOutcome,
        TrialOutcome,
        VerificationOutcome,
    )
    from weirlab.lab.doctor import Finding


def trial(outcome: TrialOutcome) -> list[Table]:
    """Load, delay, device and host of the attempt that counts."""
    record = outcome.record
    result = record.result
    q = {name: duration(result.histogram.quantile_ns(name)) for name in (0.5, 0.9, 0.99, 0.999)}
    extremes = (result.delay_min_ns, result.delay_mean_ns, result.delay_max_ns)
    how = f"{record.lab}, {result.backend} {result.xdp_mode}".rstrip()
    facts = [
        ("run", outcome.run_id),
        ("device", record.dut if record.lab == result.backend else f"{record.dut} ({how})"),
        ("valid", "yes" if record.valid else f"no: {'; '.join(record.invalid)}"),
        ("attempts", str(len(outcome.records))),
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


def fit(outcome: FitOutcome) -> list[Table]:
    """The queueing model's parameters."""
    model = outcome.queueing
    if model is None:
        return []
    columns = ("parameter", "value", "± standard error", "unit", "meaning")
    rows = [
        (p.name, significant(p.value, 4), significant(p.stderr, 2), p.unit, p.meaning)
        for p in model.parameters()
    ]
    return [Table(columns, rows, title="queueing model", right=columns[1:3])]


def prediction(outcome: PredictionOutcome) -> list[Table]:
    """One column per model."""
    models = outcome.predictions
    lines = (
        ("threshold", "threshold_pps", rate),
        ("frame loss ratio", "loss_ratio", percent),
        ("delay mean", "delay_mean_ns", duration),
        ("delay p50", "delay_p50_ns", duration),
        ("delay p90", "delay_p90_ns", duration),
        ("delay p99", "delay_p99_ns", duration),
        ("jitter", "jitter_ns", duration),
    )
    rows = [(label, *(shown(model[name]) for model in models.values())) for label, name, shown in lines]
    return [Table(("prediction", *models), rows, right=tuple(models))]


def verification(outcome: VerificationOutcome) -> list[Table]:
    """Errors per model and quantity."""
    columns = ("quantity", "model", "n", "mean error, absolute", "bias", "spread", "largest")

    def shown(value: float, unit: str) -> str:
        if unit == "ns":
            return duration(value)
        return f"{significant(value)} {unit}"

    rows = [
        (
            row.quantity,
            row.model,
            str(row.n),
            percent(row.mape_percent / 100),
            *(shown(value, row.unit) for value in (row.mean, row.std, row.max)),
        )
        for row in sorted(outcome.errors, key=lambda row: row.quantity)
    ]
    return [Table(columns, rows, title="predicted minus measured, held-out trials", right=columns[2:])]


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
    return [*tables, *thresholds(outcome.thresholds)]


def doctor(findings: Sequence[Finding]) -> list[Table]:
    """What works and what does not."""

    def verdict(finding: Finding) -> str:
        return "yes" if finding.ok else "NO" if finding.essential else "no"

    rows = [(verdict(f), f.name, f.detail, "" if f.ok else f.remedy) for f in findings]
    return [Table(("works", "what", "found", "what to do"), rows)]
