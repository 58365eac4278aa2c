"""A TCP test of ``weir web``, captured at both ends: the page explains it from everywhere."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab import trace
from weirlab._engine import TcpServer
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.store import Store
from weirlab.studies import runner, scenarios
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.measure import capturing
from weirlab.transfers.tcp.measure.capturing import FILES
from weirlab.transfers.tcp.study.running import TcpStudy
from weirlab.web.service import service
from weirlab.web.settings import WebSettings

pytestmark = pytest.mark.netns

SECRET = b"GET /?password=hunter2 HTTP/1.1\r\n\r\n"
"""What other people send to the same port."""


def recording_server(folder: Path) -> Any:
    folder.mkdir()
    return TcpServer(
        address="127.0.0.1",
        port=0,
        token="",
        most_ns=None,
        most_bytes=None,
        most_clients=1,
        options=[],
        capture=ends.Captures().allowed(str(folder)),
    )


@contextmanager
def other_people(address: tuple[str, int]) -> Iterator[None]:
    """Send secrets to ``address`` all the time, over a connection that exists already and over new ones."""
    elsewhere = socket.create_server(("127.0.0.2", address[1]))
    old = socket.create_connection(elsewhere.getsockname())
    peer, _ = elsewhere.accept()
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.01):
            old.sendall(SECRET)
            peer.recv(len(SECRET))
            with socket.create_connection(address) as fresh:
                fresh.sendall(SECRET)
            with socket.create_connection(elsewhere.getsockname()) as fresh, elsewhere.accept()[0]:
                fresh.sendall(SECRET)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()
        for each in (old, peer, elsewhere):
            each.close()


def assert_only_headers_of_the_test(capture: Path, clients: list[str]) -> None:
    assert b"password" not in capture.read_bytes()
    with trace.read(capture, series=True) as read:
        connections = read.facts["connections"]
        assert sorted(f"{each['a']['addr']}:{each['a']['port']}" for each in connections) == sorted(clients)
        assert all(each["begin"] == "handshake" for each in connections)
        assert read.scan_segments().collect().height > 10


def test_a_capture_of_the_page_has_nothing_of_other_peoples_connections(tmp_path: Path) -> None:
    server = recording_server(tmp_path / "captures")
    asked = {"host": "127.0.0.1", "port": server.address[1], "lasts_s": 1, "rate": "20Mbit/s"}
    try:
        with service(WebSettings(), Store(tmp_path / "store")) as made, other_people(server.address):
            client = TestClient(made.app, base_url="http://127.0.0.1:29180")
            data_id = client.post("/api/transfers", json={**asked, "capture": True}).json()["data_id"]
            with client.stream("GET", f"/api/transfers/{data_id}/events") as answer:
                events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
            started = next(each for each in events if each["event"] == "started")
            for each in events[-1]["captures"]:
                file = tmp_path / "store" / "web" / each["data_id"] / "capture"
                assert_only_headers_of_the_test(file, ["{}:{}".format(*started["connections"][0]["local"])])
    finally:
        server.stop()


def test_a_measurement_keeps_nothing_of_other_peoples_connections(tmp_path: Path) -> None:
    server = recording_server(tmp_path / "captures")
    asked = scenarios.loads(
        f"{{name: x, report: null, tcp: {{host: 127.0.0.1, port: {server.address[1]}, lasts: 1s, "
        "rate: 20Mbit/s, connections: 3, capture: 'sender,receiver,between:lo'}}"
    )
    try:
        with other_people(server.address):
            outcome = runner.run(TcpStudy(), asked, Work(Store(tmp_path / "runs"), SilentProgress()))
    finally:
        server.stop()
    clients = [each["local"] for each in outcome.document()["connections"]]
    for name in FILES.values():
        assert_only_headers_of_the_test(outcome.run.path / name, clients)


def test_the_form_captures_and_every_place_says_why(tmp_path: Path) -> None:
    server = recording_server(tmp_path / "captures")
    asked = {"host": "127.0.0.1", "port": server.address[1], "lasts_s": 1, "rate": "20Mbit/s"}
    try:
        with service(WebSettings(most_upload_bytes=100_000_000), Store(tmp_path / "store")) as made:
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
        with service(WebSettings(most_upload_bytes=3_000), Store(tmp_path / "store")) as made:
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
