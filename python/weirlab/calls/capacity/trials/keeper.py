"""Each trial with calls becomes a line of numbers as soon as it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import LabError
from weirlab.calls.capacity.trials import boxes, losses, rows
from weirlab.calls.capacity.trials.rows import (
    CAPACITY,
    GAPS,
    INSIDE,
    CallGapRow,
    CallQuality,
    CapacityRow,
    InsideRow,
    Phase,
)
from weirlab.lab.base import TestBed, WatchableBed
from weirlab.lab.wiring import IN0, OUT0
from weirlab.measure.calls import CallAssessment
from weirlab.measure.calls import heard as with_calls
from weirlab.quality.jitterbuffer import Buffers
from weirlab.records import F64, U64, FlowTable, TrialRecord
from weirlab.store import RunWriter
from weirlab.store.frames import frame_of

_BUFFERS = Buffers()


class CallRecorder:
    """Completes the records of trials with calls with what they say in the tables of ``writer``'s run.

    The calls of all trials together would be many millions of rows: a record keeps the sums over each
    direction, and its line in the table ``capacity`` what callers heard.

    Parameters
    ----------
    good_mos:
        From where on a call counts as good.
    buffers:
        The jitter buffers of the telephones.
    """

    def __init__(
        self, bed: TestBed, writer: RunWriter, *, good_mos: float = 4.0, buffers: Buffers = _BUFFERS
    ) -> None:
        self._bed = bed
        self._good_mos = good_mos
        self._buffers = buffers
        self._rows = rows.kept(writer.run)

    @property
    def valid_rows(self) -> list[CapacityRow]:
        """Of all valid trials kept so far, in order."""
        return [row for row in self._rows if row.valid]

    def complete(self, record: TrialRecord, phase: Phase, run: int | None) -> TrialRecord:
        """``record`` as it is to be kept, with its rows of the tables.

        Raises
        ------
        LabError
            The device lets calls through one way only.
        """
        record = with_calls(record, CallAssessment(self._buffers, keep_packets=True))
        whole = record.lab != "sim"
        counted = boxes.count(record.result, record.dut_counters, whole=whole)
        if counted is not None and not counted.agree and record.valid:
            record = replace(record, invalid=(f"the device's counters disagree: {counted.disagreement}",))
        summary = None if record.calls is None else rows.heard(record.calls, self._good_mos)
        if summary is not None:
            _require_both_ways(record, summary)
        seen = self._bed.seen_inside() if isinstance(self._bed, WatchableBed) else None
        host = losses.disturbed(record)
        row = rows.capacity_row(record, summary, counted, seen, host, phase=phase, run=run)
        tables = {CAPACITY: frame_of(CapacityRow, [row])}
        if details := rows.inside_rows(record, seen, IN0.name, OUT0.name):
            tables[INSIDE] = frame_of(InsideRow, details)
        if gaps := rows.gap_rows(record):
            tables[GAPS] = frame_of(CallGapRow, gaps)
        self._rows.append(row)
        return replace(slim(record), tables=tables)


def slim(record: TrialRecord) -> TrialRecord:
    """``record`` without packets and calls, its flows summed over each direction: forward, then back."""
    result = record.result
    if result.packets is None:
        return replace(record, calls=None)
    back = result.packets.call_flows.back
    directions = [mask for mask in (~back, back) if mask.any()]
    return replace(
        record, calls=None, result=replace(result, packets=None, flows=summed(result.flows, directions))
    )


def summed(flows: FlowTable, groups: Sequence[npt.NDArray[np.bool_]]) -> FlowTable:
    """One row for each group of flows: sums, extremes, and means over the packets that arrived."""

    def total(values: U64) -> U64:
        return np.array([values[group].sum() for group in groups], dtype=np.uint64)

    def extreme(pick: Callable[[F64], float], values: F64) -> F64:
        known = [values[group][np.isfinite(values[group])] for group in groups]
        return np.array([pick(some) if len(some) else np.nan for some in known])

    def mean(values: F64) -> F64:
        counts = flows.received.astype(np.float64) * np.isfinite(values)
        weights = [counts[group] for group in groups]
        return np.array(
            [
                np.nansum(values[group] * weight) / weight.sum() if weight.any() else np.nan
                for group, weight in zip(groups, weights, strict=True)
            ]
        )

    return FlowTable(
        sent=total(flows.sent),
        received=total(flows.received),
        lost=total(flows.lost),
        duplicated=total(flows.duplicated),
        reordered=total(flows.reordered),
        delay_min_ns=extreme(min, flows.delay_min_ns),
        delay_mean_ns=mean(flows.delay_mean_ns),
        delay_max_ns=extreme(max, flows.delay_max_ns),
        jitter_ns=mean(flows.jitter_ns),
        longest_gap_ns=extreme(max, flows.longest_gap_ns),
    )


def _require_both_ways(record: TrialRecord, heard: CallQuality) -> None:
    """A device that drops all of one direction has not been told to let it through."""
    for dead, alive, way in (
        (heard.loss_back, heard.loss_forward, "from the receiver's side (in by out0)"),
        (heard.loss_forward, heard.loss_back, "from the sender's side (in by in0)"),
    ):
        if dead == 1 and alive < 1:
            raise LabError(
                f"{record.dut} lets nothing through that comes {way}, so nobody hears the other: its rules "
                "must accept 198.18.0.0/15 in both directions (IPv6: 2001:2::/48), or make calls in one "
                "direction only ('directions: forward')"
            )
