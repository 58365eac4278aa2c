"""The firewall's experiments on a simulated device: rows follow from stored runs and the data file."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from weirlab import publications
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.publications import Publication, parsed, publication
from weirlab.records import TrialSpec
from weirlab.report.story import Story
from weirlab.reproduction import study
from weirlab.reproduction.firewall import EXPERIMENTS, shared, thresholds
from weirlab.reproduction.firewall.measured import MeasuredProfile, SteppedTrial, thinned
from weirlab.reproduction.study import ReproductionScenario, ReproductionStudy
from weirlab.scenario.document import Document
from weirlab.store import Run, Store
from weirlab.store.steps import StepSeries
from weirlab.studies import runner, scenarios
from weirlab.traffic.spec import LoadStep, Rate, Traffic

KEY = "lohmiller-2022"
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A quick reproduction whose device is simulated."""
    planned = study._planned

    def simulated(asked: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for where, scenario in planned(asked):
            yield where, {**scenario, "lab": {"kind": "sim"}}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_planned", simulated)
        store = Store(tmp_path_factory.mktemp("store"))
        asked = ReproductionScenario(
            name="firewall", reproduction={"publication": KEY, "quick": True}, report=None
        )
        yield runner.run(ReproductionStudy(), asked, Work(store, SilentProgress())).run


@pytest.fixture(scope="module")
def rows(run: Run) -> Mapping[tuple[str, str], Any]:
    return {(row.experiment, row.key): row for row in study.stored(run).rows}


def test_every_value_and_claim_has_an_answer_or_a_reason(rows: Mapping[tuple[str, str], Any]) -> None:
    about = publication(KEY)
    keys = {(e.key, key) for e in about.experiments.values() for key in (*e.values, *e.claims)}
    assert rows.keys() == keys
    unexplained = [
        where
        for where, row in rows.items()
        if row.verdict == "not here" and row.found in ("", "no valid measurement", "not made here")
    ]
    assert unexplained == []


def test_at_least_25_claims_are_decided(rows: Mapping[tuple[str, str], Any]) -> None:
    decided = [row for row in rows.values() if row.kind == "claim" and row.verdict in ("holds", "differs")]
    assert len(decided) >= 25


def test_rows_are_those_kept_with_the_run(run: Run, rows: Mapping[tuple[str, str], Any]) -> None:
    kept = run.table(study.ROWS)
    assert kept.height == len(rows)
    for row in kept.iter_rows(named=True):
        found = rows[row["experiment"], row["key"]]
        assert row["verdict"] == found.verdict
        here = math.nan if row["here"] is None else row["here"]
        assert here == found.here or (math.isnan(here) and math.isnan(found.here))


def own_run(run: Run, place: str) -> Run:
    return Store(run.path.parent).open(run.get_json(study.RUNS)[place]["run"])


def test_numbers_follow_from_the_trials(run: Run, rows: Mapping[tuple[str, str], Any]) -> None:
    protocols = own_run(run, "tcp-beside-udp/protocols").trials().filter("valid")
    tcp = protocols.filter(label="tcp")["delay_mean_ns"].median()
    assert rows["tcp-beside-udp", "tcp"].here == pytest.approx(tcp / 1e3)
    sizes = own_run(run, "latency-over-size/sizes").trials().filter("valid")
    assert rows["latency-over-size", "longest"].here == pytest.approx(
        sizes.filter(label="1518")["delay_mean_ns"].median() / 1e3
    )
    profile = own_run(run, "threshold/iptables").trials().filter(pl.col("valid"), pl.col("role") == "profile")
    over = profile.filter((pl.col("position") == 1000) & (pl.col("loss_ratio") > 0.005))
    assert rows["overload-latency", "latency@1000"].here == pytest.approx(over["delay_mean_ns"].mean() / 1e3)


def test_what_the_simulated_device_does_is_found(rows: Mapping[tuple[str, str], Any]) -> None:
    """Its service time is linear in the rules and it forwards as much in overload as at the threshold."""
    for where in (
        ("matching-position", "earlier-and-higher"),
        ("overload-latency", "linear"),
        ("loss", "forwarding-constant"),
        ("threshold", "convex"),
        ("tcp-beside-udp", "no-difference"),
        ("position-change", "higher"),
        ("average-position", "mean-suffices"),
    ):
        assert (where, rows[where].verdict, rows[where].found) == (where, "holds", rows[where].found)


def test_computed_values_are_judged(rows: Mapping[tuple[str, str], Any]) -> None:
    assert rows["traffic", "imix-packets@40"].verdict == "holds"
    assert rows["traffic", "pps-64"].verdict == "holds"
    assert rows["traffic", "imix-pps"].verdict == "differs"
    assert rows["traffic", "imix-pps"].here == pytest.approx(327_368, rel=1e-4)
    assert (rows["average-position", "example-35"].verdict, rows["average-position", "example-50"].here) == (
        "holds",
        50.5,
    )
    assert rows["rate-change", "packets-before"].verdict == "holds"


def content() -> dict[str, Any]:
    return dict(yaml.safe_load(resources.files(publications).joinpath(f"{KEY}.yaml").read_text("utf-8")))


def changed(experiment: str, value: str, number: float) -> Publication:
    data = content()
    data["experiments"][experiment]["values"][value]["value"] = number
    return parsed(KEY, data)


def test_a_changed_published_value_changes_its_row_and_nothing_else(
    run: Run, rows: Mapping[tuple[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = changed("tcp-beside-udp", "tcp", 99.9)
    monkeypatch.setattr(study, "publication", lambda key: other)
    found = {(row.experiment, row.key): row for row in study.stored(run).rows}
    differing = [where for where, row in found.items() if repr(row) != repr(rows[where])]
    assert differing == [("tcp-beside-udp", "tcp")]
    assert found["tcp-beside-udp", "tcp"].published == "99.9"


def test_the_page_shows_every_models_errors_on_both_devices(run: Run) -> None:
    story = study.ReproductionStudy().page(run)
    assert isinstance(story, Story)
    chapters = {chapter.key: chapter for chapter in story.chapters}
    for key in ("verification-eagle40", "verification-eagle30"):
        table = chapters[key].tables[-1]
        models = {row[1] for row in table.rows}
        assert models == {"lohmiller", "lohmiller, by size", "lohmiller, as printed", "piecewise", "queueing"}
    assert "threshold" in chapters
    without = {key for key, chapter in chapters.items() if key in study_keys() and not chapter.figures}
    # A simulated device has no clock.
    assert without == {"processor", "use"}


def study_keys() -> set[str]:
    return {experiment.key for experiment in EXPERIMENTS}


def test_every_scenario_is_valid_in_full_and_quick() -> None:
    for quick in (True, False):
        for scenario in [scenario for each in EXPERIMENTS for scenario in each.scenarios(quick).values()]:
            scenarios.check(Document("test", {"name": "test", **scenario}))


def test_a_quick_run_has_few_trials() -> None:
    documents = [scenario for each in EXPERIMENTS for scenario in each.own(True).values()]
    trials = [
        number
        for scenario in (*shared(True).values(), *documents)
        for _, number in scenarios.check(Document("test", {"name": "test", **scenario})).trials()
    ]
    assert sum(trials) < 1000


def test_a_stepped_trial_weighs_bins_by_their_packets() -> None:
    trial = SteppedTrial(
        (10.0,),
        np.array([0.0, 5, 10]),
        np.array([1.0, 3, 2]),
        np.array([1.0, 3, 0]),
        np.array([1.0, 5, np.nan]),
    )
    assert trial.mean(0, 10) == 4.0
    assert math.isnan(trial.mean(10, 20))


def test_the_course_is_the_published_one_in_a_full_run() -> None:
    [change] = [each for each in EXPERIMENTS if each.key == "rate-change"]
    found = {
        (quick, name): each["series"]["settings"][0]
        for quick in (True, False)
        for name, each in change.own(quick).items()
        if name != "step"
    }
    assert {where: each["trial_s"] for where, each in found.items()} == {
        (True, "course"): 0.43,
        (False, "course"): 43,
        (False, "fast course"): 4.3,
    }
    course = found[False, "course"]
    assert [step["at_s"] for step in course["steps"]] == [*range(4, 40, 5)]
    assert [course["rate"], *(step["rate"] for step in course["steps"])] == [
        f"{rate}Mbit/s" for rate in range(20, 821, 100)
    ]


def test_a_long_course_is_drawn_by_the_bin_after_its_steps_alone() -> None:
    steps = (LoadStep(10.0, Rate(200.0)), LoadStep(20.0, Rate(300.0)))
    spec = TrialSpec(Traffic(Rate(100.0), steps=steps, duration_s=40.0))
    start = np.arange(0.0, 40e9, 1e6)
    received = np.where(start < 1e9, 0.0, 2.0)
    delay = np.where(start < 1e9, np.nan, 1e3 * np.where(start % 2e6 == 0, 10.0, 20.0))
    received[start % 2e6 == 0] *= 3
    series = StepSeries(spec, ("a",), start, 1e6, received, received, delay)
    found = {round(at, 6): us for at, us in thinned(series, delay)}
    assert len(found) < 500
    assert min(found) == pytest.approx(1.0)
    assert [found[round(10 + i / 1e3, 6)] for i in range(20)] == [10.0, 20.0] * 10
    assert set(np.round([us for at, us in found.items() if 11 < at < 19], 6)) == {12.5}


def test_changes_of_the_rate_are_drawn_beside_their_prediction(run: Run) -> None:
    [chapter] = [each for each in study.ReproductionStudy().page(run).chapters if each.key == "rate-change"]
    step, course = chapter.figures
    assert set(step.data["series"]) == {"measured", "predicted", "predicted without history"}
    assert (step.data["x"].min(), step.data["x"].max()) == (-10, 40)
    assert set(course.data["series"]) == {"measured", "predicted"}
    assert course.data["x"].max() == pytest.approx(0.429, abs=2e-3)


def test_the_models_curves_are_drawn_beside_what_they_were_fitted_to(run: Run) -> None:
    chapters = {chapter.key: chapter for chapter in study.ReproductionStudy().page(run).chapters}
    [shapes], [groups] = (chapters[key].figures for key in ("model-shape", "fit"))
    assert set(shapes.data["series"]) == {"measured", "sigmoid", "two lines", "quadratic and line"}
    assert len(groups.data["series"].unique()) == 6
    for figure in (shapes, groups):
        assert (figure.data["y"] > 0).all()


def test_thresholds_are_means_over_sizes(run: Run) -> None:
    profile = MeasuredProfile.of(own_run(run, "threshold/iptables"))
    limits = profile.thresholds(held_out=False)
    assert set(limits) == {0, 50, 100, 400, 1000}
    assert set(profile.thresholds()) == {*limits, 200, 300, 500, 700}


def test_one_stage_is_off_where_a_second_one_helps() -> None:
    about = publication(KEY)
    n, pps = thresholds.thresholds(about)
    errors = {fit.name: dict(zip(n, fit.pps / pps - 1, strict=True)) for fit in thresholds.fits(about)}
    one, fitted, slower, second = errors.values()
    assert one[0] < -0.05
    assert one[200] > 0.1
    assert slower == pytest.approx(fitted, abs=0.005)
    assert abs(second[0]) < 0.01
    assert abs(second[200]) < 0.6 * one[200]
    costs = thresholds.dropped_ns(about)
    assert costs[0] > 300
    assert abs(costs[1000]) < 30


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("published", DOCS / "published.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docs_say_what_the_data_file_says(writer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "model.md").read_text("utf-8")
    assert writer.written(text) == text
    data = content()
    data["experiments"]["threshold"]["values"]["measured"]["series"][300] = 123_000
    monkeypatch.setattr(writer, "publication", lambda key: parsed(KEY, data))
    assert "| 123 kpps |" in writer.written(text)
