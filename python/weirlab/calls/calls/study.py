"""Calls written to a capture file, or made through a device."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base import files
from weirlab.base.errors import InputError, TrialError
from weirlab.base.units import NS_PER_S
from weirlab.calls.calls.wire import KIND, calls_sheet
from weirlab.jobs import testbeds
from weirlab.jobs.calibrations import in_force
from weirlab.jobs.progress import attempts_told, kept
from weirlab.jobs.work import Work
from weirlab.lab import capture
from weirlab.lab.capture import CaptureFile
from weirlab.measure.calls import CallAssessment, run_calls
from weirlab.measure.terms import SINGLE
from weirlab.measure.trial import Hooks, TrialEntry
from weirlab.quality.distribution import CallerPercentiles, QualitySummary, summarise
from weirlab.quality.jitterbuffer import USUAL, BufferChoice, Buffers
from weirlab.records import CallTable, RuleSetup, TrialRecord, TrialSpec, device_in_words
from weirlab.scenario import Dut, Lab
from weirlab.store import Run
from weirlab.store.codec import spec_to_json
from weirlab.store.frames import schema_of
from weirlab.store.rows import trial_row
from weirlab.traffic.calls.impairments import FrameArrivals, Impairments
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import Calls, describe
from weirlab.traffic.calls.transport import TITLES
from weirlab.traffic.schedule import compile_plan

NO_RULES: Final = RuleSetup()

PACKETS: Final = "packets"
"""Name of the table with every packet that arrived."""


@dataclass(frozen=True)
class PacketRow:
    """One arrival of a recorded packet, copies included, in order of arrival within each direction."""

    trial_id: str
    """The attempt in `trials`."""
    flow: int
    """Number of the flow, from 0."""
    call: int
    """Number of the call, from 0."""
    back: bool
    """Direction: false where the sender's side talks."""
    media: bool
    """Whether the flow carries speech; false for signalling and RTCP."""
    seq: int
    """Sequence number within the flow, 0 for its first recorded packet."""
    sent_ns: int
    """Departure, from the start of recording."""
    arrival_ns: int
    """Arrival, from the start of recording."""
    delay_ns: int
    """Arrival less departure."""


@dataclass(frozen=True)
class CaptureOutcome:
    """Calls written to a capture file."""

    calls: Calls
    captured: CaptureFile
    flows: int
    warmup_s: float
    """Time at its beginning in which calls are set up."""
    faults: Impairments | None = None
    arrivals: FrameArrivals | None = None
    """What the faults did; None without faults."""

    @property
    def planted(self) -> dict[str, int]:
        """Packets of speech that were lost, came out of order or twice, over all streams."""
        if self.arrivals is None:
            return {}
        return {name: int(getattr(self.arrivals, name).sum()) for name in ("lost", "reordered", "duplicated")}

    def document(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "description": describe(self.calls),
            "path": self.captured.path,
            "frames": self.captured.frames,
            "file_bytes": self.captured.file_bytes,
            "lasts_s": self.captured.lasts_ns / NS_PER_S,
            "flows": self.flows,
            "warmup_s": self.warmup_s,
            "impairments": None if self.faults is None else asdict(self.faults) | self.planted,
        }


def write_calls(
    calls: Calls, path: Path, *, duration_s: float, warmup_s: float, faults: Impairments | None = None
) -> CaptureOutcome:
    """Write every packet of ``calls``, those of the warm-up included, to a capture file; nothing is sent.

    With ``faults`` the file holds what comes out of a network that has these.

    Raises
    ------
    InputError
        The calls or the file are impossible, or the capture would not fit into memory.
    StoreError
        The file cannot be written.
    """
    files.check_output(path, "--write")
    load = calls_sheet(calls, duration_s=duration_s + warmup_s, line_bps=1e9)
    needed = 2 * load.directions * load.media.frame_bps / 8 * (duration_s + warmup_s)
    if needed > (free := _free_memory_bytes()):
        raise InputError(
            f"--write: this capture is made in memory and would take some {needed / 1e9:,.1f} GB of it, with "
            f"{free / 1e9:.1f} GB free; write fewer calls or a shorter time"
        )
    plan = compile_plan(traffic_of(calls, duration_s, warmup_s))
    captured, arrivals = capture.write_plan(path, plan, faults)
    return CaptureOutcome(calls, captured, len(plan.flows), warmup_s, faults, arrivals)


@dataclass(frozen=True)
class CallsOutcome:
    """Calls made through a device: every attempt, the last one counts."""

    run: Run
    calls: Calls
    calibration: str | None
    records: tuple[TrialRecord, ...]
    heard: BufferChoice
    buffers: Buffers
    packets: Path | None
    """Path of the log of all packets, if it was kept."""

    @property
    def record(self) -> TrialRecord:
        return self.records[-1]

    @property
    def table(self) -> CallTable:
        """A row per call and direction, with ``mos`` behind the requested jitter buffer.

        ``r_factor`` is known only behind the better of both; NaN if one kind was requested.
        """
        table = self.record.calls
        if table is None:
            raise TrialError(f"the trial of run {self.run.run_id} has no calls in it")
        if self.heard == "best":
            return table
        mos = getattr(table, f"mos_{self.heard}")
        return replace(table, mos=mos, r_factor=np.full_like(mos, np.nan))

    @property
    def quality(self) -> QualitySummary:
        """Spread over the callers; each side of a call is one."""
        return summarise(self.table, class_titles(self.calls))

    @property
    def spreads(self) -> dict[str, CallerPercentiles]:
        """Percentiles over the callers of what :attr:`quality` does not have."""
        table = self.table
        return {
            name: CallerPercentiles.of(getattr(table, name))
            for name in ("r_factor", "jitter_ns", "jitter_max_ns", "longest_gap_ns", "burst_ratio")
        }

    def document(self) -> dict[str, Any]:
        """For ``--json``: the columns of the store's table ``trials``, and the quality of the calls."""
        record = self.record
        return {
            **trial_row(record),
            "kind": KIND,
            "description": describe(self.calls),
            "invalid": record.invalid,
            "attempts": len(self.records),
            "dut_counters": record.dut_counters,
            "left_out": [asdict(span) for span in record.result.left_out],
            "loss": asdict(record.loss)
            | {"ratio": record.loss.ratio, "ratio_undisturbed": record.loss.rest_ratio},
            "spec": spec_to_json(record.spec),
            "calibration": self.calibration,
            "jitter_buffer": {"heard": self.heard, **asdict(self.buffers)},
            "quality": self.quality.to_dict() | {name: asdict(each) for name, each in self.spreads.items()},
            "packets": self.packets,
        }

    def problem(self) -> TrialError | None:
        """The error to report if every attempt was spoiled."""
        if self.record.valid:
            return None
        reasons = "; ".join(self.record.invalid)
        return TrialError(
            f"the calls were spoiled in {len(self.records)} of {len(self.records)} attempts: {reasons}. "
            f"They are kept in run {self.run.run_id}; repeat them on a quieter machine, or make fewer"
        )


@dataclass(frozen=True)
class CallTrialPlan:
    """How calls are made, and the jitter buffers of the telephones."""

    duration_s: float
    warmup_s: float
    rules: RuleSetup = NO_RULES
    buffers: Buffers = USUAL
    heard: BufferChoice = "best"
    attempts: int = 3
    keep_packets: bool = False


def make_calls(work: Work, lab: Lab, dut: Dut, calls: Calls, course: CallTrialPlan) -> CallsOutcome:
    """Make ``calls`` through a device and assess what was heard; repeated while the host spoils them.

    Raises
    ------
    InputError
        The calls are impossible; raised before anything is built.
    FailedTrial
        The device forwards nothing.
    """
    store, progress, buffers = work.store, work.progress, course.buffers
    traffic = traffic_of(calls, course.duration_s, course.warmup_s)
    compile_plan(traffic)
    # Packets sent from behind the device must be accepted there as well.
    spec = TrialSpec(traffic, replace(course.rules, both_ways=calls.directions != "forward"), describe(calls))
    with testbeds.open_bed(lab, dut, progress, calls, inputs=work.inputs) as bed:
        spec = replace(spec, rules=testbeds.rule_setup(bed, spec.rules))
        bed.set_rules(spec.rules)  # If it refuses them, there is nothing to keep.
        in_use = in_force(store, bed)
        calibration = in_use.id if in_use else None
        scenario = {
            "name": f"calls through {device_in_words(bed.dut)}",
            "lab": lab.model_dump(mode="json"),
            "dut": dut.model_dump(mode="json"),
            KIND: {**spec_to_json(spec), "jitter_buffer": {"heard": course.heard, **asdict(buffers)}},
        }
        facts = testbeds.facts(bed, work.command)
        with kept(lambda: store.create(KIND, scenario, facts, calibration=calibration)) as writer:
            device = device_in_words(bed.dut)
            progress.stage(f"{describe(calls)}, through {device} in the lab {bed.lab}, run {writer.run_id}")

            def keep(record: TrialRecord) -> None:
                writer.add(record)
                if course.keep_packets and record.result.packets is not None:
                    writer.put_table(PACKETS, packet_table(record))

            records = run_calls(
                bed,
                spec,
                TrialEntry(writer.run_id),
                CallAssessment(buffers, course.keep_packets),
                terms=replace(SINGLE, max_attempts=course.attempts),
                hooks=Hooks(on_attempt=attempts_told(progress, spec, course.attempts), on_record=keep),
                set_rules=False,
            )
    log = writer.path / f"{PACKETS}.parquet" if writer.run.has_table(PACKETS) else None
    return CallsOutcome(writer.run, calls, calibration, tuple(records), course.heard, buffers, log)


def class_titles(calls: Calls) -> list[str]:
    """A title for each class: its codec, with the transport if several classes share a codec."""
    titles = [kind.stream.title for kind in calls.classes]
    if len(set(titles)) == len(titles):
        return titles
    return [
        f"{title} over {TITLES[kind.transport]}" for title, kind in zip(titles, calls.classes, strict=True)
    ]


def packet_table(record: TrialRecord) -> pl.DataFrame:
    """The table ``packets``: a row per packet that arrived, in order of arrival within each direction."""
    log = record.result.packets
    if log is None:
        raise ValueError("the record has no packets")
    start, of = record.result.record_start_ns, log.call_flows
    sent = log.sent_ns.astype("int64") - start
    arrived = log.arrival_ns.astype("int64") - start
    return pl.DataFrame(
        {
            "trial_id": pl.Series([record.trial_id], dtype=pl.String).new_from_index(0, len(log.flow)),
            "flow": log.flow,
            "call": of.call[log.flow],
            "back": of.back[log.flow],
            "media": of.carries_media[log.flow],
            "seq": log.seq.astype("int64") - log.first_seq.astype("int64")[log.flow],
            "sent_ns": sent,
            "arrival_ns": arrived,
            "delay_ns": arrived - sent,
        }
    ).select(list(schema_of(PacketRow)))


def _free_memory_bytes() -> float:
    return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
