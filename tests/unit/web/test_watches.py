"""Why connections of this host are not faster, on the page: who may see it, and what is said."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.web.launching.jobs import ProcessJob, ServiceFolders
from weirlab.web.launching.launcher import DirectLauncher, Process
from weirlab.web.transfers import watcher, watching
from weirlab.web.transfers.watching import HostWatches

from ..transfers.tcp.test_watching import connection
from .conftest import Serve


@pytest.fixture
def watches(tmp_path: Path) -> Iterator[HostWatches]:
    made = HostWatches(DirectLauncher.of(ServiceFolders(tmp_path, may_watch=True)), allowed=True)
    yield made
    made.close()


def events(client: TestClient, target: str) -> list[dict[str, Any]]:
    with client.stream("GET", "/api/watches/events", params={"target": target}) as told:
        return [json.loads(line[6:]) for line in told.iter_lines() if line.startswith("data: ")]


def test_without_the_right_no_connection_is_shown(client: TestClient) -> None:
    assert client.get("/api/session").json()["may_watch"] is False
    for path in ("/api/watches", "/api/watches/events"):
        refused = client.get(path, params={"target": ":443"})
        assert refused.status_code == 403
        assert "--allow-watch" in refused.json()["error"]["message"]


@pytest.mark.parametrize("target", ["", "-v", "--json", "two words", "a/b", "x" * 201, "x\n", "ünicode"])
def test_what_names_no_connections_is_refused(serve: Serve, target: str) -> None:
    client, _ = serve(allow_watch=True)
    for path in ("/api/watches", "/api/watches/events"):
        refused = client.get(path, params={"target": target})
        assert refused.status_code == 400
        assert "error" in refused.json()


def test_a_connection_is_explained_until_it_ends(watches: HostWatches) -> None:
    told = list[dict[str, Any]]()
    with connection() as (one, other):
        target, far = (f":{end[1]}" for end in (one.getsockname(), one.getpeername()))
        watches.check(target)
        one.sendall(bytes(100_000))

        async def follow() -> None:
            async for event in watches.events(target, lambda: False):
                told.append(event)
                if len([each for each in told if each.get("causes")]) == 2:
                    one.close()
                    other.close()

        asyncio.run(follow())
    # Refreshed while it lasted, and summed up.
    assert [each["over"] for each in told] == [False] * (len(told) - 1) + [True]
    (cause, *_) = told[-1]["causes"]
    assert target in cause["line"] or far in cause["line"]
    watches.check(target)


def test_a_reader_that_goes_ends_its_watch(watches: HostWatches) -> None:
    async def look() -> None:
        async with aclosing(watches.events("no-such-program", lambda: False)) as events:
            assert await anext(events) == {"over": False}

    asyncio.run(look())
    (watch,) = [*watches._running] or [None]
    assert watch is None or watch.to.closed
    watches.close()
    assert not watches._running


def test_a_name_without_an_address_is_told(serve: Serve) -> None:
    client, _ = serve(allow_watch=True)
    told = events(client, "nosuch..invalid:443")
    assert told[-1]["over"]
    assert "nosuch..invalid has no address" in told[-1]["message"]


def test_no_more_watch_than_the_host_can_bear(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST", 0)
    client, _ = serve(allow_watch=True)
    refused = client.get("/api/watches", params={"target": ":443"})
    assert refused.status_code == 409
    assert "Close one of them" in refused.json()["error"]["message"]


def test_pages_that_come_at_the_same_moment_are_no_more_either(watches: HostWatches) -> None:
    for _ in range(3 * watching.MOST):
        watches.check("no-such-program")

    async def look() -> list[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            pages = [
                await stack.enter_async_context(aclosing(watches.events("no-such-program", lambda: False)))
                for _ in range(3 * watching.MOST)
            ]
            return [await anext(page) for page in pages]

    told = asyncio.run(look())
    assert [each["over"] for each in told] == [False] * watching.MOST + [True] * (2 * watching.MOST)
    assert all("Close one of them" in each["message"] for each in told[watching.MOST :])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LabError("the helper process has ended"), "the helper process has ended"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
    ],
)
def test_a_watch_that_cannot_begin_says_why(error: Exception, said: str) -> None:
    class Refusing:
        def start(self, job: ProcessJob, stdin: int, stdout: int) -> Process:
            raise error

    async def look() -> list[dict[str, Any]]:
        watches = HostWatches(Refusing(), allowed=True)
        return [event async for event in watches.events(":443", lambda: False)]

    assert asyncio.run(look()) == [{"message": said, "over": True}]


def test_a_watch_ends_with_its_page() -> None:
    with programs.start(
        programs.own(watcher.__name__, "no-such-program"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(timeout=60)
    assert json.loads(out) == {"causes": [], "message": "No connection appeared."}
    assert process.returncode == 0
