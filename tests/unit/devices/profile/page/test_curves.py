"""The tables that charts draw, against the law that the fixture was made by."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from weirlab.devices.profile.page import curves, distributions
from weirlab.devices.profile.page.source import ProfileEvidence, gather


@pytest.fixture(scope="module")
def evidence(run, models) -> ProfileEvidence:
    return gather(run, models)


@pytest.fixture(scope="module")
def small(evidence: ProfileEvidence) -> pl.DataFrame:
    return evidence.profile.filter(pl.col("panel") == "64-byte frames")


def test_held_out_trials_are_kept_apart_from_the_profile(evidence: ProfileEvidence) -> None:
    assert 200 not in evidence.profile["position"].to_list()
    assert 200 in evidence.heldout["position"].to_list()


def test_invalid_attempts_are_in_no_table(evidence: ProfileEvidence) -> None:
    assert evidence.attempts.filter(~pl.col("valid")).height == 2
    assert evidence.profile["valid"].all()


def test_the_threshold_is_the_forwarding_rate_in_overload(small: pl.DataFrame, law) -> None:
    found = curves.thresholds(small)
    truth = law(1.0, 64, np.array(found["position"])).threshold_pps / 1e3
    assert found["threshold_kpps"].to_numpy() == pytest.approx(truth, rel=0.03)
    assert (found["low_kpps"] <= found["threshold_kpps"]).all()
    assert (found["threshold_kpps"] <= found["high_kpps"]).all()


def test_the_loss_free_load_lies_below_the_threshold_and_the_next_load_above(
    small: pl.DataFrame, law
) -> None:
    for entry in curves.loss_free(small):
        threshold = float(law(1.0, 64, entry.position).threshold_pps)
        assert 0.9 * threshold < entry.loss_free_pps < threshold < entry.next_pps
        assert entry.next_loss_ratio > 0


def test_a_load_is_loss_free_if_half_of_its_repetitions_lost_nothing(small: pl.DataFrame) -> None:
    one = small.filter(pl.col("position") == 0)
    before = curves.loss_free(one)[0].loss_free_pps
    best = (pl.col("achieved_pps") - before).abs() / before < 0.01
    # One of three repetitions loses a packet, then two of them.
    for spoiled, same in ((1, True), (2, False)):
        rank = pl.int_range(pl.len()).over(best)
        hit = best & (rank < spoiled)
        lossy = one.with_columns(
            lost=pl.when(hit).then(1).otherwise("lost"),
            loss_ratio=pl.when(hit).then(1e-5).otherwise("loss_ratio"),
        )
        found = curves.loss_free(lossy)[0].loss_free_pps
        assert (abs(found - before) / before < 0.01) is same


def test_a_device_that_always_loses_has_no_loss_free_load(small: pl.DataFrame) -> None:
    entry = curves.loss_free(small.filter(pl.col("overload")))[0]
    assert entry.loss_free_pps == 0
    assert entry.next_pps > 0


def test_a_device_that_never_loses_has_no_next_load(small: pl.DataFrame) -> None:
    entry = curves.loss_free(small.filter(pl.col("lost") == 0))[0]
    assert entry.loss_free_pps > 0
    assert np.isnan(entry.next_pps)


def test_models_are_drawn_over_the_tested_loads_only(small: pl.DataFrame, models) -> None:
    table = curves.over_load(small, models)
    for (setup,), rows in table.group_by("setup"):
        trials = rows.filter(pl.col("source") == "trial")["load_kpps"]
        for name in models:
            line = rows.filter(pl.col("source") == name)["load_kpps"]
            assert line.len() > 30, setup
            assert line.min() >= trials.min() * 0.999
            assert line.max() <= trials.max() * 1.001


def test_many_trials_are_drawn_as_medians(small: pl.DataFrame) -> None:
    many = pl.concat([small] * 8)
    table = curves.over_load(many, {})
    assert table.height == curves.by_load(small).height


def test_a_trial_as_fast_as_possible_is_placed_at_its_achieved_load(small: pl.DataFrame) -> None:
    unpaced = small.head(3).with_columns(offered_pps=pl.lit(float("inf")))
    assert curves.by_load(unpaced)["achieved_pps"].is_finite().all()


def test_loads_far_beyond_every_threshold_stay_out_of_the_charts(small: pl.DataFrame) -> None:
    wild = small.filter("overload").head(1).with_columns(achieved_pps=pl.lit(6e6))
    assert curves.within_chart(pl.concat([small, wild])).height == small.height


def test_each_model_meets_each_held_out_trial_once(evidence: ProfileEvidence, models) -> None:
    pairs = curves.held_out(evidence.profile, evidence.heldout, models)
    assert pairs.height == evidence.heldout.height * len(models)
    held = dict(pairs.select("setup", "held_out").unique().rows())
    assert held == {"200": "setting", "0": "load"}


def test_cpu_shares_add_up_to_the_whole_core(small: pl.DataFrame) -> None:
    shares = curves.cpu_states(small.filter(pl.col("position") == 0))
    sums = shares.group_by("load_kpps").agg(pl.col("share_percent").sum())["share_percent"].to_numpy()
    assert sums == pytest.approx(np.full(len(sums), 100.0), abs=0.5)
    assert shares.filter(pl.col("state") == "irq").height == 0


def test_distributions_fall_from_all_packets_to_the_slowest(
    evidence: ProfileEvidence, small: pl.DataFrame
) -> None:
    chosen = distributions.telling_trials(small.filter(pl.col("position") == 0))
    assert [trial.overload for trial in chosen] == [False] * (len(chosen) - 1) + [True]
    table = distributions.distributions(chosen, evidence.histograms)
    for _, rows in table.group_by("load", maintain_order=True):
        assert rows["delay_us"].is_sorted()
        assert rows["slower_percent"].is_sorted(descending=True)
        assert rows.height <= 140


def test_long_distributions_are_thinned_but_keep_both_ends() -> None:
    n = 3000
    lower = np.arange(1000, 1000 + n)
    histogram = pl.DataFrame(
        {"trial_id": ["a"] * n, "lower_ns": lower, "upper_ns": lower + 1, "count": np.full(n, 10)}
    )
    trial = distributions.DistributionTrial("a", "100 kpps", 0.5, False, 3900.0)
    table = distributions.distributions([trial], histogram)
    assert 50 < table.height <= 140
    assert table["delay_us"][0] == pytest.approx(1.0)
    assert table["slower_percent"][-1] == pytest.approx(100 / n, rel=0.01)
