"""``weir web`` as a process: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app
from weirlab.web.access.guard import MOST_OF_CLIENT

from .conftest import DEADLINE_S

CORPUS = Path(__file__).resolve().parents[3] / "fuzz" / "corpus"
SEEDS = [*sorted(CORPUS.glob("capture/*"))[::4], *sorted(CORPUS.glob("[!c]*/*"))[::12]]
"""Some captures, and some of what is none: each is read by a process of its own."""
GOOD, BAD = "pcap-le-us", "no-capture"
TOKEN = "correct horse battery"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = []

    def begin(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "weirlab", "--store", str(tmp_path / "store"), "web", *options]
        process = subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0", "--json"],
            env=os.environ | {"WEIR_WEB_TOKEN": TOKEN},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        made.append(process)
        return process

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def test_ctrl_c_ends_it_in_the_middle_of_work_and_nothing_tells_the_token(
    start: Start, capture: bytes
) -> None:
    process = start()
    assert process.stdout is not None
    first = process.stdout.readline()
    url = json.loads(first)["url"]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=url, headers=headers, timeout=DEADLINE_S) as client:
        assert client.get("api/runs", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.get(f"nothing?token={TOKEN}").status_code == 404
        sent = client.post("api/captures", params={"name": "made.pcap"}, content=capture)
        assert sent.status_code == 201
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    last = json.loads(out.splitlines()[-1])
    assert (last["kind"], last["uploads"]["received"]) == ("web", 1)
    assert TOKEN not in first + out + err
    assert "Traceback" not in err


def test_hostile_seeds_at_once_get_a_clear_answer_and_no_upload_is_lost(start: Start, capture: bytes) -> None:
    contents = {f"made-{number}.pcap": capture + bytes([number]) for number in range(4)}
    contents |= {f"{path.parent.name}-{path.name}": path.read_bytes() for path in SEEDS}
    contents |= {f"capture-{name}": (CORPUS / "capture" / name).read_bytes() for name in (GOOD, BAD)}
    contents = {name: content for name, content in contents.items() if content}
    assert len(contents) > 20
    process = start("--readers", "2")
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    limits = httpx2.Limits(max_connections=MOST_OF_CLIENT)
    with (
        httpx2.Client(base_url=url, headers=headers, timeout=DEADLINE_S, limits=limits) as client,
        ThreadPoolExecutor(len(contents)) as pool,
    ):

        def send(name: str) -> str:
            sent = client.post("api/captures", params={"name": name}, content=contents[name])
            assert sent.status_code == 201, (name, sent.text)
            return str(sent.json()["data_id"])

        ids = dict(zip(contents, pool.map(send, contents), strict=True))
        assert len(set(ids.values())) == len(contents)
        for name, data_id in ids.items():
            found = over(client, data_id)
            assert found["name"] == name
            if found["stage"] == "failed":
                assert name in found["message"] or "capture" in found["message"], found
                assert not re.search("web/|exit code|unexpected", found["message"]), found
            else:
                assert client.get(f"api/captures/{data_id}/file").content == contents[name]
            if name.startswith("made-"):
                assert found["stage"] == "ready", found
        assert over(client, ids[f"capture-{BAD}"])["stage"] == "failed"
        assert over(client, ids[f"capture-{GOOD}"])["stage"] == "ready"
    assert process.poll() is None


def over(client: httpx2.Client, data_id: str) -> dict[str, Any]:
    """A measurement that nobody works at any more."""
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        found: dict[str, Any] = client.get(f"api/measurements/{data_id}").json()
        if found["stage"] in ("ready", "failed"):
            return found
        time.sleep(0.05)
    pytest.fail(f"not over within {DEADLINE_S} s: {found}")


def test_an_address_for_others_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_WEB_TOKEN", raising=False)
    refused = CliRunner().invoke(app, ["web", "--bind", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "a token is needed" in refused.stderr


def test_without_its_packages_it_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from weirlab.base import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    refused = CliRunner().invoke(app, ["web"])
    assert refused.exit_code == 3
    assert "pip install 'fastapi>=" in refused.stderr
