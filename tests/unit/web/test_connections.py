"""Limits and deadlines of connections: a clock that the test sets, and no network but in the last test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from weirlab.link.stopping import Stop
from weirlab.web.http import listening, server
from weirlab.web.http.connections import KNOWN, LOST, ConnectionLimits, HttpConnection, HttpConnectionTable
from weirlab.web.settings import WebSettings

from .conftest import DEADLINE_S

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
REFUSED = POST.replace(b"/take", b"/refuse")
TIMED_OUT = b"HTTP/1.1 408 Request Timeout"
FULL = b"HTTP/1.1 503 Service Unavailable"
LIMITS = ConnectionLimits(most=4, most_of_client=3, header_s=10, body_s=10, least_rate=500, rest_s=5)


class Wire(asyncio.Transport):
    """A transport without a network."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 50_000), "sockname": ("127.0.0.1", 29180)})
        self.sent = b""
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Bench:
    """Connections to an application that takes the bodies for /take, and answers at once elsewhere."""

    def __init__(self, limits: ConnectionLimits = LIMITS, exempt: str = "") -> None:
        self.now = 0.0
        self.connections = HttpConnectionTable(limits, lambda address: address == exempt, lambda: self.now)
        self._config = uvicorn.Config(
            self._answer, interface="asgi3", ws="none", lifespan="off", log_config=None, proxy_headers=False
        )
        self._state = ServerState()
        self.slow = False

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        scope["state"][KNOWN] = "authorization" in request.headers
        if scope["path"] == "/take":
            while self.slow:
                await asyncio.sleep(0)
            await request.body()
        await PlainTextResponse("done")(scope, receive, send)

    def connect(self, address: str = "192.0.2.1") -> tuple[HttpConnection, Wire]:
        wire = Wire(address)
        made = HttpConnection(self._config, self._state, {}, connections=self.connections)
        made.connection_made(wire)
        return made, wire

    def pass_s(self, seconds: float) -> None:
        self.now += seconds
        self.connections.sweep()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def settled() -> None:
        await test()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(settled())


@pytest.mark.parametrize("begun", [GET[:14], GET[:-1], GET[:-2] + b"X: " + b"y" * 100])
def test_half_a_header_is_ended_at_its_deadline_however_it_drips(begun: bytes) -> None:
    async def test() -> None:
        bench = Bench()
        connection, wire = bench.connect()
        for byte in begun[:9]:
            connection.data_received(bytes([byte]))
            bench.pass_s(1)
        connection.data_received(begun[9:])
        assert not wire.closed
        bench.pass_s(2)
        assert wire.closed
        assert wire.sent.startswith(TIMED_OUT)

    run(test)


def test_a_connection_without_a_request_is_closed_silently() -> None:
    async def test() -> None:
        bench = Bench()
        _, wire = bench.connect()
        bench.pass_s(10)
        assert not wire.closed
        bench.pass_s(1)
        assert (wire.closed, wire.sent) == (True, b"")

    run(test)


def test_connections_that_are_late_together_end_a_few_at_a_time() -> None:
    async def test() -> None:
        bench = Bench(ConnectionLimits(most=100, most_of_client=100))
        wires = [bench.connect()[1] for _ in range(25)]
        bench.pass_s(11)
        ended = [sum(wire.closed for wire in wires)]
        for _ in range(2):
            bench.pass_s(0.1)
            ended.append(sum(wire.closed for wire in wires))
        assert ended == [10, 20, 25]

    run(test)


def test_a_request_that_waits_for_its_turn_hears_that_its_client_has_gone() -> None:
    async def test() -> None:
        bench, lost = Bench(), list[str]()
        connection, _ = bench.connect()
        connection.data_received(GET)
        connection.scope["state"][LOST] = lambda: lost.append("lost")  # type: ignore[index]
        connection.connection_lost(None)
        assert lost == ["lost"]

    run(test)


def test_every_request_of_a_connection_has_its_own_time() -> None:
    async def test() -> None:
        bench = Bench()
        connection, wire = bench.connect()
        for _ in range(5):
            bench.pass_s(8)
            connection.data_received(GET)
            await settle()
        assert wire.sent.count(b"HTTP/1.1 200 OK") == 5
        connection.data_received(GET[:-1])
        bench.pass_s(11)
        assert wire.closed

    run(test)


@pytest.mark.parametrize(("bytes_per_s", "stays"), [(1, False), (400, False), (600, True), (1900, True)])
def test_a_body_may_be_long_but_not_slow(bytes_per_s: int, stays: bool) -> None:
    async def test() -> None:
        bench = Bench()
        connection, wire = bench.connect()
        connection.data_received(POST)
        # A fast beginning is no credit for later.
        connection.data_received(bytes(20_000))
        for _ in range(40):
            await settle()
            bench.pass_s(1)
            if not wire.closed and wire.sent == b"":
                connection.data_received(bytes(bytes_per_s))
        await settle()
        assert wire.closed is not stays
        assert wire.sent.startswith(TIMED_OUT) is not stays

    run(test)


def test_a_body_that_the_service_does_not_take_is_not_late() -> None:
    async def test() -> None:
        bench = Bench()
        bench.slow = True
        connection, wire = bench.connect()
        connection.data_received(POST)
        await settle()
        connection.data_received(bytes(99_999))
        assert not wire.reading
        for _ in range(100):
            bench.pass_s(1)
        assert not wire.closed
        bench.slow = False
        await settle()
        assert wire.reading
        bench.pass_s(9)
        assert not wire.closed
        bench.pass_s(2)
        assert wire.closed

    run(test)


def test_the_rest_of_a_refused_body_is_not_awaited_for_long() -> None:
    async def test() -> None:
        bench = Bench()
        connection, wire = bench.connect()
        connection.data_received(REFUSED)
        await settle()
        assert wire.sent.startswith(b"HTTP/1.1 200 OK")
        for _ in range(5):
            connection.data_received(bytes(1000))
            bench.pass_s(1)
        assert not wire.closed
        bench.pass_s(1)
        assert wire.closed

    run(test)


def test_the_stranger_that_has_waited_longest_makes_room_then_others_that_wait() -> None:
    async def test() -> None:
        bench = Bench()
        known, kept = bench.connect("192.0.2.1")
        known.data_received(GET.replace(b"\r\n\r\n", b"\r\nAuthorization: x\r\n\r\n"))
        await settle()
        strangers = []
        for number in range(2, 5):
            bench.pass_s(1)
            strangers.append(bench.connect(f"192.0.2.{number}")[1])
        bench.pass_s(1)
        for number, oldest in enumerate(strangers):
            assert not oldest.closed
            bench.connect(f"192.0.2.{number + 10}")
            assert oldest.closed
        assert not kept.closed

    run(test)


def test_an_upload_in_progress_stays_and_a_newcomer_is_told_that_there_is_no_room() -> None:
    async def test() -> None:
        bench = Bench()
        uploads = [bench.connect(f"192.0.2.{number}") for number in range(4)]
        for connection, _ in uploads:
            connection.data_received(POST)
        bench.pass_s(1)
        for connection, _ in uploads:
            connection.data_received(bytes(1000))
        _, refused = bench.connect("192.0.2.9")
        assert refused.sent.startswith(FULL)
        assert refused.closed
        assert [wire.closed for _, wire in uploads] == [False] * 4
        # One that only seems to send its body makes room.
        bench.pass_s(5)
        for connection, _ in uploads[1:]:
            connection.data_received(bytes(3000))
        bench.connect("192.0.2.9")
        assert [wire.closed for _, wire in uploads] == [True, False, False, False]
        assert (bench.connections.refused, bench.connections.ended) == (1, 1)

    run(test)


@pytest.mark.parametrize(
    "addresses",
    [["192.0.2.1"], ["::ffff:192.0.2.1", "192.0.2.1"], [f"2001:db8:0:1:{each}::1" for each in range(9)]],
)
def test_a_client_has_its_share_of_the_connections(addresses: list[str]) -> None:
    async def test() -> None:
        bench = Bench()
        _, other = bench.connect("2001:db8:0:2::1")
        wires = [bench.connect(addresses[number % len(addresses)])[1] for number in range(9)]
        assert [wire.closed for wire in wires] == [True] * 6 + [False] * 3
        assert not other.closed

    run(test)


def test_the_clients_of_a_proxy_share_what_all_may_have() -> None:
    async def test() -> None:
        bench = Bench(exempt="192.0.2.1")
        wires = [bench.connect("192.0.2.1")[1] for _ in range(6)]
        assert [wire.closed for wire in wires] == [True] * 2 + [False] * 4

    run(test)


def test_a_connection_that_has_ended_makes_room() -> None:
    async def test() -> None:
        bench = Bench()
        for _ in range(20):
            connection, wire = bench.connect()
            connection.data_received(POST + bytes(100))
            assert not wire.closed
            connection.connection_lost(None)

    run(test)


@contextmanager
def served(limits: ConnectionLimits) -> Iterator[str]:
    """A server on loopback."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)

    stop = Stop()
    with listening.listen(WebSettings(port=0)) as listener:
        thread = threading.Thread(target=server.serve, args=(app, listener, stop), kwargs={"limits": limits})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            stop.request()
            thread.join()


def test_half_requests_and_slow_bodies_keep_nobody_out() -> None:
    with served(ConnectionLimits(most=30, most_of_client=20)) as url:
        port = int(url.rpartition(":")[2].strip("/"))
        hostile = []
        for number in range(100):
            one = socket.create_connection(("127.0.0.1", port), DEADLINE_S, ("127.0.0.2", 0))
            one.sendall(GET[:-2] if number % 2 else POST + b"x")
            hostile.append(one)
        with httpx2.Client(timeout=DEADLINE_S) as client:
            assert client.post(url, content=bytes(100_000)).text == "100000 bytes"
        for one in hostile:
            one.close()


def test_requests_that_the_end_of_the_service_cancels_are_no_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began, stop = threading.Event(), Stop()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(server, "_FAREWELL_S", 0)
    with listening.listen(WebSettings(port=0)) as listener:
        thread = threading.Thread(target=server.serve, args=(app, listener, stop))
        thread.start()
        with socket.create_connection(listener.getsockname(), DEADLINE_S) as client:
            client.sendall(GET)
            assert began.wait(DEADLINE_S)
            stop.request()
            thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not caplog.records
