from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from weirlab.store import Store, states
from weirlab.testing import make_record


def trials(*handovers: float | None, role: str = "profile") -> pl.DataFrame:
    n = len(handovers)
    return pl.DataFrame(
        {"handover_ns": list(handovers), "role": [role] * n, "valid": [True] * n, "invalid": [""] * n},
        schema_overrides={"handover_ns": pl.Float64},
    )


def test_the_state_of_most_trials_is_the_reference() -> None:
    assert states.reference_ns(trials(66, 68, 245, 67, 250)) == pytest.approx(67, rel=0.01)


def test_trials_of_another_state_are_invalid_with_the_reason() -> None:
    marked = states.mark(trials(66, 245), 66.0)
    assert marked["valid"].to_list() == [True, False]
    assert "245 ns from CPU to CPU" in marked["invalid"][1]


def test_small_differences_are_the_same_state() -> None:
    assert states.mark(trials(66, 78, 55), 66.0)["valid"].all()


def test_trials_without_a_measurement_stay_as_they_are() -> None:
    assert states.reference_ns(trials(None, None)) is None
    assert states.mark(trials(None, 66), 66.0)["valid"].all()


def test_an_invalid_trial_keeps_its_own_reason() -> None:
    spoiled = trials(245).with_columns(valid=pl.lit(False), invalid=pl.lit("sender late"))
    assert states.mark(spoiled, 66.0)["invalid"].to_list() == ["sender late"]


def test_the_profile_decides_where_there_is_one() -> None:
    both = pl.concat([trials(66, role="profile"), trials(245, 245, 245, role="verify")])
    assert states.reference_ns(both) == pytest.approx(66)


def test_a_complete_run_keeps_which_trials_were_of_another_state(store: Store) -> None:
    handovers = (66, 68, 245, 67)
    with store.create("trial", {}, {}) as writer:
        for index, ns in enumerate(handovers):
            record = make_record(run_id=writer.run_id, index=index)
            writer.add(replace(record, host=replace(record.host, handover_ns=float(ns))))
    kept = pl.read_parquet(writer.path / "trials.parquet").sort("index")
    assert kept["valid"].to_list() == [True, True, False, True]
    assert kept.select("valid", "invalid").equals(writer.run.trials().select("valid", "invalid"))
