"""A link that is monitored in each way, from a scenario to the run: counters of all parts agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import MissingCapability
from weirlab.jobs.progress import SilentProgress
from weirlab.links.monitor.bed import recording
from weirlab.links.monitor.bed.lab import LinkLab
from weirlab.links.monitor.plan import METHODS, RECORDING, Method, MonitorSettings
from weirlab.links.monitor.rows import MonitorRow
from weirlab.links.monitor.section import MonitorScenario
from weirlab.links.monitor.study import MonitorFindings
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies.contract import Outcome
from weirlab.studies.runner import run_scenario
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

pytestmark = pytest.mark.netns


@pytest.fixture(scope="module", autouse=True)
def _needs_tcpdump() -> None:
    try:
        recording.check()
    except MissingCapability as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome[MonitorFindings]:
    content = {
        "name": "test",
        "monitor": {
            "payloads": [10, 1400],
            "loads": ["20kpps"],
            "runs": 1,
            "trial_s": 0.2,
            "stall": {
                "methods": ["tap-ring", "tcpdump-bridge"],
                "rate": "20kpps",
                "payload": 1400,
                "before_s": 0.1,
                "pause_s": 0.3,
                "after_s": 0.1,
                "repetitions": 1,
                "ring_bytes": 1 << 20,
            },
            "search": None,
            "copy_cost": None,
            # Whether this host is quiet enough for a measurement is not what is tested.
            "max_attempts": 1,
        },
        "report": None,
    }
    scenario = from_plain(content, "test", MonitorScenario)
    return run_scenario(Store(tmp_path_factory.mktemp("store")), scenario, SilentProgress())


def rows(outcome: Outcome[MonitorFindings], part: str, method: str) -> list[MonitorRow]:
    return [row for row in outcome.found.rows if (row.part, row.method) == (part, method)]


@pytest.mark.parametrize("method", METHODS)
def test_what_the_sender_sent_the_receiver_got_or_the_bridge_refused(
    outcome: Outcome[MonitorFindings], method: str
) -> None:
    found = rows(outcome, "validation", method)
    assert [row.payload_bytes for row in found] == [10, 1400]
    for row in found:
        assert row.balance == ""
        assert row.sent > 0
        # Each by a counter of its own; what is lost behind the bridge would only be their difference.
        assert row.sent == row.received + row.not_entered + row.not_forwarded
        assert row.lost_behind == 0


@pytest.mark.parametrize("method", RECORDING)
def test_what_is_recorded_is_in_the_files(outcome: Outcome[MonitorFindings], method: str) -> None:
    for row in rows(outcome, "validation", method):
        assert row.logged is not None
        passed = row.received if method == "tcpdump-receiver" else row.entered
        counted = (row.not_copied or 0) + (row.not_mirrored or 0) + (row.not_written or 0)
        # The recorder of a ring is told of what the tap counts as not copied: the same frames.
        counted += 0 if method == "tap-ring" else row.recorder_lost or 0
        assert passed == row.logged + counted
        assert row.lost_logger == 0
        # The tap's ring has room for all of it; tcpdump's buffer, on a busy host, may not.
        assert row.logged > (0.9 * row.entered if method.startswith("tap-") else 0)


def test_a_recorder_that_stands_still_leaves_a_gap_that_has_a_name_and_no_other(
    outcome: Outcome[MonitorFindings],
) -> None:
    (row,) = rows(outcome, "stall", "tap-ring")
    assert row.balance == ""
    assert row.logged is not None
    missing = row.entered - row.logged
    assert missing > 0
    assert sum(gap["frames"] for gap in row.gap_list()) == missing
    assert row.stalled_from_ns is not None
    assert row.stalled_to_ns is not None
    # The link goes on all the while: it lost at most what a moment without CPU takes.
    assert row.received > 0.9 * row.sent


def test_in_overload_the_counters_agree_and_nothing_is_lost_where_nobody_counts(tmp_path: Path) -> None:
    for method in ("plain-bridge", "tap-bare"):
        with LinkLab(MonitorSettings(method, folder=tmp_path)) as lab:
            # As fast as it can: the bridge has to refuse frames, and says how many.
            lab.run(Traffic(Rate(0.0, "max"), Constant(64), warmup_s=0.0, duration_s=0.1))
            stages = lab.stages
        assert stages is not None
        assert stages.entered == stages.forwarded + stages.not_forwarded
        assert stages.forwarded == stages.received


@pytest.mark.parametrize("method", ["tap-mirror", "tcpdump-receiver"])
def test_a_link_leaves_nothing_behind(method: Method, made: Any, tmp_path: Path) -> None:
    with LinkLab(MonitorSettings(method, folder=tmp_path)) as lab:
        assert made.left()
        lab.run(Traffic(Rate(1000.0), Constant(64), warmup_s=0.0, duration_s=1.0))
        assert lab.stages is not None
        assert lab.stages.sent > 0
    assert made.left() == []
    assert list(tmp_path.iterdir()) == []


def test_records_stay_if_they_are_wanted(tmp_path: Path) -> None:
    with LinkLab(MonitorSettings("tcpdump-bridge", folder=tmp_path, keep=True)) as lab:
        lab.run(Traffic(Rate(1000.0), Constant(64), warmup_s=0.0, duration_s=1.0))
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix == ".pcap"] == [".pcap"]
