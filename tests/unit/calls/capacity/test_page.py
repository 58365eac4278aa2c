"""The page about capacity: what it concludes from trials, searches and predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weirlab.calls.capacity.findings import CapacityConclusions, CounterAgreement
from weirlab.calls.capacity.page import tell
from weirlab.calls.capacity.prediction import CapacityPrediction
from weirlab.calls.capacity.tables import CapacityEvidence
from weirlab.calls.capacity.trials.losses import CallLoss, DropThreshold
from weirlab.calls.capacity.trials.rows import CapacityRow
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal
from weirlab.store.frames import frame_of

from .made import capacity_row

GOAL = CallGoal("without loss")
HEARD = CallGoal("with MOS 4 for 99 % of them", 0.01, 4.0)


def trial(index: int, calls: int, loss: float = 0.0, position: int = 400, **more: Any) -> CapacityRow:
    usual: dict[str, Any] = {
        "trial_id": f"t{index}",
        "index": index,
        "position": position,
        "lost": round(100 * calls * loss),
        "loss_ratio": loss,
        "mos_min": 4.4 - 10 * loss,
        "mos_p1": 4.4 - 10 * loss,
        "mos_p50": 4.4,
        "good_share": 1.0 if loss == 0 else 0.5,
        "samples_due": 10,
        "samples_taken": 10 if loss == 0 else 4,
        "sample_late_max_s": 0.0,
        "cpu_idle": 0.5,
        "cpu_softirq": 0.5,
        "connections_max": 0,
    }
    return capacity_row(calls, **usual | more)


def findings(rows: list[CapacityRow], lab: str = "netns", **found: Any) -> CapacityEvidence:
    manifest = {
        "run_id": "20261121-1200-capacity-abcd",
        "host": "bench",
        "kernel": "6.18",
        "scenario": {"name": "Calls", "calls": {"codec": "g711", "transport": "rtp", "directions": "both"}},
        "facts": {"lab": lab, "dut": "iptables-legacy"},
    }
    return CapacityEvidence(
        manifest, frame_of(CapacityRow, rows), pl.DataFrame(), CapacityConclusions(**found)
    )


def searched(calls: int | None, goal: CallGoal = GOAL, **more: Any) -> CallCapacity:
    return replace(CallCapacity(goal, 400, calls, too_many=2600, pps=25e4), **more)


def test_the_answer_says_how_many_calls_and_whether_the_model_knew() -> None:
    predicted = CapacityPrediction(GOAL, 400, 2625, 262_500.0, 264_000.0, 218.0)
    page = tell(findings([trial(1, 2500)], search=(searched(2500),), predicted=(predicted,)))
    assert page.answer == "iptables-legacy carries 2,500\u00a0calls with 400\u00a0rules without loss."
    assert page.lede == (
        "The model of its profile, which saw no call, is off by +5.0 % (400\u00a0rules, without loss).",
    )


def test_a_prediction_that_nothing_has_checked_says_so_once() -> None:
    predicted = CapacityPrediction(GOAL, 400, 2625, 262_500.0, 264_000.0, 218.0, unchecked="not checked")
    both = (predicted, replace(predicted, position=300))
    page = tell(findings([trial(1, 2500)], search=(searched(2500),), predicted=both))
    assert " ".join(page.lede).count("Not checked.") == 1


def test_a_device_that_outruns_the_sender_carries_at_least_so_many() -> None:
    page = tell(findings([trial(1, 2500)], search=(searched(9000, at_least=True, too_many=None),)))
    assert "at least 9,000\u00a0calls" in page.answer
    assert page.tiles[0].value == "≥ 9,000"


def test_a_sweep_alone_answers_too() -> None:
    swept = DropThreshold(400, 2400, 24e4, 2500, 25e4, 0.01, 2500)
    page = tell(findings([trial(1, 2400), trial(2, 2500, 0.01)], sweep=(swept,)))
    assert "2,400\u00a0calls" in page.answer
    (table,) = next(chapter for chapter in page.chapters if chapter.key == "verdict").tables
    assert table.rows[0][1:5] == ("2,400", "2,500", "240\u00a0kpps", "sweep")


def test_the_first_loss_is_named() -> None:
    page = tell(
        findings([trial(1, 2400), trial(2, 2500, 0.01), trial(3, 2600, 0.02)], search=(searched(2400),))
    )
    titles = [figure.title for figure in page.figures]
    assert "The first trial with loss had 2,500\u00a0calls (400\u00a0rules)." in titles


def lost(**changes: Any) -> CallLoss:
    usual = CallLoss(400, 2600, trials=7, sent=260_000, lost=400, disturbed_sent=10_000, disturbed_lost=300)
    return replace(usual, **changes)


def test_lost_packets_are_told_apart_by_what_the_host_did() -> None:
    losses = (lost(calls=2400, lost=0, disturbed_lost=0), lost())
    page = tell(findings([trial(1, 2400), trial(2, 2600, 0.01)], search=(searched(2400),), losses=losses))
    chapter = next(chapter for chapter in page.chapters if chapter.key == "heard")
    assert chapter.said == (
        "Of the 400\u00a0packets lost at 2,600\u00a0calls (400\u00a0rules), 75\u00a0% were sent while the "
        "host disturbed device or sender. Of the packets sent at other times 0.040\u00a0% were lost.",
    )
    (table,) = chapter.tables
    assert table.rows == (
        ("400\u00a0rules", "2,600", "7", "260,000", "400", "300", "75\u00a0%", "0.040\u00a0%"),
    )


def test_what_is_not_known_of_the_host_is_not_said() -> None:
    unknown = lost(disturbed_sent=None, disturbed_lost=None)
    page = tell(findings([trial(1, 2600, 0.01)], search=(searched(2400),), losses=(unknown,)))
    chapter = next(chapter for chapter in page.chapters if chapter.key == "heard")
    assert chapter.said == ()
    assert chapter.tables[0].rows[0][-3:] == ("–", "–", "–")
    from_before = tell(findings([trial(1, 2600, 0.01)], search=(searched(2400),)))
    assert next(chapter for chapter in from_before.chapters if chapter.key == "heard").tables == ()


def test_a_starved_sampler_is_evidence_and_no_idleness() -> None:
    page = tell(findings([trial(1, 2400), trial(2, 2600, 0.05)], search=(searched(2400),)))
    told = next(figure for figure in page.figures if figure.key == "capacity-samples")
    assert told.title == (
        "Overload starves its own monitoring: 4 of 10 samples at 2,600\u00a0calls (400\u00a0rules)."
    )


def test_a_simulated_device_has_no_inside() -> None:
    rows = [trial(1, 2400, samples_due=None, samples_taken=None, cpu_idle=math.nan)]
    page = tell(findings(rows, lab="sim", search=(searched(2400),)))
    inside = next(chapter for chapter in page.chapters if chapter.key == "inside")
    assert inside.empty
    assert page.simulated


def test_counters_that_disagree_are_a_caution() -> None:
    page = tell(findings([trial(1, 2400)], search=(searched(2400),), counters=CounterAgreement(10, 8)))
    assert page.caution == "The device's own counters disagree with Weir's in 2\u00a0valid trials."


@pytest.mark.parametrize("rows", [[], [trial(1, 2400, valid=False)]])
def test_a_run_without_valid_trials_says_so(rows: list[CapacityRow], tmp_path: Path) -> None:
    page = tell(findings(rows))
    assert page.answer == "No number of calls was found."
    assert len(page.html()) > 10_000


def test_a_mos_that_was_asked_for_is_answered() -> None:
    page = tell(findings([trial(1, 2400)], search=(searched(2400), searched(2500, HEARD))))
    assert page.lede[0] == "It carries 2,500\u00a0calls with 400\u00a0rules with MOS 4 for 99 % of them."
