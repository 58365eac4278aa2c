"""``weir web`` as a process: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app

from .conftest import DEADLINE_S

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


def test_an_address_for_others_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_WEB_TOKEN", raising=False)
    refused = CliRunner().invoke(app, ["web", "--bind", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "a token is needed" in refused.stderr


def test_without_its_packages_it_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from weirlab import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    refused = CliRunner().invoke(app, ["web"])
    assert refused.exit_code == 3
    assert "pip install 'weirlab[web]'" in refused.stderr
