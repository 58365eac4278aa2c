"""Tests of clients' connections by ndt7: who may have one, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request

from weirlab.base.errors import MissingCapability, TrialError
from weirlab.link.stopping import Stop
from weirlab.store import Store
from weirlab.transfers.tcp import ends, ndt7
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.study.running import SilentObserver
from weirlab.web.http import listening, server
from weirlab.web.service import service
from weirlab.web.settings import TestLimits, WebSettings
from weirlab.web.transfers import ndt7 as ndt7_web
from weirlab.web.transfers import recording
from weirlab.web.transfers.ndt7 import TestLedger, TestRefusal

from .conftest import DEADLINE_S, Serve

SHORT_S = 0.5
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "net.measurementlab.ndt.v7",
}


@contextmanager
def served(store: Store, **limits: Any) -> Iterator[httpx2.Client]:
    """A service with its own socket."""
    settings = WebSettings(port=0, token="a" * 16, tests=TestLimits(**limits))
    with ExitStack() as stack:
        listener = stack.enter_context(listening.listen(settings))
        made = stack.enter_context(service(settings, store))
        stop = Stop()
        thread = threading.Thread(target=server.serve, args=(made.app, listener, stop))
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.request)
        yield stack.enter_context(
            httpx2.Client(
                base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
                headers={"Authorization": f"Bearer {'a' * 16}"},
                timeout=DEADLINE_S,
            )
        )


def carried_out(client: httpx2.Client, *, up: bool) -> tuple[ends.TransferOutcome, str]:
    """A short test without the service's token, and its data ID."""
    asked = TransferSettings(
        f"ws://127.0.0.1:{client.base_url.port}",
        up=int(up),
        down=int(not up),
        lasts_s=SHORT_S,
        interval_s=0.01,
    )
    with Stop() as stop:
        begun = ends.begin(ndt7.of(asked), stop)
        outcome = begun.carry(SilentObserver(), stop)
        data_id = str(vars(begun)["_client"].uuid)
    return outcome, data_id


def result(client: httpx2.Client, data_id: str) -> dict[str, Any]:
    with client.stream("GET", f"/api/transfers/{data_id}/events") as answer:
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return dict(json.loads(lines[-1]))


@pytest.mark.parametrize("up", [False, True], ids=["download", "upload"])
def test_a_test_is_kept_under_the_data_id_that_the_client_learns(store: Store, up: bool) -> None:
    with served(store) as client:
        outcome, data_id = carried_out(client, up=up)
        assert outcome.problem() is None
        kept = result(client, data_id)
        assert kept["stage"] == "ready", kept
        (there,) = kept["result"]["directions"]
        (here,) = outcome.directions
        assert there["direction"] == here.direction == ("up" if up else "down")
        # A client that ends early leaves data in the queues of the server.
        assert there["received_bytes"] == pytest.approx(here.received_bytes, rel=0.3)
        assert kept["why"][0]["sentence"]
        facts = client.get(f"/api/measurements/{data_id}").json()["facts"]
        assert facts["ndt7"] == ("upload" if up else "download")
        assert facts["client"]["client_name"] == "weir"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may record packets")
@pytest.mark.parametrize("up", [False, True], ids=["download", "upload"])
def test_a_capture_of_the_connection_is_told_beside_the_kernels_and_not_kept(store: Store, up: bool) -> None:
    with served(store) as client:
        _, data_id = carried_out(client, up=up)
        kept = result(client, data_id)
        (capture,) = kept["captures"]
        assert (capture["why_not"], capture["data_id"]) == (None, None)
        assert int(capture["packets"].replace(",", "")) > 10
        assert kept["unread"] == ""
        places = [place["from"] for place in kept["why"][0]["places"]]
        assert f"A capture at the {'receiver' if up else 'sender'}" in places
    assert [
        path for path in (store.root / "web").rglob("*") if "tapes" in path.name or path.suffix == ".pcapng"
    ] == []


def test_without_the_right_to_record_the_test_says_so_and_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise MissingCapability("recording packets needs CAP_NET_RAW; start weir web as root")

    monkeypatch.setattr(recording, "WebRecorderProcess", refused)
    with served(store) as client:
        _, data_id = carried_out(client, up=False)
        kept = result(client, data_id)
        assert (kept["stage"], kept["unread"]) == ("ready", "")
        (capture,) = kept["captures"]
        assert (capture["where"], capture["packets"]) == ("the service", None)
        assert capture["why_not"] == "recording packets needs CAP_NET_RAW"
        assert kept["why"][0]["sentence"]


def test_a_test_without_a_limit_of_its_rate_is_not_slowed_down_by_a_recorder(store: Store) -> None:
    with served(store, bytes_per_s=None) as client:
        _, data_id = carried_out(client, up=False)
        (capture,) = result(client, data_id)["captures"]
        assert "--tests-rate 0" in capture["why_not"]


def test_a_service_that_cannot_begin_in_time_refuses(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndt7_web, "_READY_S", 0.0)
    with served(store) as client:
        assert client.get("/ndt/v7/download", headers=UPGRADE).status_code == 409
        monkeypatch.undo()
        outcome, _ = carried_out(client, up=False)
        assert outcome.problem() is None


def test_a_request_that_is_cancelled_leaves_no_transfer_waiting_for_its_connection() -> None:
    begun: list[Any] = []
    app, told = FastAPI(), Future[Any]()
    transfers: Any = SimpleNamespace(
        serve=lambda name, facts, settings, begin, *_: begun.append(partial(begin, settings))
    )
    ndt7_web.add_to(app, transfers, TestLimits())
    scope = {
        "type": "http", "query_string": b"", "state": {}, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "headers": [(name.lower().encode(), value.encode()) for name, value in UPGRADE.items()],
    }  # fmt: skip
    (endpoint,) = [one.endpoint for one in app.routes if getattr(one, "path", "").startswith("/ndt/")]

    async def cancelled() -> None:
        task = asyncio.create_task(endpoint(Request(scope), test="download"))
        while not begun:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def begin() -> None:
        try:
            told.set_result(begun[0](Stop(), None))
        except Exception as error:
            told.set_exception(error)

    asyncio.run(cancelled())
    threading.Thread(target=begin, daemon=True).start()
    with pytest.raises(TrialError, match="ended before the test began"):
        told.result(DEADLINE_S)


def test_a_limit_of_the_rate_is_kept_both_ways(store: Store) -> None:
    with served(store, bytes_per_s=1_000_000) as client:
        for up in (False, True):
            _, data_id = carried_out(client, up=up)
            (there,) = result(client, data_id)["result"]["directions"]
            assert there["received_bytes"] < 1_000_000 * (there["seconds"] + 0.5)


def test_tests_are_one_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(store) as client, socket.create_connection(("127.0.0.1", client.base_url.port)) as first:
        state = client.get("/api/tests").json()
        assert state == {"refused": "", "limit": "The service allows 1.00 Gbit/s for a test."}
        lines = ["GET /ndt/v7/upload HTTP/1.1", "Host: localhost", *(f"{k}: {v}" for k, v in UPGRADE.items())]
        first.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        assert first.recv(12) == b"HTTP/1.1 101"
        monkeypatch.setattr(ndt7_web, "_TRIES", 1)
        refused = client.get("/ndt/v7/download", headers=UPGRADE)
        assert refused.status_code == 409
        assert "Another test" in client.get("/api/tests").json()["refused"]
        first.close()
        deadline_s = time.monotonic() + DEADLINE_S
        while client.get("/api/tests").json()["refused"] and time.monotonic() < deadline_s:
            pass
        assert not client.get("/api/tests").json()["refused"]


@pytest.mark.parametrize(
    "changes",
    [
        {"Upgrade": "h2c"},
        {"Sec-WebSocket-Version": "8"},
        {"Sec-WebSocket-Key": "short"},
        {"Sec-WebSocket-Protocol": "chat"},
    ],
)
def test_what_is_no_ndt7_client_is_refused(serve: Serve, changes: dict[str, str]) -> None:
    client, _ = serve(tests=TestLimits())
    answer = client.get("/ndt/v7/download", headers={**UPGRADE, **changes})
    assert answer.status_code == 400
    assert "ndt7" in answer.json()["error"]["message"]


def test_an_unfit_query_or_test_is_refused(serve: Serve) -> None:
    client, _ = serve(tests=TestLimits())
    for query in ("a=" + "b" * 5000, "a=%ff"):
        assert client.get(f"/ndt/v7/download?{query}", headers=UPGRADE).status_code == 400
    assert client.get("/ndt/v7/sideload", headers=UPGRADE).status_code in (400, 404)


def test_without_tests_there_are_none(serve: Serve) -> None:
    client, _ = serve()
    assert client.get("/ndt/v7/download", headers=UPGRADE).status_code == 404
    assert client.get("/api/session").json()["tests"] is False


def test_only_the_tests_themselves_need_no_token(serve: Serve) -> None:
    client, _ = serve(tests=TestLimits(), token="a" * 16)
    assert client.get("/api/tests").status_code == 401
    assert client.get("/ndt/v7/download").status_code == 400
    assert client.get("/ndt/v7/download", headers={"Origin": "http://elsewhere.example"}).status_code == 400
    assert client.get("/ndt/v7/", headers=UPGRADE).status_code == 401


def test_the_ledger_counts_tests_and_bytes_of_an_address_and_of_all() -> None:
    clock = [0.0]
    ledger = TestLedger(TestLimits(bytes=400, most=3, most_of_client=2), now=lambda: clock[0])
    assert ledger.room("192.0.2.1") == 100
    ledger.enter("192.0.2.1")[0] = 60
    assert ledger.room("192.0.2.1") == 40
    ledger.enter("192.0.2.1")
    with pytest.raises(TestRefusal, match="2 tests with 60 B from your address"):
        ledger.room("192.0.2.1")
    # The addresses of one customer count together.
    ledger.enter("2001:db8::1")[0] = 100
    with pytest.raises(TestRefusal, match="from your address"):
        TestLedger(replace(ledger.limits, most=9), ledger.now, ledger._entries).room("2001:db8::2")
    with pytest.raises(TestRefusal, match="3 tests with 160 B here"):
        ledger.room("198.51.100.1")
    clock[0] = 3600.0
    assert ledger.room("192.0.2.1") == 100
