from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.base.errors import InputError
from weirlab.measure import profile, verify
from weirlab.measure.scouting import ScoutPoint
from weirlab.measure.thresholds import _half_interval, rates, thresholds, usable
from weirlab.measure.verify import VerificationPlan, drawn_positions, plan
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeDevice, make_record, make_result, make_spec
from weirlab.traffic.sizes import Constant

DEVICE = FakeDevice()
HELD_OUT = VerificationPlan(positions=(0, 200), sizes=(Constant(64), Constant(1518)))


def shares(specs: list, position: int) -> list[float]:
    threshold = DEVICE.threshold_pps(position, 64)
    return sorted({spec.traffic.rate.value / threshold for spec in specs if spec.rules.position == position})


def test_loads_cover_the_range_below_the_threshold_and_some_lie_beyond() -> None:
    specs = plan(replace(HELD_OUT, sizes=(Constant(64),)), DEVICE.threshold_pps)
    assert len(specs) == 2 * (6 + 2) * 3
    for position in (0, 200):
        found = shares(specs, position)
        below = [share for share in found if share < 1]
        width = (0.92 - 0.05) / 6
        assert [int((share - 0.05) / width) for share in below] == [0, 1, 2, 3, 4, 5]
        assert found[-2:] == pytest.approx([1.15, 1.5], rel=1e-3)
    assert shares(specs, 0)[:6] != pytest.approx(shares(specs, 200)[:6])


@pytest.mark.parametrize("seed", range(20))
def test_positions_are_drawn_between_the_profiled_ones_and_one_beyond(seed: int) -> None:
    profiled = (0, 50, 100, 400, 1000)
    *inside, beyond = drawn_positions(profiled, seed)
    assert [sum(n < position for n in profiled) for position in inside] == [1, 2, 3, 4]
    assert not set(inside) & set(profiled)
    assert 1000 < beyond <= 1400


def test_another_seed_draws_other_positions() -> None:
    assert drawn_positions((0, 100, 1000), 1) == drawn_positions((1000, 0, 100), 1)
    assert drawn_positions((0, 100, 1000), 1) != drawn_positions((0, 100, 1000), 2)


@pytest.mark.parametrize(("profiled", "inside"), [((0, 1), 0), ((3, 5), 1), (tuple(range(0, 100, 10)), 4)])
def test_no_more_positions_are_drawn_than_there_is_room_or_need_for(
    profiled: tuple[int, ...], inside: int
) -> None:
    drawn = drawn_positions(profiled, 3)
    assert len(drawn) == len(set(drawn)) == inside + 1
    assert drawn[-1] > max(profiled)


def test_a_single_profiled_position_leaves_nothing_to_draw() -> None:
    assert drawn_positions((0,), 1) == (0,)


def test_the_same_arguments_give_the_same_plan() -> None:
    assert plan(HELD_OUT, DEVICE.threshold_pps) == plan(HELD_OUT, DEVICE.threshold_pps)
    assert plan(HELD_OUT, DEVICE.threshold_pps) != plan(replace(HELD_OUT, seed=8), DEVICE.threshold_pps)


def test_loads_can_be_given() -> None:
    given = replace(HELD_OUT, load_shares=(0.5,), overload_shares=(), sizes=(Constant(64),), positions=(200,))
    specs = plan(given, DEVICE.threshold_pps)
    assert len(specs) == 3
    assert shares(specs, 200) == pytest.approx([0.5], rel=1e-3)


def test_loads_beyond_the_sender_are_sent_as_fast_as_possible() -> None:
    specs = plan(HELD_OUT, DEVICE.threshold_pps, sender_pps=600_000)
    assert {s.traffic.rate.unit for s in specs if s.label == "load max"} == {"max"}
    assert all(s.traffic.rate.value <= 600_000 for s in specs)


@pytest.mark.parametrize("threshold", [math.nan, 0.0, -1.0, math.inf])
def test_a_threshold_that_places_no_load_is_refused(threshold: float) -> None:
    with pytest.raises(InputError, match="position 0"):
        plan(HELD_OUT, lambda position, frame_bytes: threshold)


@pytest.mark.parametrize(
    "change",
    [
        {"positions": ()},
        {"positions": (-2,)},
        {"sizes": (Constant(9),)},
        {"repetitions": 0},
        {"load_shares": (0.0,)},
        {"draw_low": 0.9, "draw_high": 0.5},
    ],
)
def test_a_verification_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        replace(HELD_OUT, **change)  # type: ignore[arg-type]


def test_profiled_settings_are_measured_again_at_three_positions_below_and_beyond_the_threshold() -> None:
    points = [
        ScoutPoint(position, Constant(size), DEVICE.threshold_pps(position, size), 1e9)
        for position in (0, 50, 100, 400, 1000)
        for size in (64, 1518)
    ]
    grid = profile.Profile(
        positions=(0, 50, 100, 400, 1000),
        sizes=(Constant(64), Constant(1518)),
        load_shares=(0.1, 0.4, 0.8, 1.3, 2.0),
    )
    specs = verify.again(profile.plan(grid, points), 2)
    assert sorted({spec.rules.position for spec in specs}) == [0, 100, 1000]
    assert {spec.traffic.sizes for spec in specs} == {Constant(64)}
    assert len(specs) == 2 * 3 * 2
    assert all(spec.label.startswith(verify.AGAIN) for spec in specs)
    for position in (0, 100, 1000):
        below, beyond = (f(shares(specs, position)) for f in (min, max))
        assert 0.1 <= below < 1 < beyond


def test_what_is_measured_again_lies_evenly_among_the_held_out_trials() -> None:
    specs = [make_spec(label=str(i)) for i in range(9)]
    mixed = [spec.label for spec in verify.among(specs, [make_spec(label="a"), make_spec(label="b")])]
    assert mixed == ["0", "1", "a", "2", "3", "4", "5", "6", "b", "7", "8"]
    assert verify.among(specs, []) == specs


def test_verification_may_go_into_the_run_of_the_profile(tmp_path: Path) -> None:
    store = Store(tmp_path)
    small = profile.Profile(positions=(0,), sizes=(Constant(64),), load_shares=(0.5, 1.2))
    with store.create("profile", {}, {}) as writer:
        profile.measure(FakeBed(DEVICE), small, writer)
        outcome = verify.run(FakeBed(DEVICE), plan(HELD_OUT, DEVICE.threshold_pps), writer)
    assert outcome.invalid == ()
    trials = store.open("last").trials()
    assert trials["role"].value_counts().sort("role").rows() == [("profile", 7), ("verify", 96)]
    assert trials["index"].to_list() == list(range(7 + 96))
    assert len(store.open("last").observations("verify")) == 96


def test_an_interrupted_verification_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = Store(tmp_path)
    specs = plan(HELD_OUT, DEVICE.threshold_pps)
    stopped = FakeBed(DEVICE, [*[None] * 10, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt), store.create("verify", {}, {}) as writer:
        verify.run(stopped, specs, writer)
    bed = FakeBed(DEVICE)
    with store.resume("last") as writer:
        verify.run(bed, specs, writer)
    assert len(bed.traffic_seen) == 86
    assert store.open("last").trials()["index"].to_list() == list(range(96))


def test_the_measured_threshold_is_the_median_forwarding_rate_in_overload(tmp_path: Path) -> None:
    def trial(
        forwarded: float, rate: float = 1e6, position: int = 200, invalid: tuple[str, ...] = ()
    ) -> tuple:
        result = make_result(rate, duration_s=0.1, loss_ratio=1 - forwarded / rate)
        return result, make_spec(rate, position=position, duration_s=0.1), invalid

    rows = [
        trial(500_000),
        trial(510_000),
        trial(590_000),
        trial(100_000, invalid=("steal",)),
        trial(400_000, rate=400_000),
        trial(998_000),
        trial(300_000, rate=320_000),
        trial(700_000, position=0),
    ]
    with Store(tmp_path).create("verify", {}, {}) as writer:
        for index, (result, spec, invalid) in enumerate(rows):
            writer.add(make_record(result, spec, run_id=writer.run_id, index=index, invalid=invalid))
    found = thresholds(usable(writer.run.trials()))
    assert found.select("position", "threshold_pps", "low_pps", "high_pps", "n").rows() == [
        (0, pytest.approx(700_000), pytest.approx(700_000), pytest.approx(700_000), 1),
        (200, pytest.approx(510_000), pytest.approx(500_000), pytest.approx(590_000), 3),
    ]
    # exp(4.3027 · sqrt(π/2) · s / sqrt(3)), s being the deviation of the three logarithms.
    (alone, several) = found.select("interval_low_pps", "interval_high_pps").rows()
    assert alone == (None, None)
    assert several == (pytest.approx(510_000 / 1.325, rel=1e-3), pytest.approx(510_000 * 1.325, rel=1e-3))


def test_the_interval_of_a_threshold_covers_the_truth_in_about_95_of_100_runs(tmp_path: Path) -> None:
    draw = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        rates = pl.Series(1e6 * np.exp(draw.normal(0, 0.05, 5)))
        half = _half_interval(rates.log())
        assert half is not None
        middle = float(rates.median())  # type: ignore[arg-type]
        covered += middle * np.exp(-half) <= 1e6 <= middle * np.exp(half)
    assert 0.93 <= covered / 400 <= 0.99


def test_without_overload_there_is_no_threshold(tmp_path: Path) -> None:
    with Store(tmp_path).create("verify", {}, {}) as writer:
        writer.add(make_record(run_id=writer.run_id))
    found = thresholds(usable(writer.run.trials()))
    assert found.height == 0
    assert found.schema["threshold_pps"] == pl.Float64


def test_trials_unlike_the_others_are_named_with_the_reason(tmp_path: Path) -> None:
    trials = [(1e5, 0.0), (2e5, 0.02), (5e5, 0.0), (9e5, 0.4), (9e5, 0.41), (9e5, 0.7), (2e5, 0.0)]
    with Store(tmp_path).create("profile", {}, {}) as writer:
        for index, (pps, loss) in enumerate(trials):
            result, spec = make_result(pps, loss_ratio=loss), make_spec(pps)
            writer.add(make_record(result, spec, run_id=writer.run_id, index=index))
    late = pl.when(pl.col("index") == 6).then(1.8e5).otherwise("forwarding_pps")
    found = rates(writer.run.trials().with_columns(forwarding_pps=late))
    assert [(row["index"], row["why"]) for row in found["irregular"]] == [
        (1, "lossy"),
        (5, "unsteady"),
        (6, "late"),
    ]
    (threshold,), (delay,) = found["thresholds"], found["delays"]
    assert (threshold["n"], delay["n"]) == (3, 3)
    assert threshold["low_pps"] == pytest.approx(2.7e5, rel=1e-3)
    assert delay["high_pps"] == pytest.approx(5e5, rel=1e-3)
