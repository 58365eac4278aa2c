"""Samples of real transfers with a planted cause (``bench/planted.py``), thinned to one per 10 ms."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from weirlab.diagnosis import causes, kernel
from weirlab.diagnosis.causes import Cause
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis

FOLDER = Path(__file__).parent / "recorded"


@pytest.mark.parametrize(
    ("name", "cause", "truth"),
    [
        ("window_scaling_off", "window_scaling", 0.97),
        ("slow_writer", "application_write", 0.66),
        ("random_loss", "loss", 0.99),
        ("bottleneck_saturated", "bottleneck", 0.99),
        ("foreign_traffic", "foreign", 0.53),
        ("reordering", "reordering", 0.99),
    ],
)
def test_a_planted_cause_is_named_with_its_share_of_the_time(name: str, cause: str, truth: float) -> None:
    found = diagnosed(name)
    assert found.main.key == cause
    assert found.share(cause) == pytest.approx(truth, abs=0.07)


@pytest.mark.parametrize(
    ("name", "planted", "named"),
    [
        ("foreign_traffic_all_along", causes.FOREIGN, causes.LOSS),
        ("acks_wait_on_their_way_back", causes.ACK_QUEUE, causes.BOTTLENECK),
    ],
)
def test_what_the_kernel_takes_for_another_cause_is_said_to_be_out_of_its_sight(
    name: str, planted: Cause, named: Cause
) -> None:
    found = diagnosed(name)
    assert found.main is named
    assert planted.held in {each.what for each in found.blind}


def test_loss_is_congestion_only_where_a_queue_had_filled_up() -> None:
    (full,) = (each for each in diagnosed("foreign_traffic_all_along").findings if each.cause is causes.LOSS)
    assert full.evidence[-1].endswith(": a queue had filled up")
    found = diagnosed("random_loss")
    assert found.findings[0].evidence[-1].endswith("no queue had filled up")
    assert causes.FOREIGN.held not in {each.what for each in found.blind}


def diagnosed(name: str) -> Diagnosis:
    with (FOLDER / f"{name}.parquet").open("rb") as file:
        rows = pl.read_parquet(file)
    fields = {column: rows[column].to_numpy() for column in rows.columns if column != "time_ns"}
    read = kernel.read(rows["time_ns"].to_numpy(), fields)
    assert read is not None
    found = diagnose(*read)
    assert found is not None
    return found
