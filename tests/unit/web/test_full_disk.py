"""A disk that is full, or that nobody may write: nothing is left behind, and no message shows its paths."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab.base import files, programs
from weirlab.base.errors import DiskFull, StoreError
from weirlab.store import Store
from weirlab.web import child, failures
from weirlab.web.children import Children
from weirlab.web.launching.jobs import CaptureJob, ProcessJob
from weirlab.web.launching.launcher import DirectLauncher
from weirlab.web.measurements import measurement
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.service import WebService

from .conftest import Serve, send, settled

SCENARIO = """\
name: A small profile
lab: {kind: sim}
dut: {name: iptables}
profile: {positions: [0], sizes: [64], load_shares: [0.1], repetitions: 1, trial_s: 0.05, warmup_s: 0.01}
report: null
"""
REFUSALS = [errno.ENOSPC, errno.EDQUOT, errno.EIO]


def folders(store: Store) -> list[Path]:
    return [path for path in (store.root / "web").glob("*") if path.is_dir()]


def fail(number: int) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


def upload(client: TestClient) -> Any:
    return client.post("/api/captures", content=bytes(100))


def transfer(client: TestClient) -> Any:
    return client.post("/api/transfers", json={"host": "192.0.2.1"})


def scenario(client: TestClient) -> Any:
    return client.post("/api/scenarios", json={"text": SCENARIO})


@pytest.mark.parametrize("number", REFUSALS)
@pytest.mark.parametrize("begin", [upload, transfer, scenario])
@pytest.mark.parametrize("step", ["link", "mkdir"])
def test_what_cannot_begin_leaves_nothing_and_shows_no_folder(
    serve: Serve,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[TestClient], Any],
    step: str,
    number: int,
) -> None:
    client, _ = serve(allow_run=True)
    (store.root / "web").mkdir(parents=True, exist_ok=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail(number)) if step == "link" else patch.setattr(Path, step, fail(number))
        answer = begin(client)
    assert answer.status_code == 507, answer.text
    assert str(store.root) not in answer.text
    assert folders(store) == []


def test_an_upload_that_fills_the_disk_is_removed(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("weirlab.web.captures.service.os.write", fail(errno.ENOSPC))
        answer = upload(client)
    assert answer.status_code == 507
    assert answer.json()["error"]["message"] == failures.FULL
    assert str(store.root) not in answer.text
    assert folders(store) == []


def test_a_capture_that_cannot_be_adopted_leaves_nothing(
    serve: Serve, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, made = serve()
    (tmp_path / "taken").write_bytes(b"x")
    monkeypatch.setattr(Path, "rename", fail(errno.ENOSPC))
    with pytest.raises(StoreError, match="no space is left"):
        made.uploads.adopt("taken", tmp_path / "taken", made.space.claim(1))
    assert folders(store) == []
    assert (tmp_path / "taken").exists()


def test_what_ends_on_a_full_disk_is_not_in_progress_and_is_stored_later(tmp_path: Path) -> None:
    measurements = Measurements(tmp_path)
    with measurements.created("transfer", "one") as one:
        one.change(stage="working")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", fail(errno.ENOSPC))
        with pytest.raises(DiskFull):
            one.change(stage="ready")
        assert one.state.stage == "working"
        one.advance(stage="failed", message="full")
        with pytest.raises(DiskFull):
            one.save()
        assert measurements.open(one.data_id).state.stage == "failed"
        assert Measurements(tmp_path).open(one.data_id).state.stage == "working"
    one.save()
    stored = Measurements(tmp_path).open(one.data_id).state
    assert (stored.stage, stored.message) == ("failed", "full")


def test_a_transfer_whose_numbers_have_no_room_has_failed_and_keeps_none(
    client: TestClient, store: Store, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Measurement.keep

    def fill(one: Measurement, name: str, value: object) -> None:
        keep(one, name, value)
        # From here on, the disk is full.
        monkeypatch.setattr(os, "link", fail(errno.ENOSPC))

    monkeypatch.setattr(Measurement, "keep", fill)
    sent = {"host": "127.0.0.1", "port": port, "lasts_s": None, "total_bytes": 1_000_000}
    data_id = client.post("/api/transfers", json=sent).json()["data_id"]
    found = settled(client, data_id)
    assert (found["stage"], found["message"]) == ("failed", failures.FULL)
    (folder,) = folders(store)
    assert [path.name for path in folder.iterdir()] == ["measurement.json"]


def test_a_service_begins_on_a_full_disk(serve: Serve, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = serve()
    ids = []
    for kind in ("transfer", "scenario", "capture"):
        with made.uploads.measurements.created(kind, "one") as one:
            one.change(stage="working", facts={"asked": {"name": "", "lab": "sim"}, "run_id": ""})
            ids.append(one.data_id)
    monkeypatch.setattr(os, "link", fail(errno.ENOSPC))
    client, _ = serve(allow_run=True)
    assert [settled(client, data_id)["stage"] for data_id in ids] == ["failed"] * 3


def test_a_child_process_tells_that_the_disk_is_full(tmp_path: Path) -> None:
    def deed(request: dict[str, Any]) -> dict[str, Any]:
        with files.telling(tmp_path / "points", "write"):
            raise OSError(errno.ENOSPC, "")

    told = child.answer({"draw": deed}, {"do": "draw", "folder": str(tmp_path), "name": "one"}, "capture")

    def start(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        command = [sys.executable, "-c", f"print({json.dumps(told)!r})"]
        return programs.start(command, stdin=stdin, stdout=stdout)

    with closing(Children(1, DirectLauncher(start))) as children, pytest.raises(DiskFull):
        children.ask(CaptureJob("0" * 32), {}, most_s=60)


def test_a_discarded_measurement_is_unknown(tmp_path: Path) -> None:
    measurements = Measurements(tmp_path)

    def break_off() -> None:
        with measurements.created("capture", "one"):
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError):
        break_off()
    assert list(measurements.all()) == []
    assert list((tmp_path / measurement.FOLDER).iterdir()) == []


def test_a_capture_whose_analysis_fails_keeps_nothing_of_it(
    serve: Serve, store: Store, capture: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, made = serve()

    def ask(job: CaptureJob, request: dict[str, Any], **_: Any) -> None:
        series = store.root / "web" / job.data_id / "series"
        series.mkdir()
        (series / "segments.parquet").write_bytes(bytes(1000))
        raise DiskFull(f"cannot write {series}/rtt.parquet: no space is left on the disk")

    monkeypatch.setattr(made.children, "ask", ask)
    found = settled(client, send(client, capture))
    assert found["stage"] == "failed"
    assert found["message"] == failures.FULL
    (folder,) = folders(store)
    assert sorted(path.name for path in folder.iterdir()) == ["capture", "measurement.json"]


@pytest.fixture
def read_only(serve: Serve, store: Store, capture: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """A service that may not write to its store of a run and a capture with the graphs of one side."""
    with store.create("trial", {"name": "kept"}, {}):
        pass
    writing, made = serve()
    data_id = send(writing, capture)
    settled(writing, data_id)
    made.retention.close()
    check = files.check_folder

    def refuse(path: Path, option: str = "") -> None:
        if path == store.root / "web":
            raise StoreError("the file system is read-only")
        check(path, option)

    monkeypatch.setattr(files, "check_folder", refuse)
    return serve(allow_run=True), data_id


def state(store: Store) -> dict[str, tuple[int, int]]:
    """Every file of the store, with its size and time."""
    found = {}
    for path in store.root.rglob("*"):
        about = path.stat()
        found[str(path)] = (about.st_size, about.st_mtime_ns)
    return found


def test_a_store_that_may_not_be_written_is_shown_as_it_is(
    read_only: tuple[tuple[TestClient, WebService], str], store: Store
) -> None:
    (client, _), data_id = read_only
    before = state(store)
    assert client.get("/api/session").json()["read_only"] is True
    (run,) = client.get("/api/runs").json()["runs"]
    assert run["name"] == "kept"
    assert client.get(f"/api/runs/{run['run_id']}").status_code == 200
    assert client.get("/metrics").status_code == 200
    assert client.get(f"/api/captures/{data_id}").json()["connections"]
    assert client.get(f"/api/captures/{data_id}/file").status_code == 200
    drawn = {
        side: client.get(
            f"/api/captures/{data_id}/connections/0/graphs", params={"side": side, "from": 0, "to": 1}
        ).status_code
        for side in ("a", "b")
    }
    assert sorted(drawn.values()) == [200, 403], "only what was drawn before can be shown"
    assert state(store) == before


def test_a_store_that_may_not_be_written_takes_nothing_and_says_so(
    read_only: tuple[tuple[TestClient, WebService], str], store: Store
) -> None:
    (client, _), data_id = read_only
    before = state(store)
    run_id = client.get("/api/runs").json()["runs"][0]["run_id"]
    refused = [
        upload(client),
        transfer(client),
        scenario(client),
        client.get(f"/api/captures/{data_id}/part.pcapng", params={"from": 0, "to": 1}),
        client.post(f"/api/runs/{run_id}/report", json={}),
    ]
    for answer in refused:
        assert answer.status_code == 403, answer.text
        assert "may not write to its store" in answer.json()["error"]["message"]
    assert f"weir report {run_id} --out FILE" in refused[-1].json()["error"]["message"]
    assert state(store) == before
