"""A server of bulk transfers on loopback, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from weirlab._engine import TcpServer

from ...conftest import unused_port

DEADLINE_S = 60.0
"""How long something that is sure to happen may take on a busy machine."""


@pytest.fixture(autouse=True)
def no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEIR_TCP_TOKEN", "WEIR_TCP_CLIENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Served:
    """A server at work; ``refused`` are events of this name that nobody waited for."""

    server: TcpServer
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.address[1]

    def wait_for(self, name: str) -> dict[str, Any]:
        """The next event of this name, which is sure to come."""
        for _ in range(int(DEADLINE_S / 0.1)):
            event = self.server.next_event(0.1)
            if event is not None and event["event"] == name:
                return event
            self.refused += [event] if event is not None and event["event"] == "refused" else []
        pytest.fail(f"no event {name} within {DEADLINE_S} s")


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers on ports that are free; all are stopped in the end."""
    made: list[TcpServer] = []

    def start(**wanted: Any) -> Served:
        settings: dict[str, Any] = {
            "address": "127.0.0.1", "port": 0, "token": "", "most_ns": None, "most_bytes": None,
            "most_clients": 8, "options": [],
        }  # fmt: skip
        made.append(TcpServer(**settings | wanted))
        return Served(made[-1])

    yield start
    for server in made:
        server.stop()


@pytest.fixture
def free_port() -> int:
    return unused_port()
