"""`weir web` with a store on a disk that really fills up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ..unit.trace import slow

pytestmark = pytest.mark.netns

# Nothing stays mounted, however the test ends.
IN_A_NAMESPACE = ["unshare", "--mount", "--propagation", "private"]
FILL_UP = """
import json, os, subprocess, sys, time
from pathlib import Path
from fastapi.testclient import TestClient
from weirlab.store import Store
from weirlab.web.service import service
from weirlab.web.settings import WebSettings

root, capture = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(root)], check=True)
store = Store(root / "store")
with store.create("trial", {}, {}):
    pass

def leave(pages):
    state = os.statvfs(root)
    with (root / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (state.f_bavail - pages) * 4096)

def found(client, answer):
    while (told := client.get(f"/api/measurements/{answer.json()['data_id']}").json())["stage"] in (
        "queued", "working"
    ):
        time.sleep(0.02)
    return told

def tree():
    return sorted(str(path.relative_to(root)) for path in store.root.rglob("*"))

with service(WebSettings(), store) as made:
    client = TestClient(made.app, base_url="http://127.0.0.1:29180")
    whole = found(client, client.post("/api/captures", content=capture))
    # Somebody else fills the disk, behind the back of the service.
    made.space.disk = lambda folder: (10**12, 10**12)
    for pages in (0, 1, 2, 3, 5, 9):
        before = tree()
        leave(pages)
        answers = [client.get(
            f"/api/captures/{whole['data_id']}/connections/0/{what}", params={"side": "b", "from": 0, "to": 1}
        ) for what in ("graphs", "part.pcapng")]
        answer = client.post("/api/captures", content=capture)
        told = found(client, answer) if answer.status_code == 201 else {}
        listed = client.get("/api/runs")
        (root / "filler").unlink()
        texts = [each.text for each in answers if each.status_code != 200] + [answer.text, json.dumps(told)]
        if told:
            made.uploads.measurements.discard(made.uploads.measurements.open(told["data_id"]))
        print(json.dumps({
            "pages": pages,
            "graphs": answers[0].status_code,
            "upload": answer.status_code,
            "stage": told.get("stage", ""),
            "message": told.get("message", "") or answer.json().get("error", {}).get("message", ""),
            "names_the_folder": any(str(root) in text for text in texts),
            "runs": listed.json()["runs"][0]["status"],
            "more": [path for path in tree() if path not in before and not path.endswith("elapsed.json")],
        }))
"""


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What happened, for each number of pages that were free on the disk."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "disk").mkdir()
    capture = slow.five(folder / "made.pcap")
    done = subprocess.run(
        [*IN_A_NAMESPACE, sys.executable, "-c", FILL_UP, str(folder / "disk"), str(capture)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_nothing_is_left_of_what_had_no_room(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        assert step["more"] == [], step


def test_who_waits_is_told_that_the_disk_is_full_without_paths(steps: list[dict[str, Any]]) -> None:
    assert steps[0]["upload"] == 507
    assert {step["upload"] for step in steps} == {201, 507}
    for step in steps:
        assert step["graphs"] == 507
        assert step["message"] == "The disk of this service is full. Its operator has to free some space."
        assert step["stage"] in ("", "failed")
        assert not step["names_the_folder"]
        assert step["runs"] == "complete"
