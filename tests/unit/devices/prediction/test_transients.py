"""End to end on the simulated lab: profile, steps, fit, comparison, prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weirlab.base.errors import InputError, ModelError
from weirlab.devices.prediction import modelling
from weirlab.devices.prediction.modelling import fit
from weirlab.devices.prediction.outcome import PredictionLoad, predict
from weirlab.devices.prediction.transients import LoadSchedule, compare_steps, predict_steps
from weirlab.devices.profile.page import gather, tell
from weirlab.devices.profile.page.transients import views
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure import Hooks, TrialEntry, run_trial
from weirlab.records import RuleSetup, TrialSpec
from weirlab.store import Run, Store
from weirlab.studies.reports import report
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import LoadStep, Rate, Traffic

SHARES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 1.15, 1.4)
STEPS = (
    Traffic(Rate(3e5), steps=(LoadStep(0.02, Rate(6e5)),), warmup_s=0.02, duration_s=0.05),
    Traffic(
        Rate(3e5),
        steps=(LoadStep(0.02, Rate(1.2e6)), LoadStep(0.04, Rate(3e5))),
        warmup_s=0.02,
        duration_s=0.06,
    ),
)


def measured(root: Path, steps: tuple[Traffic, ...]) -> tuple[Store, Run]:
    store = Store(root)
    device = SimDevice()
    writer = store.create("profile", {}, {"dut": "simulated"})
    specs = [
        TrialSpec(
            Traffic(Rate(share * 1e9 / (1153.2 + 2.7 * n)), warmup_s=0.01, duration_s=0.02), RuleSetup(n)
        )
        for n in (0, 100, 1000)
        for share in SHARES
    ]
    specs += [TrialSpec(traffic) for traffic in steps]
    with SimLab(device) as bed:
        for index, spec in enumerate(specs):
            run_trial(
                bed,
                spec,
                TrialEntry(writer.run_id, index=index, role="profile"),
                hooks=Hooks(on_record=writer.add),
            )
    writer.finish()
    return store, writer.run


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Run]:
    store, run = measured(tmp_path_factory.mktemp("steps"), STEPS)
    fit(store, run.run_id)
    return store, run


def test_the_queueing_model_follows_the_simulated_device_through_its_steps(
    profiled: tuple[Store, Run],
) -> None:
    store, run = profiled
    outcome = compare_steps(store, run.run_id)
    below, over = outcome.comparisons
    assert [len(c.errors["queueing"]) for c in (below, over)] == [1, 2]
    for comparison in (below, over):
        for error in comparison.errors["queueing"]:
            assert error.mape < 0.03
            assert error.unsettled_mape < 0.1
            assert abs(error.peak_error) < 0.05
            assert error.loss_error < 0.02
    filling, draining = over.errors["queueing"]
    assert filling.settle_ns == filling.predicted_settle_ns
    assert draining.unsettled_mape < over.errors["piecewise"][1].unsettled_mape


def test_a_device_without_spikes_teaches_none(profiled: tuple[Store, Run]) -> None:
    store, run = profiled
    outcome = compare_steps(store, run.run_id)
    assert not outcome.spikes["queueing"]
    assert outcome.document()["steps"][0]["bin_ns"] == 1e6


def test_models_of_another_run_can_be_asked(profiled: tuple[Store, Run], tmp_path: Path) -> None:
    store, run = profiled
    writer = store.create("trial", {}, {})
    with SimLab() as bed:
        run_trial(bed, TrialSpec(STEPS[0]), TrialEntry(writer.run_id), hooks=Hooks(on_record=writer.add))
    writer.finish()
    outcome = compare_steps(store, writer.run_id, source=run.run_id)
    assert outcome.comparisons[0].errors["queueing"][0].mape < 0.03
    with pytest.raises(ModelError, match="no fitted models"):
        compare_steps(store, writer.run_id)


def test_a_run_without_steps_says_how_to_make_some(tmp_path: Path) -> None:
    store, run = measured(tmp_path, ())
    with pytest.raises(InputError, match=r"no valid trial with steps.*--step"):
        compare_steps(store, run.run_id)


def test_a_prediction_over_time_begins_and_ends_with_the_stationary_ones(profiled: tuple[Store, Run]) -> None:
    store, run = profiled
    outcome = predict_steps(
        store, run.run_id, LoadSchedule(Rate(3e5), Constant(64), 0, (LoadStep(0.5, Rate(1.1e6)),))
    )
    assert outcome.steps_ns == (0.5e9,)
    course = outcome.predictions["queueing"]
    assert course.at_ns[-1] == 1.5e9
    for instant, rate_pps in ((0, 3e5), (-1, 1.1e6)):
        expected = predict(store, run.run_id, PredictionLoad(Rate(rate_pps), Constant(64)), 0).predictions[
            "queueing"
        ]
        assert course.delay_mean_ns[instant] == pytest.approx(expected["delay_mean_ns"], rel=1e-6)
        assert course.loss_ratio[instant] == pytest.approx(expected["loss_ratio"], abs=1e-6)
    shown = dict(outcome.telling())
    assert min(shown) == 0
    assert max(shown) == 1.5e9
    assert np.all(np.diff(course.at_ns) > 0)


@pytest.mark.parametrize(("at_s", "duration_s"), [((1.0, 0.5), 2.0), ((1.0,), 1.0)])
def test_steps_out_of_order_are_refused(
    at_s: tuple[float, ...], duration_s: float, profiled: tuple[Store, Run]
) -> None:
    store, run = profiled
    steps = tuple(LoadStep(at, Rate(4e5)) for at in at_s)
    with pytest.raises(InputError, match="steps must follow each other"):
        predict_steps(
            store, run.run_id, LoadSchedule(Rate(3e5), Constant(64), 0, steps, duration_s=duration_s)
        )


def test_the_report_shows_steps_if_there_are_any(
    profiled: tuple[Store, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is in these files is looked at in the tests of the page.
    monkeypatch.setattr("weirlab.report.bundle.svg", lambda chart: "<svg></svg>")
    monkeypatch.setattr("weirlab.report.bundle.png", lambda chart: b"")
    store, run = profiled
    outcome = report(store, run.run_id, out=tmp_path / "with.html", plots=tmp_path / "plots")
    assert 'id="transient"' in outcome.path.read_text()
    assert {"step-1.csv", "step-2.png", "step-3.svg"} <= {path.name for path in outcome.plots}
    _, other = measured(tmp_path / "store", ())
    page = tell(gather(other, {})).html()
    assert 'id="transient"' not in page


def test_a_figure_shows_the_bins_around_its_step(profiled: tuple[Store, Run]) -> None:
    store, run = profiled
    outcome = compare_steps(store, run.run_id)
    models, _ = modelling.find(store, run.run_id)
    (view,) = views(outcome.comparisons[0].series, models)
    trial = view.frame.filter(view.frame["source"] == "trial")
    assert view.at_s == 0.02
    assert trial["time_ms"].to_list()[0] < 0 < trial["time_ms"].to_list()[-1]
    assert set(view.frame["source"]) == {"trial", "queueing", "piecewise", "lohmiller"}
