"""A campaign on a cluster finds what it finds alone, whoever dies meanwhile."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from weirlab.base.errors import InputError, TrialError
from weirlab.base.storage import run_ids
from weirlab.campaigns import steps, study, tables
from weirlab.jobs import cluster as clusters
from weirlab.jobs import worker as working
from weirlab.jobs.cluster import ClusterAddress
from weirlab.jobs.status import status_of
from weirlab.jobs.worker import MainThreadExecutor, lease, meets
from weirlab.measure.calibrate import Calibration, CalibrationPoint
from weirlab.store import Store

from ..conftest import Weir
from .conftest import LocalCluster
from .test_campaign import MATRIX, findings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "campaign.yaml"
    path.write_text(yaml.safe_dump(MATRIX))
    return path


def test_killed_workers_and_a_killed_scheduler_cost_nothing_but_time(
    weir: Weir, file: Path, tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    alone = store.open(weir("campaign", file, "--json").json["run_id"])
    beds = [cluster.worker("--testbed") for _ in range(2)]
    cluster.wait_for(2)
    kept, keep = 0, steps.StepStore.keep

    def killing(self: steps.StepStore, record: steps.StepRecord) -> None:
        nonlocal kept
        keep(self, record)
        kept += 1
        if kept in (1, 3):
            beds[kept // 2].kill()
            cluster.worker("--testbed")
        elif kept == 5:
            cluster.scheduler.kill()
            cluster.scheduler.wait()
            cluster.start_scheduler()

    monkeypatch.setattr(steps.StepStore, "keep", killing)
    answer = weir("campaign", file, "--cluster", cluster.url, "--json")
    assert answer.code == 0, answer.err
    run = store.open(answer.json["run_id"])
    assert findings(run) == findings(alone)
    rows = study.stored(run).steps
    assert sorted(run_ids(run.path / steps.FOLDER)) == sorted(row.run_id for row in rows)
    assert len(rows) == 8
    assert not [
        path for path in (run.path / steps.FOLDER).iterdir() if path.name.startswith(".") and path.is_dir()
    ]


def test_steps_wait_for_a_bed_that_has_what_they_require(
    weir: Weir, file: Path, cluster: LocalCluster
) -> None:
    section = {**MATRIX["campaign"], "requires": ["nic=mlx5", "kernel>=3"], "repetitions": 1}
    file.write_text(yaml.safe_dump({**MATRIX, "campaign": section}))
    cluster.worker("--testbed")
    wanted = cluster.worker("--testbed", "--tag", "nic=mlx5")
    cluster.worker()
    cluster.wait_for(3)
    answer = weir("campaign", file, "--cluster", cluster.url, "--json")
    assert answer.code == 0
    assert {row["host"].rpartition("-")[2] for row in answer.json["steps"]} == {str(wanted.pid)}


def test_a_bed_whose_clock_is_wrong_is_quarantined_and_named(
    weir: Weir, file: Path, tmp_path: Path, cluster: LocalCluster
) -> None:
    late, right = cluster.worker_with_wrong_clock(3600), cluster.worker("--testbed")
    cluster.wait_for(2)
    answer = weir("campaign", file, "--cluster", cluster.url, "--json")
    assert answer.code == 0
    assert {row["host"].rpartition("-")[2] for row in answer.json["steps"]} == {str(right.pid)}
    told = [line for line in answer.err.splitlines() if "is quarantined: its clock is" in line]
    assert [f"-{late.pid} " in line for line in told] == [True]
    # The run remembers it, whatever becomes of the scheduler.
    run = Store(tmp_path / "store").open(answer.json["run_id"])
    kept = status_of(run)
    assert kept is not None
    assert (kept.done, kept.failed, kept.underway, kept.waiting) == (8, 0, 0, 0)
    beds = {int(one.name.rpartition("-")[2]): one for one in kept.workers}
    assert beds[late.pid].activity == "quarantined"
    assert "its clock is" in beds[late.pid].quarantine
    assert (beds[right.pid].steps, beds[right.pid].trials, beds[right.pid].quarantine) == (8, 8, "")
    assert beds[right.pid].tags["kernel"]
    assert tables.quarantines(kept).rows[0][0].endswith(f"-{late.pid}")


def test_a_scheduler_that_is_not_there_is_named(
    weir: Weir, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "FIRST_PATIENCE_S", 0.0)
    answer = weir("campaign", file, "--cluster", "tcp://127.0.0.1:1")
    assert (answer.code, "no scheduler answers at tcp://127.0.0.1:1" in answer.err) == (4, True)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (ClusterAddress("127.0.0.1:8786"), "write the scheduler as tcp://HOST:8786"),
        (ClusterAddress("tcp://192.0.2.1:8786"), "can run any code on its workers"),
        (ClusterAddress("tcp://lab.example.net:8786"), "can run any code on its workers"),
        (ClusterAddress("tls://192.0.2.1:8786"), "needs --tls-ca, --tls-cert and --tls-key"),
        (ClusterAddress("tls://h:1", Path("/no"), Path("/no"), Path("/no")), "/no: no such file"),
        (ClusterAddress("tcp://127.0.0.1:8786", ca=Path("/no")), "begins with tls://"),
    ],
)
def test_an_address_that_would_expose_workers_is_refused(address: ClusterAddress, told: str) -> None:
    with pytest.raises(InputError, match=told):
        address.security()
    assert replace(ClusterAddress("tcp://192.0.2.1:8786"), plain=True).security() is not None


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ("kernel>=6.1", True), ("kernel>=6.10", False), ("kernel<6.9", True), ("kernel>=6.8", True),
        ("nic=mlx5", True), ("nic=mlx", False), ("cpu=fast", False),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(requirement: str, holds: bool) -> None:
    assert meets({"kernel": "6.8.12-generic", "nic": "mlx5"}, requirement) is holds


POINT = CalibrationPoint("100kpps", 1e5, 1e5, 0.001, 100, 900, 4000, 9000, 30000, 0, 3, 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ""),
        ({"lost": 300}, "1.00% of the packets are lost over a plain cable"),
        ({"pacing_error_ratio": -0.3}, "the load differs from the wanted one by 30%"),
        ({"valid": 0}, "no trial over a plain cable was valid"),
    ],
)
def test_a_bed_whose_calibration_is_bad_is_named_with_the_reason(change: dict[str, Any], told: str) -> None:
    calibration = Calibration("id", "now", "host", "6.8", "netns", "xdp", (replace(POINT, **change),))
    assert steps.bed_problem(calibration) == told


def test_a_bed_that_keeps_failing_is_calibrated_and_quarantined(monkeypatch: pytest.MonkeyPatch) -> None:
    real = {**MATRIX["campaign"]["scenarios"]["load"], "lab": {"kind": "netns"}}
    asked = study.CampaignScenario.model_validate(
        {"name": "c", "campaign": {"scenarios": {"load": real}, "repetitions": 1}}
    )
    step, retired = next(asked.steps()), list[str]()

    def failing(scenario: Any, step: Any, *rest: Any) -> steps.StepRecord:
        return steps.StepRecord(step.number, problem="spoiled")

    monkeypatch.setattr(steps, "measure", failing)
    monkeypatch.setattr(steps, "check_bed", lambda lab: "1% of the packets are lost")
    monkeypatch.setattr(working, "retire", retired.append)
    monkeypatch.setattr(steps, "_faults", 0)
    here = steps.versions()["weirlab"]
    carried = [steps.carry_out(here, asked.model_dump(mode="json"), step, 60) for _ in range(3)]
    assert [each.quarantine for each in carried] == ["", "", "1% of the packets are lost"]
    assert retired == ["1% of the packets are lost"]
    assert "the campaign 0.0" in steps.carry_out("0.0", {}, step, 60).quarantine


def test_a_worker_reports_the_step_and_the_trial_at_which_it_is() -> None:
    assert "place" not in working.report()
    with working.busy("20260102-030405-campaign-0a1b", "load, fast", 600.0) as progress:
        progress.advance(3, 16)
        told = working.report()
    assert (told["place"], told["done"], told["total"], told["lease_s"]) == ("load, fast", 3, 16, 600.0)
    assert "place" not in working.report()


def test_a_lease_ends_what_takes_too_long_and_leaves_ctrl_c_alone() -> None:
    with pytest.raises(TrialError, match="lease"), lease(0.05):
        time.sleep(60)
    with pytest.raises(KeyboardInterrupt), lease(60):
        raise KeyboardInterrupt


def test_work_is_done_in_the_main_thread() -> None:
    executor, over = MainThreadExecutor(), threading.Event()
    futures = [executor.submit(threading.current_thread), executor.submit(os.stat, "/nonexistent")]
    futures[1].add_done_callback(lambda done: over.set())
    executor.work_until(over)
    assert futures[0].result() is threading.main_thread()
    assert isinstance(futures[1].exception(), FileNotFoundError)
