"""Why connections of this host are not faster, on the page: who may see it, and what is said."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab.base import programs
from weirlab.web.transfers import watcher, watching

from ..transfers.tcp.test_watching import connection
from .conftest import Serve


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


def test_a_connection_is_explained_until_it_ends(serve: Serve) -> None:
    client, _ = serve(allow_watch=True)
    with connection() as (one, other):
        target = f":{one.getsockname()[1]}"
        assert client.get("/api/watches", params={"target": target}).json() == {}
        one.sendall(bytes(100_000))
        timer = threading.Timer(3.0, lambda: (one.close(), other.close()))
        timer.start()
        told = events(client, target)
        timer.join()
    assert [each["over"] for each in told] == [False] * (len(told) - 1) + [True]
    # Refreshed while it lasted, and summed up.
    assert len([each for each in told if each.get("causes")]) > 1
    (cause, *_) = told[-1]["causes"]
    assert target in cause["line"]


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


def test_a_watch_ends_with_its_page() -> None:
    with programs.start(
        programs.own(watcher.__name__, "no-such-program"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(timeout=60)
    assert json.loads(out) == {"causes": [], "message": "No connection appeared."}
    assert process.returncode == 0
