"""A campaign under way, wherever it was started: its test beds, its steps, and its end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from weirlab.base import programs
from weirlab.jobs import status
from weirlab.jobs.status import WorkerStatus, WorkStatus
from weirlab.store import Store

from ..campaigns.test_campaign import MATRIX
from .conftest import DEADLINE_S

BEDS = (
    WorkerStatus("a-1", {"nic": "mlx5"}, "", "load, fast", 70.0, 680.0, 3, 16, 5, 0, 80, 100.0),
    WorkerStatus("b-2", {}, steps=2, failed=1, trials=32, seen_s=40.0, quarantine="1% is lost", gone=True),
    WorkerStatus("c-3", {}, run_id="another", doing="secret", since_s=90.0, seen_s=99.0),
)


@pytest.fixture
def terminal(tmp_path: Path, store: Store) -> Iterator[subprocess.Popen[bytes]]:
    """A campaign that takes long, in a terminal."""
    path = tmp_path / "campaign.yaml"
    path.write_text(yaml.safe_dump({**MATRIX, "campaign": {**MATRIX["campaign"], "repetitions": 1000}}))
    command = programs.own("weirlab", "--store", str(store.root), "campaign", str(path))
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    yield process
    process.kill()
    process.communicate()


def wait(client: TestClient) -> tuple[str, dict[str, Any]]:
    """The ID of the run, and how far its steps are, as soon as some are done."""
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        for run in client.get("/api/runs").json()["runs"]:
            live = client.get(f"/api/runs/{run['run_id']}/live").json()
            if live["work"] and live["work"]["done"]:
                return run["run_id"], live
        time.sleep(0.05)
    pytest.fail("no step is done")


def test_a_campaign_of_a_terminal_is_followed_and_stopped(
    client: TestClient, store: Store, terminal: subprocess.Popen[bytes]
) -> None:
    run_id, live = wait(client)
    work = live["work"]
    (bed,) = work["workers"]
    steps = sum(work[name] for name in ("done", "failed", "underway", "waiting"))
    assert (live["held"], live["stoppable"], steps) == (False, True, 4000)
    assert (bed["steps"], bed["trials"], bed["why"]) == (work["done"], work["done"], "")
    assert bed["activity"] in ("working", "idle")
    assert f'weir_campaign_steps{{run="{run_id}",state="failed"}} 0' in client.get("/metrics").text
    assert client.post(f"/api/runs/{run_id}/stop", json={}).status_code == 200
    assert terminal.wait(DEADLINE_S) == 143
    assert terminal.stderr is not None
    assert f"kept in run {run_id}" in terminal.stderr.read().decode()
    assert client.get(f"/api/runs/{run_id}/live").json()["work"] is None
    assert store.open(run_id).manifest.status == "interrupted"
    refused = client.post(f"/api/runs/{run_id}/stop", json={})
    assert (refused.status_code, "no process of this machine" in refused.text) == (422, True)


def test_every_worker_has_its_activity_and_the_reason(client: TestClient, store: Store) -> None:
    with store.create("campaign", MATRIX, {}) as writer:
        writer.put_json(status.NAME, WorkStatus(100.0, 7, 1, 2, 5, 90.0, BEDS))
        work = client.get(f"/api/runs/{writer.run_id}/live").json()["work"]
        metrics = client.get("/metrics").text
    first, second, third = work["workers"]
    assert (work["done"], work["failed"], work["underway"], work["waiting"]) == (7, 1, 2, 5)
    assert work["left"] == "1 min 30 s"
    assert work["age_s"] > 1e6
    assert (first["activity"], first["tags"], first["for"]) == ("working", ["nic=mlx5"], "30 s")
    assert (first["done"], first["total"], first["trials"], first["heard_s"]) == (3, 16, 80, 0.0)
    assert (second["activity"], second["why"], second["heard_s"]) == ("quarantined", "1% is lost", 60.0)
    assert (third["activity"], third["doing"]) == ("working", "another run")
    named = f'run="{writer.run_id}",worker="b-2"'
    assert f'weir_campaign_worker{{{named},state="quarantined"}} 1' in metrics
    assert f'weir_campaign_worker{{{named},state="gone"}} 0' in metrics
    assert f"weir_campaign_worker_trials{{{named}}} 32" in metrics
    assert f"weir_campaign_worker_seen_seconds{{{named}}} 40.0" in metrics
    assert f'weir_campaign_left_seconds{{run="{writer.run_id}"}} 90' in metrics


def test_a_campaign_of_another_machine_is_not_interrupted_here(client: TestClient, store: Store) -> None:
    with store.create("campaign", MATRIX, {}) as writer:
        text = (writer.path / "manifest.json").read_text()
        manifest = yaml.safe_load(text)
        (writer.path / "manifest.json").write_text(text.replace(manifest["host"], "elsewhere"))
        assert client.get(f"/api/runs/{writer.run_id}/live").json()["stoppable"] is False
        refused = client.post(f"/api/runs/{writer.run_id}/stop", json={})
        assert (refused.status_code, "on elsewhere; stop it there" in refused.text) == (422, True)
