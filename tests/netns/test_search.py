"""A search on a real data path. What it finds depends on the machine; that it fits together does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.devices.search.rfc2544.bursts import burst_spec
from weirlab.devices.search.rfc2544.suite import Rfc2544Suite
from weirlab.devices.search.study import SearchPlan, rfc2544, search
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.measure.search.goal import SearchGoal
from weirlab.measure.search.throughput import SearchShape, Setting
from weirlab.records import RuleSetup
from weirlab.scenario import Dut, Lab
from weirlab.store import Store
from weirlab.traffic.sizes import Constant

pytestmark = pytest.mark.netns

NETNS = Lab(kind="netns")
SETTING = Setting(Constant(64), RuleSetup(400))
COARSE = SearchGoal("coarse", 0.01, trial_s=0.05, duration_sum_s=0.05, exceed_ratio=0, relative_width=0.3)


def test_a_search_on_iptables_ends_with_bounds_or_with_the_reason(tmp_path: Path) -> None:
    store = Store(tmp_path)
    shape = SearchShape(warmup_s=0.02)
    asked = SearchPlan(NETNS, Dut(name="iptables"), (SETTING,), shape)
    outcome = search(Work(store, SilentProgress()), asked, (COARSE,), attempts=5)
    (point,) = outcome.points
    trials = store.open("last").trials()
    assert trials["index"].n_unique() == outcome.trials == point.trials
    assert set(trials["role"]) == {"search"}
    assert set(trials["position"]) == {400}
    if point.problem:
        # A busy machine may spoil every attempt; that is told.
        assert not point.found
        assert point.problem in str(outcome.problem())
        return
    (found,) = point.found
    tried = {round(pps) for pps in trials.filter(label="search")["offered_pps"]}
    bounds = [pps for pps in (found.lower_pps, found.upper_pps) if pps is not None]
    assert bounds
    assert all(round(pps) in tried for pps in bounds)
    assert max(tried) <= round(point.max_load_pps)


def test_bursts_on_plain_forwarding_have_the_frames_that_were_asked_for(tmp_path: Path) -> None:
    from weirlab.lab.dut import make
    from weirlab.lab.netns import NetnsLab

    setting = Setting(Constant(64))
    with NetnsLab(make("forward")) as bed:
        for frames in (10, 300):
            result = bed.run(burst_spec(SearchShape(), setting, 5e5, frames).traffic)
            # A sender that the host holds up for longer than the burst sends less, or nothing; never more.
            assert result.sent <= frames
            assert result.received <= result.sent


def test_the_loss_test_on_plain_forwarding_begins_at_the_senders_best(tmp_path: Path) -> None:
    suite = Rfc2544Suite(tests=("loss",), loss_s=0.05)
    setting = Setting(Constant(512))
    asked = SearchPlan(NETNS, Dut(name="forward"), (setting,), SearchShape(warmup_s=0.02))
    outcome = rfc2544(Work(Store(tmp_path), SilentProgress()), asked, suite, attempts=5)
    (result,) = outcome.results
    if result.loss is None:
        assert result.problems
        return
    assert result.loss.points[0].offered_pps == result.loss.max_load_pps
    assert all(0 <= point.loss_ratio <= 1 for point in result.loss.points)
