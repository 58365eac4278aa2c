"""Answers do not tell where the service keeps its files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from starlette.responses import JSONResponse, Response, StreamingResponse

from weirlab.store import Store
from weirlab.web.access.bodies import Redaction
from weirlab.web.settings import VoiceSettings

from .conftest import Serve, send, settled
from .test_voice import make_database

FOLDER = "/srv/weir é"


def answered(response: Response) -> tuple[dict[str, str], str]:
    """Headers and body of ``response`` without the paths in FOLDER."""
    found = TestClient(Redaction(response, [Path(FOLDER)])).get("/")
    return dict(found.headers), found.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"cannot write {FOLDER}/web/ab/capture: no space", "cannot write a file of the service: no space"),
        (f"'{FOLDER}/x y'", "'a file of the service y'"),
        (f"{FOLDER};", "a file of the service;"),
        (f"{FOLDER}-2/x", f"{FOLDER}-2/x"),
        (f"/old{FOLDER}/x", f"/old{FOLDER}/x"),
        ("/srv/other", "/srv/other"),
    ],
)
def test_paths_inside_the_folders_are_replaced(text: str, shown: str) -> None:
    headers, body = answered(JSONResponse({"message": text}))
    assert body == f'{{"message":"{shown}"}}'
    assert headers["content-length"] == str(len(body.encode()))


def test_events_are_redacted_one_by_one_and_files_are_not_touched() -> None:
    async def parts() -> Any:
        yield f"data: {FOLDER}/a\n\n"
        await anyio.sleep(0)
        # As the JSON of events is written.
        yield f"data: {FOLDER}/b\n\n".replace("é", "\\u00e9")

    _, body = answered(StreamingResponse(parts(), media_type="text/event-stream"))
    assert body == "data: a file of the service\n\n" * 2
    assert answered(Response(FOLDER, media_type="application/octet-stream"))[1] == FOLDER


@pytest.mark.parametrize("call", ["write", "mkdir"])
def test_a_broken_disk_is_told_without_its_paths(
    serve: Serve, store: Store, capture: bytes, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    client, _ = serve()
    with monkeypatch.context() as broken:
        real: Callable[..., Any] = getattr(os, call)

        def failing(first: Any, *args: Any, **named: Any) -> Any:
            place = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else os.fspath(first)
            if str(place).startswith(str(store.root)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(first, *args, **named)

        broken.setattr(os, call, failing)
        answer = client.post("/api/captures", content=capture)
    assert answer.status_code == 507
    assert str(store.root) not in answer.text
    message = answer.json()["error"]["message"]
    assert "a file of the service: the disk reports an input/output error" in message
    assert settled(client, send(client, capture))["stage"] == "ready"


def test_a_damaged_database_is_told_without_its_path(serve: Serve, tmp_path: Path) -> None:
    path = make_database(tmp_path / "plan.db")
    client, made = serve(voice=VoiceSettings(str(path)))
    made.app.state.voice.close()
    path.write_bytes(b"x" * 100_000)
    answer = client.get("/api/voice/log")
    assert str(tmp_path) not in answer.text
