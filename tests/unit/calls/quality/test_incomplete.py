"""Captures that miss packets, which look as if the network had lost them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.calls.quality import tables
from weirlab.calls.quality.wording import sentence

from .captures import Rtp, talk, without
from .situations import answered, back, found, outcome_of
from .test_reports import receiver_report, rtcp

MANY = 1_000
HOLES = [n for n in range(1, MANY - 1) if n % 100 < 8]
"""Eight packets every two seconds."""


@pytest.mark.parametrize("kept", [range(0, 316, 45), [0, 1, 2, 40, 85, 130, 170, 215, 260, 305]])
def test_a_few_packets_of_a_call_show_no_loss(file: Path, kept: list[int]) -> None:
    packets = talk(316)
    outcome = outcome_of(file, [packets[n] for n in kept], answered())
    row = outcome.document()["streams"][0]
    assert (row["missed"], row["lost"], row["loss_ratio"]) == (
        "sparse",
        None,
        pytest.approx(np.nan, nan_ok=True),
    )
    assert [row[name] for name in ("loss_runs", "longest_run", "burst_ratio")] == [None] * 3
    arrived = next(table for table in tables.of(outcome, 1) if table.caption == "Packets and loss")
    assert arrived.rows[0][-2:] == ("–", "–")
    assert np.isnan(outcome.mos).all()
    assert f"{len(kept)} packets of its" in found(outcome, "incomplete capture")[0][1]
    assert "no MOS is known" in sentence(outcome)
    assert any("missing from the capture itself" in note for note in outcome.notes())


def test_without_delays_it_is_not_known_what_came_late(file: Path) -> None:
    outcome = outcome_of(file, talk(316))
    measured = replace(outcome.table.streams, delay_max_ns=np.array([np.nan]))
    row = replace(outcome, table=replace(outcome.table, streams=measured)).document()["streams"][0]
    assert [row[name] for name in ("late_fixed", "late_adaptive", "slips_fixed")] == [None] * 3
    assert row["loss_runs"] == 0


def both(missing: list[int], missing_back: list[int]) -> list[Rtp]:
    speaker = talk(MANY)
    return [*without(speaker, missing), *without(back(speaker), missing_back)]


def test_gaps_of_all_streams_at_once_are_gaps_of_the_capture(file: Path) -> None:
    outcome = outcome_of(file, both(HOLES, HOLES))
    assert [each.missed for each in outcome.streams] == ["gaps", "gaps"]
    assert np.isnan(outcome.mos).all()
    assert len(found(outcome, "incomplete capture")) == 2


def test_gaps_of_one_stream_beside_another_are_losses(file: Path) -> None:
    outcome = outcome_of(file, both(HOLES, []))
    assert [each.missed for each in outcome.streams] == ["", ""]
    assert outcome.document()["streams"][0]["lost"] == len(HOLES)
    assert outcome.mos[0] < outcome.mos[1]


def test_one_outage_of_both_streams_is_told_as_loss(file: Path) -> None:
    outage = list(range(400, 500))
    outcome = outcome_of(file, both(outage, outage))
    assert [each.missed for each in outcome.streams] == ["", ""]
    assert [row["lost"] for row in outcome.document()["streams"]] == [100, 100]


def test_single_losses_in_both_directions_are_losses(file: Path) -> None:
    lost = [
        list(np.random.default_rng(seed).choice(np.arange(1, MANY - 1), 60, replace=False)) for seed in (1, 2)
    ]
    outcome = outcome_of(file, both(*lost))
    assert [row["lost"] for row in outcome.document()["streams"]] == [60, 60]


@pytest.mark.parametrize(("reported", "missed"), [(1, "reports"), (60, "")])
def test_what_the_receiver_had_the_capture_misses(file: Path, reported: int, missed: str) -> None:
    speaker = talk(MANY)
    gone = list(range(10, MANY - 10, 16))
    reports = [
        rtcp(200_000, receiver_report(0x1234ABCD, highest=109), from_caller=False),
        rtcp(19_950_000, receiver_report(0x1234ABCD, lost=reported, highest=1_095), from_caller=False),
    ]
    outcome = outcome_of(file, without(speaker, gone), reports)
    row = outcome.document()["streams"][0]
    assert row["missed"] == missed
    assert row["lost"] == (None if missed else len(gone))
    assert len(found(outcome, "incomplete capture")) == bool(missed)
