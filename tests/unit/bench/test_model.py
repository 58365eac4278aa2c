from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import model
import observed
import scoring
import targets
from held_out import SIMULATED, Job, trials
from scoring import RunScores, Score, Speed, coverage, medians
from simulated import device
from weirlab.base.errors import InputError
from weirlab.jobs.profiles import to_measure
from weirlab.measure.profile import expected
from weirlab.model import LohmillerModel, PiecewiseModel, QueueingModel
from weirlab.model.score import REPEATABILITY

from ..conftest import remembering

QUICK = Speed(0.3, 1.0, 0.001, 0.05)
TINY = [
    "--positions", "0,1000", "--sizes", "64,1518", "--repetitions", "1", "--trial-s", "0.02", "--seed", "5",
]  # fmt: skip


def run_with(errors: dict[tuple[str, str], float], covered: float = 90.0, alarms: int = 0) -> RunScores:
    scores = [
        Score(name, quantity, 10, error, {90: covered}, alarms if quantity == "loss" else None)
        for (name, quantity), error in errors.items()
    ]
    return RunScores("nftables-1", "nftables", 1, 100, 50, scores, [], QUICK, {})


GOOD = {
    (name, quantity): factor * error
    for name, factor in (
        (QueueingModel.name, 1.0), (PiecewiseModel.name, 3.0), (LohmillerModel.name, 4.0),
        (REPEATABILITY, 0.8),
    )
    for quantity, error in (
        ("threshold", 2.0), ("delay_mean_below", 6.0), ("delay_p99_below", 15.0),
        ("delay_mean_overload", 3.0), ("loss", 0.4),
    )
}  # fmt: skip


def verdicts(*runs: RunScores) -> dict[str, targets.Verdict]:
    return {verdict.what: verdict for verdict in targets.of_device(runs)}


def test_a_good_model_meets_every_target() -> None:
    assert {str(verdict) for verdict in verdicts(run_with(GOOD)).values()} == {"met"}


def test_a_target_that_is_missed_says_by_how_much() -> None:
    found = verdicts(run_with({**GOOD, (QueueingModel.name, "threshold"): 7.5}))
    assert str(found["threshold"]) == "missed by 3.50 points"
    assert found["threshold"].limit == "<= 4.00%"
    assert str(found["threshold: better than piecewise"]) == "missed by 1.50"
    assert str(found["threshold: better than lohmiller"]) == "met"


def test_repetitions_that_differ_raise_the_limit_of_delays_alone() -> None:
    noisy = {
        **GOOD,
        (REPEATABILITY, "delay_mean_below"): 20.0,
        (QueueingModel.name, "delay_mean_below"): 29.0,
        (REPEATABILITY, "threshold"): 20.0,
        (QueueingModel.name, "threshold"): 8.0,
    }
    found = verdicts(run_with(noisy))
    assert found["mean delay below"].met
    assert found["mean delay below"].limit == "<= 30.00%"
    assert not found["threshold"].met


@pytest.mark.parametrize(("covered", "met"), [(87.0, False), (88.0, True), (92.0, True), (93.0, False)])
def test_coverage_can_be_too_high(covered: float, met: bool) -> None:
    assert verdicts(run_with(GOOD, covered))["coverage of 90 %"].met is met


def test_one_false_alarm_misses_the_target() -> None:
    found = verdicts(run_with(GOOD), run_with(GOOD, alarms=1))
    assert str(found["false alarms"]) == "missed by 1"


def test_what_was_not_measured_is_not_met() -> None:
    only = {key: error for key, error in GOOD.items() if key[1] != "delay_p99_below"}
    assert str(verdicts(run_with(only))["p99 below"]) == "not measured"


def test_medians_are_over_runs_and_alarms_add_up() -> None:
    runs = [run_with({(QueueingModel.name, "loss"): error}, alarms=1) for error in (0.1, 9.0, 0.3)]
    found = medians(runs)[QueueingModel.name, "loss"]
    assert (found.error, found.false_alarms, found.n) == (0.3, 3, 30)


def test_coverage_leaves_out_quantities_without_an_interval() -> None:
    run = run_with(GOOD, 80.0)
    bare = replace(run, scores=[replace(each, coverage_percent={}) for each in run.scores])
    assert coverage([run, bare], 90) == pytest.approx(80.0)
    assert math.isnan(coverage([bare], 90))


def test_no_held_out_position_was_profiled_and_every_seed_draws_others() -> None:
    jobs = [Job("nftables", 1, seed, {}).scenario() for seed in range(20)]
    profiled = set(jobs[0].profile.positions)
    for job in jobs:
        (held_out,) = job.verify
        assert not profiled & set(held_out.positions)
        assert max(held_out.positions) < max(profiled)
        assert (len(held_out.sizes), held_out.repetitions) == (3, 3)
    assert len({job.verify[0].positions for job in jobs}) > 10
    assert jobs[3] == Job("nftables", 1, 3, {}).scenario()


def test_positions_without_room_between_them_are_refused() -> None:
    with pytest.raises(InputError, match="hold out"):
        Job(SIMULATED, 1, 1, {"positions": [3]}).scenario()


def test_fewer_repetitions_where_the_time_is_short() -> None:
    settings = model.Settings(
        lab="netns", devices=("nftables",), runs=2, seed=1, minutes=60.0, simulated=0, profile={},
        command="", begun="", versions={},
    )  # fmt: skip
    clock = model.Clock(0.5)
    assert model._job(settings, "nftables", 1, clock).scenario().profile.repetitions == 3
    short = replace(settings, minutes=8.0)
    assert model._job(short, "nftables", 1, clock).scenario().profile.repetitions == 1
    clock.add("nftables", 400, 60.0)
    assert model._job(short, "nftables", 2, clock).scenario().profile.repetitions == 3


def test_an_adaptive_profile_is_counted_by_its_budget() -> None:
    grid_each, grid_rest = trials(Job("nftables", 1, 1, {}).scenario())
    each, rest = trials(Job("nftables", 1, 1, {"adaptive": {"budget": 100}}).scenario())
    scenario = Job("nftables", 1, 1, {}).scenario()
    planned = [spec for spec in expected(to_measure(scenario)) if spec.label != "scout"]
    assert (grid_each * scenario.profile.repetitions, each) == (len(planned), 0)
    assert rest == grid_rest - 30 + 100


def test_simulated_devices_differ_by_seed_alone() -> None:
    assert device(1) == device(1) != device(2)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a bench; one that is scored again fits the same trials."""
    monkeypatch.setattr(scoring, "fit_all", remembering(scoring.fit_all))

    def run(*arguments: str | Path) -> int:
        monkeypatch.setattr(sys, "argv", ["model.py", *map(str, arguments)])
        return model.main()

    return run


def test_a_simulated_bench_leaves_summary_and_observations_and_can_be_scored_again(
    bench: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench"
    assert bench("--lab", "sim", "--runs", "1", "--seeds", "1", *TINY, "--out", out) == 0
    shown = capsys.readouterr().out
    assert "targets met" in shown
    assert "queueing" in (out / "README.md").read_text()
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["devices"]) == {SIMULATED}
    assert summary["simulated"]["parameters"]["service_fixed_ns"]["median_percent"] < 5
    kept = observed.read(out / "simulated-1.parquet")
    settings = json.loads((out / model.STATE).read_text())["profile"]
    planned = expected(to_measure(Job(SIMULATED, 1, 1, settings).scenario()))
    assert len(kept["profile"]) == len(planned)
    assert {each.position for each in kept["verify"]}.isdisjoint({0, 1000})
    before = (out / "simulated-1.parquet").read_bytes()
    (out / "README.md").unlink()
    assert bench("--resume", out) == 0
    assert (out / "simulated-1.parquet").read_bytes() == before
    assert (out / "README.md").exists()


def test_an_interrupted_bench_says_how_to_go_on_and_measures_only_the_rest(
    bench: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from weirlab.lab.sim import SimLab

    ran, run = [], SimLab.run

    def count(self: SimLab, traffic: object) -> object:
        if len(ran) == 50:
            raise KeyboardInterrupt
        ran.append(traffic)
        return run(self, traffic)  # type: ignore[arg-type]

    monkeypatch.setattr(SimLab, "run", count)
    out = tmp_path / "bench"
    assert bench("--lab", "sim", "--runs", "1", "--seeds", "0", *TINY, "--out", out) == 130
    assert f"--resume {out}" in capsys.readouterr().err
    ran.append(None)
    assert bench("--resume", out) == 0
    kept = observed.read(out / "simulated-1.parquet")
    assert len(ran) - 1 == len(kept["profile"]) + len(kept["verify"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--devices", "abacus"), "abacus"),
        (("--positions", "3"), "hold out"),
        (("--positions", "3,x"), "--positions"),
        (("--runs", "0"), "--runs"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_written(
    bench: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert bench(*arguments, "--out", tmp_path / "new") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_without_a_bench_cannot_be_gone_on_with(
    bench: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--resume", tmp_path) == 2
    assert "not a bench that can be resumed" in capsys.readouterr().err
