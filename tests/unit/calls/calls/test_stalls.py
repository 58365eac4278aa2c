"""Calls on a host that stands still now and then: what is judged without that, and what is heard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.calls.calls import tables
from weirlab.calls.calls.page import page
from weirlab.calls.calls.study import CallsOutcome
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure.calls import run_calls
from weirlab.measure.terms import SINGLE
from weirlab.measure.trial import TrialEntry
from weirlab.quality.jitterbuffer import Buffers
from weirlab.records import EngineResult, RuleSetup, TrialRecord, TrialSpec
from weirlab.requirements import DemandJudgement, parse
from weirlab.store import Store
from weirlab.testing import FakeBed
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import parse_calls

DEVICE = SimDevice(
    queue_packets=26,
    service_fixed_ns=100_000.0,
    service_per_rule_ns=0.0,
    service_per_byte_ns=0.0,
    base_delay_ns=0.0,
    noise="none",
)
"""10,000 packets/s, which is 100 calls of G.711 in both directions."""
STALLS = replace(DEVICE, disturb_ns=8e6, disturb_every_ns=200e6)
SPEC = TrialSpec(traffic_of(parse_calls(70), 1.0, 0.1), RuleSetup(both_ways=True))
CROWD = replace(SPEC, traffic=traffic_of(parse_calls(130), 1.0, 0.1))
NO_LOSS = ("loss<0.1%", "p99<1ms")


def made(device: SimDevice, spec: TrialSpec = SPEC) -> TrialRecord:
    return run_calls(SimLab(device), spec, TrialEntry("r"), terms=replace(SINGLE, max_attempts=1))[-1]


def outcome(record: TrialRecord, folder: Path) -> CallsOutcome:
    with Store(folder).create("calls", {"name": "calls"}, {"lab": "sim"}) as writer:
        record = replace(record, run_id=writer.run_id, trial_id=f"{writer.run_id}-0000-1")
        writer.add(record)
    calls = record.spec.traffic.calls
    assert calls is not None
    return CallsOutcome(writer.run, calls, None, (record,), "best", Buffers(), None)


def judged(found: CallsOutcome, *texts: str) -> list[DemandJudgement]:
    return list(tables.of_calls([parse(text, tables.CALLS) for text in texts], found))


def test_a_device_that_loses_only_while_the_host_stands_still_meets_its_requirements(tmp_path: Path) -> None:
    record = made(STALLS)
    assert record.valid
    assert record.result.lost == 0
    assert record.loss.disturbed_lost == record.loss.lost > 0
    found = outcome(record, tmp_path)
    assert [one.verdict for one in judged(found, *NO_LOSS)] == ["met", "met"]
    assert judged(found, "loss<0.1%")[0].case.value == 0


def test_callers_hear_what_was_lost_and_a_miss_says_when_it_was_sent(tmp_path: Path) -> None:
    record = made(STALLS)
    assert record.calls is not None
    assert int(record.calls.lost.sum()) > 0.9 * record.loss.lost
    worst, gap = judged(outcome(record, tmp_path), "mos>=4.4", "gap<21ms")
    assert (worst.verdict, gap.verdict) == ("not met", "not met")
    for one in (worst, gap):
        assert "the host disturbed" in one.because
        assert "100 % of the lost packets" in one.because
    (quiet,) = judged(outcome(made(DEVICE), tmp_path), "mos>=4.4")
    assert (quiet.verdict, quiet.case.note) == ("not met", "")


def test_a_device_in_overload_does_not_get_better_by_a_host_that_stands_still(tmp_path: Path) -> None:
    quiet, disturbed = made(DEVICE, CROWD), made(STALLS, CROWD)
    assert disturbed.disturbed is not None
    assert disturbed.result.loss_ratio == pytest.approx(quiet.result.loss_ratio, rel=0.1)
    assert [one.verdict for one in judged(outcome(disturbed, tmp_path), *NO_LOSS)] == ["not met", "not met"]


def test_a_host_that_stands_still_most_of_the_time_spoils_calls(tmp_path: Path) -> None:
    record = made(replace(DEVICE, disturb_ns=8e6, disturb_every_ns=25e6))
    (why,) = record.invalid
    assert why.startswith("too much disturbed by the host")
    assert (record.disturbed, record.result.left_out) == (None, ())
    assert [one.verdict for one in judged(outcome(record, tmp_path), *NO_LOSS)] == ["undecided"] * 2


def test_a_sender_that_is_late_all_the_time_has_sent_all_the_same() -> None:
    result = SimLab(DEVICE).run(SPEC.traffic)
    assert result.windows is not None
    late = replace(result.windows, late_max_ns=np.full(len(result.series.sent), 50_000_000, np.uint64))
    bed = FakeBed(script=[replace(result, windows=late)])
    (record,) = run_calls(bed, SPEC, TrialEntry("r"), terms=replace(SINGLE, max_attempts=1))
    (why,) = record.invalid
    assert why.startswith("too much disturbed by the host: 100 % of the trial")


def played(lost: slice, *, stolen: slice) -> EngineResult:
    """Calls that lost half of their packets in some bins, and a host that took the device's CPU in some."""
    result = SimLab(DEVICE).run(SPEC.traffic)
    assert result.windows is not None
    assert result.windows.looks is not None
    received = result.series.received.copy()
    received[lost] //= np.uint64(2)
    steps = np.zeros(len(result.windows.looks.at_ns), np.uint64)
    steps[1:-1][stolen] = 5_000_000
    looks = replace(
        result.windows.looks, device_stolen_ns=np.cumsum(steps), device_clock_ns=result.windows.looks.at_ns
    )
    total = int(received.sum())
    return replace(
        result,
        received=total,
        lost=result.sent - total,
        series=replace(result.series, received=received),
        windows=replace(result.windows, looks=looks),
    )


@pytest.mark.parametrize(
    ("lost", "stolen", "rest_lost"),
    [
        (slice(40, 43), slice(40, 44), False),
        (slice(40, 43), slice(0, 0), True),
        (slice(40, 43), slice(70, 74), True),
        (slice(0, 0), slice(40, 44), False),
    ],
    ids=["stall", "no stall", "elsewhere", "no loss"],
)
def test_bins_are_left_out_by_what_the_host_did_and_never_by_loss(
    lost: slice, stolen: slice, rest_lost: bool
) -> None:
    result = played(lost, stolen=stolen)
    (record,) = run_calls(
        FakeBed(script=[result]), SPEC, TrialEntry("r"), terms=replace(SINGLE, max_attempts=1)
    )
    assert record.valid
    assert (record.result.lost > 0) is rest_lost
    same = played(slice(0, 0), stolen=stolen)
    (other,) = run_calls(FakeBed(script=[same]), SPEC, TrialEntry("r"), terms=replace(SINGLE, max_attempts=1))
    assert record.result.left_out == other.result.left_out


def test_sentence_document_and_page_have_both_losses(tmp_path: Path) -> None:
    found = outcome(made(STALLS), tmp_path)
    loss = found.record.loss
    document = found.document()
    assert document["loss"]["ratio"] == loss.ratio
    assert loss.ratio > document["loss"]["ratio_undisturbed"] == 0
    assert sum(span["end_ns"] - span["begin_ns"] for span in document["left_out"]) > 0
    said = tables.sentence(found)
    assert "which the host disturbed, 0 %" in said
    (headline,) = tables.headlines(found.run)
    assert headline.split(";")[0] in said
    tile = next(tile for tile in page(found.run).tiles if tile.label == "Packets lost")
    assert tile.value != "none"
    assert "undisturbed" in tile.note
