"""A TCP test of ``weir web``, captured at both ends: the page explains it from everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from weirlab._engine import TcpServer
from weirlab.store import Store
from weirlab.studies.tcp import serving
from weirlab.studies.tcp.measure import capturing
from weirlab.web.service import service
from weirlab.web.settings import Settings

pytestmark = pytest.mark.netns


def test_the_form_captures_and_every_place_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    server = TcpServer(
        address="127.0.0.1",
        port=0,
        token="",
        most_ns=None,
        most_bytes=None,
        most_clients=1,
        options=[],
        capture=serving.Captures().allowed(str(folder)),
    )
    asked = {"host": "127.0.0.1", "port": server.address[1], "lasts_s": 1, "rate": "20Mbit/s"}
    try:
        with service(Settings(most_upload_bytes=100_000_000), Store(tmp_path / "store")) as made:
            client = TestClient(made.app, base_url="http://127.0.0.1:29180")
            data_id = client.post("/api/transfers", json={**asked, "capture": True}).json()["data_id"]
            with client.stream("GET", f"/api/transfers/{data_id}/events") as answer:
                events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
            last = events[-1]
            assert "reading" in [each["event"] for each in events]
            assert (last["stage"], last["unread"]) == ("ready", ""), last
            (why,) = last["why"]
            sources = ["the sender's kernel", "the captures at both ends", "a capture at the sender"]
            seen = [row[0] for row in why["compared"][0]["rows"]]
            assert seen == [*sources, "a capture at the receiver"]
            assert all(each["sentence"] for each in why["places"])
            assert all(each["data_id"] and not each["why_not"] for each in last["captures"])
            assert list((tmp_path / "store" / "web" / data_id).glob("tapes-*")) == []
    finally:
        server.stop()


def test_what_is_beyond_the_limit_of_the_service_is_left_out_and_said(tmp_path: Path) -> None:
    server = TcpServer(
        address="127.0.0.1", port=0, token="", most_ns=None, most_bytes=None, most_clients=1, options=[]
    )
    asked = {"host": "127.0.0.1", "port": server.address[1], "lasts_s": None, "total_bytes": 3_000_000}
    try:
        with service(Settings(most_upload_bytes=3_000), Store(tmp_path / "store")) as made:
            client = TestClient(made.app, base_url="http://127.0.0.1:29180")
            data_id = client.post("/api/transfers", json={**asked, "capture": True}).json()["data_id"]
            with client.stream("GET", f"/api/transfers/{data_id}/events") as answer:
                *_, last = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
            here = last["captures"][0]
            assert "lacks its last" in here["missing"][0], last
            capture = tmp_path / "store" / "web" / here["data_id"] / "capture"
            assert capture.stat().st_size <= 3_000 + capturing.SNAP_BYTES
    finally:
        server.stop()
