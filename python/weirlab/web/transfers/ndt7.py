"""Tests of clients' connections by ndt7: nothing but a browser is needed, or any other ndt7 client.

Whoever reaches the service may use its bandwidth, so every test is counted: one at a time, and per hour a
number and bytes of each address and of all.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from weirlab.base.errors import InputError, TrialError, WeirError
from weirlab.base.quoting import printable, shortened
from weirlab.link.stopping import Stop
from weirlab.trace.quantities import bit_rate, size
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.connections import USUAL
from weirlab.transfers.tcp.ndt7 import client, messages
from weirlab.transfers.tcp.ndt7.messages import Test
from weirlab.transfers.tcp.ndt7.transfer import Ndt7Transfer, TransferPlan
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.web.access.proxies import BY_PROXY
from weirlab.web.addresses import site
from weirlab.web.http.connections import TAKE
from weirlab.web.http.turns import without_turn
from weirlab.web.settings import TestLimits
from weirlab.web.transfers.recording import Connection
from weirlab.web.transfers.service import BUSY, BusyError, Transfers

_HOUR_S: Final = 3600.0
_MOST_QUERY: Final = 4096
_MOST_VALUE: Final = 200
_KEY_BYTES: Final = 16
_INTERVAL_S: Final = 0.1
_WAIT_S: Final = 0.1
_TRIES: Final = 80
"""How often a test waits for another one: published clients have 10 s of patience."""
_READY_S: Final = 5.0
"""How long it may take until packets are recorded."""
_UNLIMITED: Final = "it would slow down a test without a limit (--tests-rate 0)"
_BY_PROXY: Final = "A proxy is in between: a test would measure the connection of the proxy."


class TestRefusal(WeirError):
    """Too much was tested already."""


@dataclass
class TestLedger:
    """What was tested in the last hour, and by whom. ``now`` is in s."""

    limits: TestLimits
    now: Callable[[], float] = time.monotonic
    _entries: deque[tuple[float, str, list[int]]] = field(default_factory=deque)
    """When, the client, and its bytes."""

    def room(self, address: str) -> int:
        """How many bytes a test may have now; raises ``TestRefusal`` after too many tests or bytes."""
        while self._entries and self._entries[0][0] <= self.now() - _HOUR_S:
            self._entries.popleft()
        limits, own_name = self.limits, site(address)
        own = [cell[0] for _, name, cell in self._entries if name == own_name]
        every = [cell[0] for _, _, cell in self._entries]
        for whose, past, most, most_bytes in (
            ("from your address", own, limits.most_of_client, limits.bytes_of_client),
            ("here", every, limits.most, limits.bytes),
        ):
            if len(past) >= most or sum(past) >= most_bytes:
                raise TestRefusal(
                    f"{len(past)} tests with {size(sum(past))} {whose} within an hour are enough. "
                    "Try again later."
                )
        return min(limits.bytes_of_client - sum(own), limits.bytes - sum(every))

    def enter(self, address: str) -> list[int]:
        """Count a test; returns the cell for its bytes."""
        cell = [0]
        self._entries.append((self.now(), site(address), cell))
        return cell


def add_to(app: FastAPI, transfers: Transfers, limits: TestLimits) -> None:
    """Add the routes of ndt7."""
    ledger = TestLedger(limits)

    @app.get("/api/tests")
    def state(request: Request) -> dict[str, str]:
        """Why a test is ``refused`` now, which no browser tells its page, and its ``limit``; or empty."""
        rate = limits.bytes_per_s
        limit = "" if rate is None else f"The service allows {bit_rate(rate * 8)} for a test."
        return {"refused": refusal(request), "limit": limit}

    def refusal(request: Request) -> str:
        if request.scope["state"].get(BY_PROXY) or request.client is None:
            return _BY_PROXY
        try:
            ledger.room(request.client.host)
        except TestRefusal as error:
            return str(error)
        return BUSY if transfers.bench.locked() else ""

    @app.get(messages.PATH + "{test}")
    async def test(request: Request, test: Test) -> Response:
        key, about = _understood(request)
        peer = request.client
        if request.scope["state"].get(BY_PROXY) or peer is None:
            raise InputError(_BY_PROXY)
        most_bytes = ledger.room(peer.host)
        connection: Future[ends.TransferEngine] = Future()
        ready: Future[None] = Future()
        settings = TransferSettings(
            host=peer.host,
            port=peer.port,
            up=int(test == "upload"),
            down=int(test == "download"),
            lasts_s=messages.LASTS_S,
            interval_s=_INTERVAL_S,
            names=USUAL,
        )

        def begin(often: TransferSettings, stop: Stop, tell: ends.Tell | None) -> ends.Transfer:
            ready.set_result(None)
            return ends.taken(connection.result(), often, stop, tell)

        name, facts = f"{test.capitalize()} test of {peer.host}", {"ndt7": test, "client": about}
        unlimited = limits.bytes_per_s is None
        here, port = request.scope["server"]
        pair: Connection = (str(here), int(port)), (peer.host, peer.port)
        with _settled(connection):
            for last in range(_TRIES, -1, -1):
                try:
                    one = await run_in_threadpool(
                        transfers.serve, name, facts, settings, begin, pair, _UNLIMITED if unlimited else ""
                    )
                    break
                except BusyError:
                    if not last:
                        raise
                    # Another test still sends, or two are being diagnosed.
                    await without_turn(asyncio.sleep(_WAIT_S))
            try:
                # Its first packets are recorded, too.
                await without_turn(asyncio.wait_for(asyncio.shield(asyncio.wrap_future(ready)), _READY_S))
            except TimeoutError:
                connection.set_exception(TrialError("The service was too busy to begin."))
                raise BusyError(BUSY) from None
        cell = ledger.enter(peer.host)
        socket = request.scope["state"][TAKE](_switching(key))
        if socket is None:
            connection.set_exception(TrialError("The client did not wait for the answer."))
            return Response(status_code=400)
        plan = TransferPlan(
            test,
            serves=True,
            every_s=0.01,
            most_bytes=most_bytes,
            bytes_per_s=limits.bytes_per_s,
            uuid=one.data_id,
            moved=cell,
        )
        try:
            connection.set_result(await run_in_threadpool(Ndt7Transfer, socket, plan))
        except BaseException as error:
            socket.close()
            connection.set_exception(error)
        # Nobody gets it: the connection is no longer the server's.
        return Response()


@contextmanager
def _settled(connection: Future[ends.TransferEngine]) -> Iterator[None]:
    """A transfer waits for its ``connection``, which is not to come if the block fails or is cancelled."""
    try:
        yield
    except BaseException:
        if not connection.done():
            connection.set_exception(TrialError("The service ended before the test began."))
        raise


def _understood(request: Request) -> tuple[str, Mapping[str, str]]:
    """The key of a handshake (RFC 6455, 4.2.1), and what the client says of itself; raises ``InputError``."""
    headers = request.headers
    key = headers.get("sec-websocket-key", "")
    try:
        fits = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        fits = False
    offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
    if (
        headers.get("upgrade", "").lower() != "websocket"
        or headers.get("sec-websocket-version") != "13"
        or not fits
        or messages.PROTOCOL not in offered
    ):
        raise InputError(f"This is for ndt7: a WebSocket of version 13 for {messages.PROTOCOL}.")
    query = request.scope["query_string"]
    try:
        pairs = parse_qsl(query.decode(), keep_blank_values=True, errors="strict") if query else []
    except ValueError:
        pairs = None
    if pairs is None or len(query) > _MOST_QUERY:
        raise InputError(f"The query is longer than {_MOST_QUERY} bytes, or not UTF-8.")
    told = {
        shortened(printable(name), _MOST_VALUE): shortened(printable(value), _MOST_VALUE)
        for name, value in reversed(pairs)
        if not name.startswith("server_")
    }
    return key, told


def _switching(key: str) -> bytes:
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {client.accept(key)}\r\n"
        f"Sec-WebSocket-Protocol: {messages.PROTOCOL}\r\n\r\n"
    ).encode()
