"""Single trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError, TrialError
from weirlab.base.units import PREAMBLE_BYTES
from weirlab.jobs import testbeds
from weirlab.jobs.calibrations import in_force
from weirlab.jobs.progress import attempts_told, kept
from weirlab.jobs.work import Work
from weirlab.measure import Hooks, TrialEntry, run_trial
from weirlab.measure.calibrate import CalibrationPoint
from weirlab.measure.sequence import describe_spec
from weirlab.measure.terms import SINGLE
from weirlab.records import DividedLoss, RuleEncounters, TrialRecord, TrialSpec, device_in_words
from weirlab.scenario import Dut, Lab
from weirlab.store.codec import spec_to_json
from weirlab.store.rows import CPU_ROLES, CPU_STATES, trial_row
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant, mean_bytes

if TYPE_CHECKING:
    import polars as pl

_REPEATED: Final = (
    "trial_id", "index", "attempt", "valid", "invalid", "achieved_pps", "forwarding_pps", "sent", "lost",
    "loss_ratio", "delay_mean_ns", "delay_p50_ns", "delay_p99_ns", "jitter_ns",
)  # fmt: skip
"""Columns that ``--json`` has for each repetition."""
_MEDIAN_OF: Final = ("loss_ratio", "delay_p99_ns")
_DELAYS: Final = ("min", "mean", "max", "p50", "p90", "p99", "p999")


@dataclass(frozen=True)
class TrialOutcome:
    """All attempts of a trial and its repetitions; the last attempt of each repetition counts."""

    run_id: str
    calibration: str | None
    """ID of the calibration in force."""
    records: tuple[TrialRecord, ...]
    cable: CalibrationPoint | None = None
    """Of that calibration, the load nearest to the achieved one."""
    wire_ns: float | None = None
    """Time that a frame of mean size is on the cables, bit by bit; None if their speed is not known."""
    latency: bool = False
    """Whether latency is asked for, too; then :attr:`wire_ns` is known."""

    @property
    def latency_ns(self) -> dict[str, float] | None:
        """Latency of a store-and-forward device (RFC 1242, 3.8): each delay without the time on the cables.

        By the names of delays without ``delay_`` and the unit; None if nobody asks for it.
        """
        if not self.latency or self.wire_ns is None:
            return None
        row = self.row
        return {name: float(row[f"delay_{name}_ns"]) - self.wire_ns for name in _DELAYS}

    @property
    def repetitions(self) -> tuple[TrialRecord, ...]:
        """The attempt that counts, for each repetition."""
        return tuple({record.index: record for record in self.records}.values())

    @cached_property
    def record(self) -> TrialRecord:
        """The last attempt; with several repetitions, the median of the valid ones, if there are any."""
        valid = [repetition for repetition in self.repetitions if repetition.valid]
        if len(valid) < 2:
            return valid[0] if valid else self.records[-1]
        return valid[_median([tuple(trial_row(each)[name] for name in _MEDIAN_OF) for each in valid])]

    @property
    def row(self) -> dict[str, Any]:
        """That record in the table ``trials``."""
        return trial_row(self.record)

    @property
    def queue_packets(self) -> float:
        """Packets inside the device; see :func:`queue_packets`."""
        result = self.record.result
        return queue_packets(result.delay_mean_ns, result.forwarding_pps)

    def document(self) -> dict[str, Any]:
        """For ``--json``: the columns of the store's table ``trials``, CPU states by role, and estimates."""
        record, row = self.record, self.row
        cpu = {f"{role}_{state}_s" for role in CPU_ROLES for state in CPU_STATES}
        return {
            "kind": "trial",
            **{name: value for name, value in row.items() if name not in cpu},
            "invalid": record.invalid,
            "attempts": len(self.records),
            "queue_packets": self.queue_packets,
            "cpu_s": record.host.cpu_s,
            "dut_counters": record.dut_counters,
            "left_out": [asdict(span) for span in record.result.left_out],
            "spec": spec_to_json(record.spec),
            "calibration": self.calibration,
            "cable_delay_p50_ns": None if self.cable is None else self.cable.delay_p50_ns,
            "wire_ns": self.wire_ns,
            **({} if self.latency_ns is None else {"latency_ns": self.latency_ns}),
            "repetitions": [
                {name: trial_row(repetition)[name] for name in _REPEATED} for repetition in self.repetitions
            ],
        }

    def problem(self) -> TrialError | None:
        """The error if the host spoiled every attempt of every repetition, else None."""
        if self.record.valid:
            return None
        reasons = "; ".join(self.record.invalid)
        return TrialError(
            f"the trial stayed invalid in {len(self.records)} attempts: {reasons}. "
            f"It is kept in run {self.run_id}; repeat it on a quieter machine or at a lower load"
        )


def queue_packets(delay_mean_ns: float, forwarding_pps: float) -> float:
    """Packets inside the device by Little's law: mean delay times forwarding rate.

    In overload this is the length of the device's queue.
    """
    return delay_mean_ns * 1e-9 * forwarding_pps


def rules_met(row: Mapping[str, Any]) -> RuleEncounters | None:
    """Which of the user's own rules packets met, from a row of ``trials``; None if they were not counted."""
    counted_in = row.get("rules_counted_in")
    if counted_in not in ("device", "copy"):
        return None
    values = {name: row[name] for name in ("rules_expected", "rules_met", "rules_matched")}
    known = {name: None if value is None or math.isnan(value) else value for name, value in values.items()}
    return RuleEncounters(known["rules_expected"], known["rules_met"], known["rules_matched"], counted_in)


def loss(row: Mapping[str, Any]) -> DividedLoss:
    """:attr:`TrialRecord.loss` of a row of ``trials``."""
    sent, lost = row["sent"], row["lost"]
    whole = row.get("disturbed_sent")
    if whole is None or math.isnan(whole):
        return DividedLoss(sent=sent, lost=lost)
    whole_lost = whole - row["disturbed_received"]
    return DividedLoss(
        sent=whole, lost=whole_lost, disturbed_sent=whole - sent, disturbed_lost=whole_lost - lost
    )


def left_out_ratio(row: Mapping[str, Any]) -> float:
    """Share of the recorded time that the host disturbed, of a row of ``trials``."""
    left_out_s = float(row.get("left_out_s") or 0.0)
    return left_out_s / (float(row["record_s"]) + left_out_s)


def contradicted(trials: pl.DataFrame) -> str:
    """In how many valid trials counters contradict what was expected of the user's own rules, as a sentence;
    empty if in none."""
    columns = ["rules_expected", "rules_met", "rules_matched", "rules_counted_in"]
    rows = trials.filter("valid").select(columns).iter_rows(named=True)
    found = [met.contradiction for row in rows if (met := rules_met(row)) is not None]
    against = [each for each in found if each]
    if not against:
        return ""
    return (
        f"The counters of the rules contradict what Weir expected in {len(against)} of {len(found)} trials: "
        f"{against[0]}."
    )


def _last_attempts(trials: pl.DataFrame) -> pl.DataFrame:
    return trials.sort("index", "attempt").group_by("index", maintain_order=True).last()


def _median(trials: Sequence[Sequence[float | None]]) -> int:
    """Which of ``trials``, each by :data:`_MEDIAN_OF`, stands in the middle; of two, the better one."""

    def known(index: int) -> list[float]:
        return [math.inf if value is None or math.isnan(value) else value for value in trials[index]]

    return sorted(range(len(trials)), key=known)[(len(trials) - 1) // 2]


def repetitions(trials: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of a run's ``trials`` that count, as ``repetitions`` of the trial's document."""
    return _last_attempts(trials).select(_REPEATED).to_dicts()


def counted(trials: pl.DataFrame) -> dict[str, Any]:
    """The row in a run's ``trials`` of the attempt that counts, as :attr:`TrialOutcome.record`."""
    valid = _last_attempts(trials).filter("valid")
    if valid.height:
        row = valid.row(_median(valid.select(_MEDIAN_OF).rows()), named=True)
    else:
        row = trials.sort("index", "attempt").row(-1, named=True)
    return {name: math.nan if value is None else value for name, value in row.items()}


@dataclass(frozen=True)
class TrialRequest:
    """A trial and how often it is carried out."""

    spec: TrialSpec
    attempts: int
    """At most, until one is valid."""
    repetitions: int = 1
    """One after the other, each with its attempts."""
    any_size: bool = False
    """Frames may be longer than ``spec`` says, if those that the user's rules take need more room."""
    latency: bool = False
    """The outcome has latency, too."""


def trial(work: Work, lab: Lab, dut: Dut, request: TrialRequest) -> TrialOutcome:
    """Carry out what is requested, and keep all attempts.

    Raises
    ------
    InputError
        Latency cannot be computed.
    FailedTrial
        The device forwards nothing.
    """
    spec, repetitions = request.spec, request.repetitions
    store, progress = work.store, work.progress
    compile_plan(spec.traffic, spec.rules.places)  # Impossible traffic is refused before anything is built.
    sizes = () if request.any_size else (spec.traffic.sizes,)
    with testbeds.open_bed(
        lab, dut, progress, spec.traffic.flows, sizes=sizes, inputs=work.inputs, aim="any verdict"
    ) as bed:
        if request.any_size:
            (mix,) = testbeds.roomy(bed, spec.traffic.flows, (spec.traffic.sizes,))
            spec = replace(spec, traffic=replace(spec.traffic, sizes=mix))
        spec = replace(spec, rules=testbeds.rule_setup(bed, spec.rules))
        bed.set_rules(spec.rules)  # If it refuses them, there is nothing to keep.
        bed.set_cross_traffic(spec.cross_traffic)
        in_use = in_force(store, bed)
        calibration = in_use.id if in_use else None
        scenario = {
            "name": work.run_name("trial with", dut, device_in_words(bed.dut)),
            "lab": lab.model_dump(mode="json"),
            "dut": dut.model_dump(mode="json"),
            "trial": spec_to_json(spec),
        }
        facts = testbeds.facts(bed, work.command)
        on_wire_ns = wire_ns(facts, mean_bytes(spec.traffic.sizes))
        if request.latency:
            _refuse_latency(spec, on_wire_ns)
        with kept(lambda: store.create("trial", scenario, facts, calibration=calibration)) as writer:
            device = device_in_words(bed.dut)
            progress.stage(
                f"{describe_spec(spec)}, through {device} in the lab {bed.lab}, run {writer.run_id}"
            )
            records: list[TrialRecord] = []
            for index in range(repetitions):
                records += run_trial(
                    bed,
                    spec,
                    TrialEntry(writer.run_id, index),
                    terms=replace(SINGLE, max_attempts=request.attempts),
                    hooks=Hooks(
                        on_attempt=attempts_told(progress, spec, request.attempts, index, repetitions),
                        on_record=writer.add,
                    ),
                    set_rules=False,
                )
    # The run is complete: only now is it known in which state the host was in most trials.
    why = dict(writer.run.trials().select("trial_id", "invalid").iter_rows())
    records = [
        replace(each, invalid=(why[each.trial_id],)) if each.valid and why[each.trial_id] else each
        for each in records
    ]
    cable = in_use.nearest(records[-1].result.achieved_pps) if in_use else None
    return TrialOutcome(writer.run_id, calibration, tuple(records), cable, on_wire_ns, request.latency)


def _refuse_latency(spec: TrialSpec, on_wire_ns: float | None) -> None:
    """Raise ``InputError`` if the time of each frame on the cables is not known."""
    if not isinstance(spec.traffic.sizes, Constant):
        raise InputError(
            "--latency: frames of several sizes are on the wire for different times; give --frame"
        )
    if on_wire_ns is None:
        raise InputError(
            "--latency: the time on the wire is not known, since the ports do not tell their speed; it needs "
            "--between with two network cards (weir ports shows their speed)"
        )


def wire_ns(facts: Mapping[str, Any], frame_bytes: float) -> float | None:
    """How long a frame, with its preamble, is on the cables at the ports of the wired lab.

    Of a store-and-forward device, latency (RFC 1242, 3.8) is the measured delay without that, and without
    what the tester itself adds. None if a port does not tell its speed.
    """
    speeds = facts.get("speed_mbps", ())
    if not speeds or None in speeds:
        return None
    bits = 8.0 * (frame_bytes + PREAMBLE_BYTES)
    # Without a device there is only one cable.
    cables = speeds[:1] if facts.get("mode") == "cable" else speeds
    return float(sum(bits * 1e3 / speed for speed in cables))
