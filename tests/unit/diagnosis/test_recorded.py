"""Samples of real transfers with a planted cause (``bench/planted.py``), thinned to one per 10 ms."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from weirlab.diagnosis import kernel
from weirlab.diagnosis.diagnosing import diagnose

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
    with (FOLDER / f"{name}.parquet").open("rb") as file:
        rows = pl.read_parquet(file)
    fields = {column: rows[column].to_numpy() for column in rows.columns if column != "time_ns"}
    read = kernel.read(rows["time_ns"].to_numpy(), fields)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    assert diagnosis.main.key == cause
    assert diagnosis.share(cause) == pytest.approx(truth, abs=0.07)
