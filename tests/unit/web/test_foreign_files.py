"""Whatever lies in the place of a measurement's file, nothing hangs, and nothing from outside is sent."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from weirlab.store import Store
from weirlab.web.captures import arrays
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.sending import EscapedDocument
from weirlab.web.service import service
from weirlab.web.settings import WebSettings

from .conftest import ORIGIN, Serve, send, settled
from .test_runs import listed, trials


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    secret = path.parents[2] / "secret"
    secret.write_text("{}")
    path.symlink_to(secret)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


Put = Callable[[Path], None]
OTHERS = [pipe, link, zeros]


GRAPHS = "connections/0/graphs?side=b&from=0&to=1"


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, capture: bytes) -> tuple[Path, str]:
    """A store with a capture that was analysed and drawn, and its data ID; tests get copies."""
    store = Store(tmp_path_factory.mktemp("analysed"))
    with service(WebSettings(), store) as made:
        client = TestClient(made.app, base_url=ORIGIN)
        data_id = send(client, capture)
        assert settled(client, data_id)["stage"] == "ready"
        drawn = client.get(f"/api/captures/{data_id}/{GRAPHS}")
        assert drawn.status_code == 200, drawn.text
    return store.root, data_id


@pytest.fixture
def one(store: Store, analysed: tuple[Path, str]) -> Measurement:
    folder, data_id = analysed
    shutil.copytree(folder, store.root, dirs_exist_ok=True)
    return Measurements(store.root).open(data_id)


@pytest.fixture
def client(one: Measurement, serve: Serve) -> TestClient:
    """A service that begins with this measurement."""
    return serve()[0]


def replace(path: Path, put: Put) -> None:
    path.unlink()
    put(path)


@pytest.mark.parametrize("put", OTHERS)
def test_what_is_no_state_is_unknown_or_damaged_and_hides_no_other(
    client: TestClient, one: Measurement, store: Store, put: Put, capture: bytes
) -> None:
    other = send(client, capture)
    settled(client, other)
    replace(one.path / "measurement.json", put)
    assert client.get(f"/api/measurements/{one.data_id}").status_code == 404
    assert client.get(f"/api/measurements/{other}").json()["stage"] == "ready"
    assert [each.data_id for each in Measurements(store.root).all()] == [other]


@pytest.mark.parametrize("content", ["[]", "5", '{"data_id": 1}', '{"created": "yesterday"}'])
def test_a_state_with_wrong_fields_is_damaged(client: TestClient, one: Measurement, content: str) -> None:
    path = one.path / "measurement.json"
    kept = json.loads(path.read_text())
    changed = json.loads(content)
    path.write_text(json.dumps({**kept, **changed} if isinstance(changed, dict) else changed))
    answer = client.get(f"/api/measurements/{one.data_id}")
    assert answer.status_code == 404
    assert "is damaged" in answer.json()["error"]["message"]


@pytest.mark.parametrize("put", OTHERS)
@pytest.mark.parametrize(
    ("file", "request_path"),
    [
        ("capture", "file"),
        ("capture", "part.pcapng?from=0&to=1"),
        ("series/segments.parquet", "series/segments.parquet"),
        ("points/0-b/index.json", GRAPHS),
        ("points/0-b/rates-time.npy", GRAPHS),
    ],
)
def test_what_is_no_file_is_not_sent(
    client: TestClient, one: Measurement, file: str, request_path: str, put: Put
) -> None:
    drawn = client.get(f"/api/captures/{one.data_id}/{GRAPHS}")
    assert drawn.status_code == 200, drawn.text
    arrays.release(one.path / "points")
    replace(one.path / file, put)
    answer = client.get(f"/api/captures/{one.data_id}/{request_path}")
    assert answer.status_code in (404, 422), answer.text
    assert "where a regular file was expected" in answer.json()["error"]["message"]


@pytest.mark.parametrize("put", OTHERS)
def test_a_capture_that_is_no_file_fails_at_once(
    serve: Serve, store: Store, one: Measurement, put: Put
) -> None:
    replace(one.path / "capture", put)
    one.change(stage="queued")
    client, _ = serve()
    found = settled(client, one.data_id)
    assert found["stage"] == "failed"
    assert "where a regular file was expected" in found["message"]


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.zeros((2, 2)), np.array(["text"]), np.zeros(1, [("a", "i8")])]
)
def test_an_array_of_something_else_than_numbers_in_a_row_is_damaged(
    client: TestClient, one: Measurement, array: np.ndarray
) -> None:
    graphs = f"/api/captures/{one.data_id}/{GRAPHS}"
    assert client.get(graphs).status_code == 200
    arrays.release(one.path / "points")
    np.save(one.path / "points" / "0-b" / "rates-time.npy", array, allow_pickle=True)
    answer = client.get(graphs)
    assert answer.status_code == 404
    assert "cannot be read" in answer.json()["error"]["message"]


@pytest.mark.parametrize("put", OTHERS)
def test_a_report_that_is_no_file_is_none(client: TestClient, store: Store, put: Put) -> None:
    with store.create("trial", {}, {}) as writer:
        pass
    put(writer.path / "report.html")
    answer = client.get(f"/api/runs/{writer.run_id}/report")
    assert answer.status_code == 400
    assert "no report yet" in answer.json()["error"]["message"]
    assert [run["run_id"] for run in client.get("/api/runs").json()["runs"]] == [writer.run_id]


def test_half_characters_in_a_run_are_shown_as_escapes(client: TestClient, store: Store) -> None:
    run_id = trials(store, 20_000.0)
    path = store.root / run_id / "manifest.json"
    kept = json.loads(path.read_text())
    strange = {"scenario": {"name": "\ud800"}, "facts": {**kept["facts"], "dut": "\udfff", "lab": "\ud800"}}
    path.write_text(json.dumps({**kept, **strange}))
    answer = client.get(f"/api/runs/{run_id}")
    assert answer.status_code == 200
    assert (answer.json()["name"], answer.json()["device"]) == ("\ud800", "\udfff")
    assert client.get("/api/runs").status_code == client.get(f"/api/runs/{run_id}/live").status_code == 200
    other = trials(store, 20_000.0)
    assert client.get(f"/api/runs/{run_id}/compared?after={other}").status_code < 500


def test_numbers_that_are_none_are_null() -> None:
    document = EscapedDocument({"left_s": math.nan, "name": "NaN \udfff", "most": [math.inf]})
    assert json.loads(document.body) == {"left_s": None, "name": "NaN \udfff", "most": [None]}


def test_a_run_that_the_service_may_not_look_into_hides_no_other(
    client: TestClient, store: Store, close: Callable[[Path], None]
) -> None:
    run_id, other = trials(store, 20_000.0), trials(store, 20_000.0)
    assert listed(client)[run_id]["problem"] == ""
    close(store.root / run_id)
    found = listed(client)
    assert (found[run_id]["sketch"], found[other]["problem"]) == (False, "")
    answer = client.get(f"/api/runs/{run_id}")
    assert (answer.status_code, "permission denied" in answer.text) == (507, True)


def test_labels_that_the_service_may_not_read_are_told(
    client: TestClient, store: Store, close: Callable[[Path], None]
) -> None:
    run_id = trials(store, 20_000.0)
    close(store.root / "labels")
    answer = client.get(f"/api/runs/{run_id}")
    assert (answer.status_code, "permission denied" in answer.text) == (507, True)
