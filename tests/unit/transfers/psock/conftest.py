"""Sessions on loopback, and the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from typer.testing import CliRunner

from weirlab._engine import ParallelListener
from weirlab.cli.program.app import app
from weirlab.link.stopping import Stop
from weirlab.transfers.psock.copying import ReceiverTotals, serve
from weirlab.transfers.psock.options import SessionOptions

from ...conftest import Answer

Weir = Callable[..., Answer]


@pytest.fixture
def weir(monkeypatch: pytest.MonkeyPatch) -> Weir:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("WEIR_DEBUG", raising=False)
    monkeypatch.delenv("WEIR_PSOCK_TOKEN", raising=False)

    def run(*arguments: object, standard_input: bytes | None = None) -> Answer:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=standard_input)
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


@dataclass
class Receiver:
    """Receives one session in a thread, and keeps what came."""

    port: int
    thread: threading.Thread
    data: bytearray = field(default_factory=bytearray)
    told: list[str] = field(default_factory=list)
    served: ReceiverTotals = field(default_factory=ReceiverTotals)

    def ended(self) -> ReceiverTotals:
        """What came of it, when that is over."""
        self.thread.join()
        return self.served


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    """Starts receivers on ports that are free."""
    stops: list[Stop] = []
    made: list[Receiver] = []

    def start(token: str = "") -> Receiver:
        listener = ParallelListener([("127.0.0.1", 0)], SessionOptions(token=token).how().plain())
        stop = Stop()

        def work() -> None:
            mine.served = serve(listener, stop, 1, lambda fill: fill(mine.data.extend), mine.told.append)

        mine = Receiver(listener.addresses[0][1], threading.Thread(target=work))
        stops.append(stop)
        made.append(mine)
        mine.thread.start()
        return mine

    yield start
    for stop, each in zip(stops, made, strict=True):
        stop.request()
        each.thread.join()
