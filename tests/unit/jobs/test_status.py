"""What workers do is kept in the run, but not more often than is worth its time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.jobs import status
from weirlab.jobs.cluster import Cluster
from weirlab.jobs.status import StatusKeeper, WorkerStatus, WorkStatus, status_of
from weirlab.store import Store

BED = WorkerStatus("bed-1", {"kernel": "6.8"}, doing="load, fast", steps=3, seen_s=100.0)


@pytest.mark.parametrize(
    ("change", "activity"),
    [
        ({}, "working"),
        ({"doing": ""}, "idle"),
        ({"doing": "", "lacking": "nic=mlx5"}, "unsuitable"),
        ({"doing": "", "gone": True}, "gone"),
        ({"quarantine": "its clock is wrong", "gone": True}, "quarantined"),
    ],
)
def test_a_worker_does_one_thing(change: dict[str, object], activity: str) -> None:
    assert replace(BED, **change).activity == activity  # type: ignore[arg-type]


def test_a_status_is_kept_once_a_second_or_at_once(tmp_path: Path) -> None:
    done = 0

    def now() -> WorkStatus:
        return WorkStatus(100.0, done, 0, 1, 7 - done, None, (BED,))

    with Store(tmp_path).create("campaign", {}, {}) as writer:
        assert status_of(writer.run) is None
        keeper = StatusKeeper(writer, now)
        keeper.keep()
        done = 1
        keeper.keep()
        assert status_of(writer.run) == WorkStatus(100.0, 0, 0, 1, 7, None, (BED,))
        keeper.keep(at_once=True)
        assert status_of(writer.run) == now()


def test_a_damaged_status_is_none(tmp_path: Path) -> None:
    with Store(tmp_path).create("campaign", {}, {}) as writer:
        (writer.path / f"{status.NAME}.json").write_text('{"at_s": "yesterday"}')
        assert status_of(writer.run) is None


def beat(name: str, at_s: float, **told: object) -> dict[str, object]:
    """What a scheduler says about a worker."""
    report = {"facts": {"kernel": "6.8"}, "quarantine": "", **told}
    return {"name": name, "last_seen": at_s, "resources": {"testbed": 1.0}, "metrics": {"weir": report}}


STEP = {"run_id": "r", "place": "load, fast", "lease_s": 600.0, "elapsed_s": 5.0, "done": 3, "total": 16}


def test_heartbeats_become_statuses_and_silence_is_seen() -> None:
    cluster = Cluster.__new__(Cluster)
    cluster._resource, cluster._requirements = "testbed", ("kernel>=6.1", "nic=mlx5")
    cluster._statuses, cluster._beats = {}, {}
    other = {"name": "reader", "last_seen": 7.0, "resources": {"analysis": 1.0}, "metrics": {}}
    cluster._note([beat("a", 7.0, **STEP), beat("b", 7.0), other], 1000.0)
    assert sorted(cluster._statuses) == ["a", "b"]
    a = cluster._statuses["a"]
    assert (a.doing, a.since_s, a.until_s, a.done, a.total) == ("load, fast", 995.0, 1595.0, 3, 16)
    assert (a.seen_s, a.lacking) == (1000.0, "nic=mlx5")
    # The same heartbeat again is no new sign of life.
    cluster._note([beat("a", 7.0, **STEP)], 1010.0)
    a, b = cluster._statuses["a"], cluster._statuses["b"]
    assert (a.seen_s, a.since_s) == (1000.0, 995.0)
    assert (b.activity, b.seen_s) == ("gone", 1000.0)
    cluster._tell = lambda text: None
    cluster.note_quarantine("a", "1% of the packets are lost")
    cluster._note([beat("a", 8.0)], 1011.0)
    assert (cluster._statuses["a"].activity, cluster._statuses["a"].seen_s) == ("quarantined", 1011.0)
