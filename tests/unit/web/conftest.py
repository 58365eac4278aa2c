"""A service without a socket, and captures to send to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient

from weirlab._engine import TcpServer
from weirlab.store import Store
from weirlab.web.service import WebService, service
from weirlab.web.settings import WebSettings

from ..trace import slow

ORIGIN = "http://127.0.0.1:29180"
DEADLINE_S = 60.0
"""How long something that is sure to happen may take on a busy machine."""

Serve = Callable[..., tuple[TestClient, WebService]]


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server of bulk transfers on loopback."""
    server = TcpServer(
        address="127.0.0.1", port=0, token="", most_ns=None, most_bytes=None, most_clients=2, options=[]
    )
    yield server.address[1]
    server.stop()


@pytest.fixture
def serve(store: Store) -> Iterator[Serve]:
    """Begins a service with these settings; all end with the test."""
    with ExitStack() as stack:

        def begin(**changes: Any) -> tuple[TestClient, WebService]:
            made = stack.enter_context(service(replace(WebSettings(), **changes), store))
            client = TestClient(made.app, base_url=ORIGIN)
            # One event loop for all requests, as in the server.
            client.portal = stack.enter_context(start_blocking_portal())
            return client, made

        yield begin


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve()[0]


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return slow.five(tmp_path_factory.mktemp("captures") / "made.pcap").read_bytes()


def send(client: TestClient, content: bytes, name: str = "made.pcap") -> str:
    """Upload a capture; returns its data ID."""
    answer = client.post("/api/captures", params={"name": name}, content=content)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data_id"])


def settled(client: TestClient, data_id: str) -> dict[str, Any]:
    """The measurement, as soon as it is ready or has failed."""
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        found: dict[str, Any] = client.get(f"/api/measurements/{data_id}").json()
        if found["stage"] in ("ready", "failed"):
            return found
        time.sleep(0.01)
    pytest.fail(f"not settled within {DEADLINE_S} s: {found}")
