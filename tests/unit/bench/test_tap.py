"""What the benchmark of the tap makes of a run: ratios, in its tables and on its page."""

from __future__ import annotations

import pytest

import tap
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.links.monitor.fakes import FakeLink
from weirlab.links.monitor.plan import METHODS, RECORDING
from weirlab.links.monitor.study import MonitorFindings, MonitorStudy
from weirlab.store import Store
from weirlab.studies import runner
from weirlab.studies.contract import Outcome


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome[MonitorFindings]:
    store = Store(tmp_path_factory.mktemp("store"))
    return runner.run(
        MonitorStudy(FakeLink, clock=lambda: 0.0), tap.scenario(1, 0.1), Work(store, SilentProgress())
    )


def test_every_method_is_measured_beside_its_bridge_alone() -> None:
    what = tap.scenario(2, 0.1).monitor
    assert what.methods == METHODS
    assert "300kpps" in what.loads
    assert what.stall is not None
    assert {"tap-bare", "plain-bridge"} <= set(what.stall.methods)


def test_tables_tell_ratios(outcome: Outcome[MonitorFindings]) -> None:
    shown = tap.tables(outcome)
    assert {row[0] for row in shown[tap.COST]} == {*RECORDING, "tap-ring, whole", "tap-mirror, whole"}
    assert all(row[4] == "0.950" for row in shown[tap.COST])
    fast = {row[0]: row for row in shown[tap.RECORD] if row[1:3] == ("10", "max")}
    # 700,000 frames per second are recorded where tcpdump manages 300,000.
    assert fast["tap-ring"][-1] == "2.33 x"
    assert fast["tcpdump-bridge"][-1] == "1.00 x"
    searched = {row[0]: row for row in shown[tap.SEARCH] if row[1] == "60"}
    assert float(searched["tap-ring"][-1].removesuffix(" x")) == pytest.approx(2.33, rel=0.06)
    assert {row[2] for row in shown[tap.STALL]} == {"0"}


def test_the_page_has_all_tables_and_whether_counters_agree(outcome: Outcome[MonitorFindings]) -> None:
    about = {
        "date": "2026-11-21",
        "command": "bench/tap.py",
        "versions": {"kernel": "6.18"},
        "facts": {"sender_cpu": 0},
    }
    page = tap.summary(outcome, about).markdown()
    for headings in (tap.COST, tap.RECORD, tap.SEARCH, tap.STALL):
        assert "| " + " | ".join(headings) + " |" in page
    trials = len(outcome.found.rows)
    assert f"- Counters agree in {trials} of {trials} trials; 0 frames disappeared" in page
