"""Trials, calibrations and profiles as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, rate
from weirlab.cli.results.tables import left_out, rates, repetitions, rules_met
from weirlab.devices.prediction.tables import fit, verification
from weirlab.records import ESTABLISHED, TrialRecord, device_in_words
from weirlab.store.rows import trial_row

if TYPE_CHECKING:
    from weirlab.devices.profile.findings import ProfileFindings
    from weirlab.jobs.profiles import ProfileOutcome
    from weirlab.jobs.trials import TrialOutcome


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
        *left_out(record),
        ("offered load", "max" if record.spec.traffic.rate.unit == "max" else rate(record.offered_pps)),
        ("achieved load", rate(result.achieved_pps)),
        ("forwarding rate", rate(result.forwarding_pps)),
        ("frame loss ratio", f"{percent(result.loss_ratio)} ({count(result.lost)} of {count(result.sent)})"),
        ("duplicated, reordered", f"{count(result.duplicated)}, {count(result.reordered)}"),
        ("delay p50, p90, p99, p99.9", ", ".join(q.values())),
        ("delay min, mean, max", ", ".join(map(duration, extremes))),
        *_bias(outcome),
        ("jitter (RFC 3550)", duration(result.jitter_ns)),
        ("packets in the device", _queued(outcome.queue_packets)),
        *_answers(record),
        *([] if record.dropped_pps is None else [("dropped at the rule", rate(record.dropped_pps))]),
        *rules_met(record),
        ("calibration", outcome.calibration or "none"),
    ]
    tables = [Table("Trial", ("", ""), facts), *repetitions([*map(trial_row, outcome.repetitions)])]
    cpu = record.host.cpu_s
    states = list(dict.fromkeys(state for times in cpu.values() for state in times))
    if states:
        rows = [(role, *(f"{times.get(state, 0.0):.2f}" for state in states)) for role, times in cpu.items()]
        columns = ("CPU", *states)
        tables.append(Table("CPU time in s", columns, rows, details=True))
    counters = [(name, count(value)) for name, value in record.dut_counters.items() if value]
    if counters:
        tables.append(Table("Counters of the device", ("", ""), counters, details=True))
    return tables


def _bias(outcome: TrialOutcome) -> Iterator[tuple[str, str]]:
    """What sender, receiver and cables have in these delays."""
    if (cable := outcome.cable) is not None:
        median = duration(cable.delay_p50_ns)
        yield ("of that without a device", f"{median} (median over a cable at {rate(cable.achieved_pps)})")
    if outcome.wire_ns is not None:
        yield ("of that on the wire", duration(outcome.wire_ns))
    if (latency := outcome.latency_ns) is not None:
        for names in (("p50", "p90", "p99", "p999"), ("min", "mean", "max")):
            shown = ", ".join(name.replace("999", "99.9") for name in names)
            yield (f"latency {shown}", ", ".join(duration(latency[name]) for name in names))


def _answers(record: TrialRecord) -> list[tuple[str, str]]:
    """What the device carried back, and which packets it knew."""
    answers = record.result.answers
    if answers is None:
        return []
    flows = record.spec.traffic.flows
    facts = [("packets that open a flow", percent(flows.new_share))]
    if flows.new_share < 1:
        facts.append(("known flows", f"{count(answers.open_flows)} of {count(answers.known_flows)} answered"))
    if answers.sent:
        mean = duration(answers.delay_mean_ns)
        carried = f"{count(answers.received)} of {count(answers.sent)}, mean delay {mean}"
        facts.append(("answers carried back", carried))
    if (met := record.dut_counters.get(ESTABLISHED)) is not None:
        sent = count(answers.established_sent)
        whole = f"{count(met)} of {sent} in both directions, warm-up included"
        facts.append(("met the rule for known connections", whole))
    return facts


def calibration(points: Iterable[Mapping[str, Any]]) -> Table:
    """One row per load; ``points`` as a calibration keeps them."""
    columns = (
        "Load", "Achieved", "Pacing error", "Added delay, median", "Added delay, p99", "Lost", "Valid trials",
        "Invalid",
    )  # fmt: skip
    rows = [
        (
            str(point["rate_text"]),
            rate(point.get("achieved_pps")),
            percent(point.get("pacing_error_ratio")),
            *(duration(point.get(name)) for name in ("delay_p50_ns", "delay_p99_ns")),
            *(count(point.get(name)) for name in ("lost", "valid", "invalid")),
        )
        for point in points
    ]
    return Table("Over a plain cable", columns, rows, spare=("Invalid", "Valid trials"))


def _queued(packets: float | None) -> str:
    if packets is None or math.isnan(packets):
        return NOTHING
    return f"{packets:.4g} (mean delay x forwarding rate)"


def profile(outcome: ProfileOutcome) -> list[Table]:
    """Measured thresholds and delays, and trials unlike the others."""
    return rates(outcome.rates)


def scenario(found: ProfileFindings) -> list[Table]:
    """Thresholds, parameters and errors."""
    tables = [*profile(found.profile), *fit(found.fit, details=True)]
    return tables if found.verification is None else [*tables, *verification(found.verification)]
