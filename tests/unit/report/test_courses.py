"""Trials with steps over time: what a chart shows is what the series say, however many bins there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.records import RuleSetup, TrialSpec
from weirlab.report import courses
from weirlab.store.steps import StepSeries
from weirlab.traffic.spec import LoadStep, Rate, Traffic

BINS = 2000
TRAFFIC = Traffic(Rate(1e5), steps=(LoadStep(1.0, Rate(3e5), 400),), duration_s=2.0)
SPEC = TrialSpec(TRAFFIC, RuleSetup.mixed(((1, 1.0), (400, 0.0)), False))


def series(spec: TrialSpec = SPEC) -> StepSeries:
    """Two trials of 2 s: 100 kpps without loss, then 300 kpps of which a third is lost."""
    late = np.arange(BINS) >= BINS // 2
    sent = np.where(late, 600.0, 200.0)
    received = np.where(late, 400.0, 200.0)
    delay = np.where(late, 90_000.0, 10_000.0)
    return StepSeries(spec, ("a", "b"), np.arange(BINS) * 1e6, 1e6, sent, received, delay)


def test_bins_are_put_together_without_changing_what_they_say() -> None:
    found = courses.course(series())
    assert len(found.sent_pps) == 500
    assert found.edges_s[[0, 250, -1]] == pytest.approx([0.0, 1.0, 2.0])
    assert found.sent_pps[[0, -1]] == pytest.approx([1e5, 3e5])
    assert found.received_pps[[0, -1]] == pytest.approx([1e5, 2e5])
    assert found.delay_ns[[0, -1]] == pytest.approx([10_000.0, 90_000.0])


def test_both_charts_mark_the_step_and_share_the_time() -> None:
    load, delay = courses.figures([series()])
    assert load.linked == delay.linked != ""
    assert load.title.startswith("25")
    assert set(load.data["series"]) == {"sent", "forwarded"}
    marks = str(load.spec.get("datasets", load.spec))
    assert "300kpps, position 400" in marks
    assert delay.data["mean_us"].max() == pytest.approx(90.0)


def test_a_trial_in_which_nothing_arrives_has_no_chart_of_delays() -> None:
    lost = replace(series(), received=np.zeros(BINS), delay_mean_ns=np.full(BINS, np.nan))
    (load,) = courses.figures([lost])
    assert "100" in load.title


def test_what_is_left_out_is_told() -> None:
    many = [series()] * (courses.MOST + 2)
    assert len(courses.figures(many)) == 2 * courses.MOST
    assert courses.left_out(many) == "2 further courses not drawn: weir export has them."
    assert courses.left_out(many[:1]) == ""
