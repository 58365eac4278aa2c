"""``weir web`` as root: which rights its processes keep while they work, and what they cannot do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from weirlab._engine import TcpServer
from weirlab.base import confinement, programs
from weirlab.transfers.tcp import ends
from weirlab.web.launching.jobs import (
    CaptureJob,
    ProcessJob,
    RecordingJob,
    ReportJob,
    ServiceFolders,
    TestReadingJob,
)
from weirlab.web.launching.launcher import DirectLauncher, OwnProcess, piped

from .conftest import wait_until

pytestmark = pytest.mark.netns

TOKEN: Final = "correct horse battery staple"
DATA_ID: Final = "0123456789abcdef" * 2
RUN_ID: Final = "20260102-030405-profile-0a1b"
NONE: Final = "0" * 16
SMALL: Final = """\
name: A small profile
lab: {kind: sim}
dut: {name: iptables}
profile: {positions: [0, 100], sizes: [64], repetitions: 1, trial_s: 0.05, warmup_s: 0.01}
report: null
"""


@pytest.fixture(scope="module", autouse=True)
def possible() -> None:
    if lacking := {name: refusal for name, refusal in confinement.tried().items() if refusal}:
        pytest.skip(f"not all measures work here: {lacking}")


@dataclass(frozen=True)
class Served:
    """``weir web`` as root; ``listening`` is its first line."""

    process: subprocess.Popen[str]
    listening: dict[str, Any]
    client: httpx2.Client
    store: Path

    def events(self, path: str) -> list[dict[str, Any]]:
        with self.client.stream("GET", path) as answer:
            return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # Nobody but root gets into the folder above the store.
    closed = tmp_path_factory.mktemp("closed")
    closed.chmod(0o700)
    store = closed / "store"
    command = [sys.executable, "-m", "weirlab", "--store", str(store), "web", "--json", "--allow-run"]
    with subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0"],
        env=os.environ | {"WEIR_WEB_TOKEN": TOKEN},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        listening = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx2.Client(base_url=listening["url"], headers=headers, timeout=60) as client:
            yield Served(process, listening, client, store)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in found for word in path.read_text().split()]


def assert_without_rights(pid: int) -> None:
    about = status(pid)
    assert "0" not in (*about["Uid"].split(), *about["Gid"].split())
    assert about["Groups"] == ""
    assert {about[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {NONE}
    assert (about["NoNewPrivs"], about["Seccomp"]) == ("1", "2")
    # No place of this host's but those that it needs.
    assert not (Path(f"/proc/{pid}/root") / "var" / "lib").exists()


def test_the_page_has_no_rights_and_its_helper_has_them(served: Served) -> None:
    pid = served.process.pid
    assert_without_rights(pid)
    assert served.listening["user"] == os.stat(f"/proc/{pid}").st_uid
    assert set(served.listening["confinement"].values()) == {""}
    (helper,) = children(pid)
    assert status(helper)["Uid"].split() == ["0"] * 4
    assert TOKEN.encode() not in Path(f"/proc/{helper}/environ").read_bytes()
    # Nothing but its standard streams, and its end of the socket.
    kinds = sorted(os.readlink(path).partition(":")[0] for path in Path(f"/proc/{helper}/fd").iterdir())
    assert kinds.count("socket") == 1
    assert len(kinds) <= 4


def test_the_page_writes_to_its_measurements_and_labels_and_not_to_runs(served: Served) -> None:
    root = Path(f"/proc/{served.process.pid}/mountinfo")
    mounts = {line.split()[4]: line.split()[5].split(",") for line in root.read_text().splitlines()}
    assert "ro" in mounts[str(served.store)]
    assert "rw" in mounts[str(served.store / "web")]
    assert {place for place, options in mounts.items() if "rw" in options} == {
        *("/", "/proc", "/dev/null"),
        *(str(served.store / name) for name in ("web", "labels", ".index.sqlite")),
    }


def test_a_scenario_is_carried_out_by_root_and_its_report_is_drawn(served: Served) -> None:
    asked = served.client.post("/api/scenarios", json={"text": SMALL, "name": "mine.yaml"}).json()
    last = served.events(f"/api/scenarios/{asked['data_id']}/events")[-1]
    assert last["stage"] == "ready", last["message"]
    run = served.store / last["run_id"]
    assert served.client.post(f"/api/runs/{run.name}/report").json() == {"report": "ready"}
    assert served.client.get(f"/api/runs/{run.name}/report").status_code == 200
    assert {path.stat().st_uid for path in (run, *run.iterdir())} == {0}


def test_a_test_is_recorded_though_the_page_may_not_record(served: Served, tmp_path: Path) -> None:
    server = TcpServer(
        address="127.0.0.1", port=0, token="", most_ns=None, most_bytes=None, most_clients=1, options=[],
        capture=ends.Captures().allowed(str(tmp_path)),
    )  # fmt: skip
    try:
        asked = {"host": "127.0.0.1", "port": server.address[1], "lasts_s": 1, "rate": "20Mbit/s"}
        made = served.client.post("/api/transfers", json={**asked, "capture": True}).json()
        last = served.events(f"/api/transfers/{made['data_id']}/events")[-1]
    finally:
        server.stop()
    assert [each["why_not"] for each in last["captures"]] == [None, None], last["captures"]
    assert len({each["packets"] for each in last["captures"]}) == 1
    files = [path for path in (served.store / "web").rglob("*") if path.is_file()]
    assert {path.stat().st_uid for path in files} == {0}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name in (f"web/{DATA_ID}/tapes-1", RUN_ID):
        (tmp_path / name).mkdir(parents=True, mode=0o700)
    return tmp_path


@pytest.mark.parametrize(
    "job",
    [
        CaptureJob(DATA_ID),
        TestReadingJob(DATA_ID, "tapes-1"),
        ReportJob(RUN_ID),
        RecordingJob(DATA_ID, "tapes-1", "lo", 29100, 1_000_000),
    ],
    ids=lambda job: job.KIND,
)
def test_a_process_that_meets_foreign_bytes_has_no_rights(store: Path, job: ProcessJob) -> None:
    process, to, source = piped(DirectLauncher.of(ServiceFolders(store)), job)
    assert isinstance(process, OwnProcess)
    pid = process.program.pid
    with to, source:
        # It waits for its request, or records, and has given up its rights before.
        wait_until(lambda: status(pid)["Seccomp"] == "2")
        assert_without_rights(pid)
        network = os.readlink(f"/proc/{pid}/ns/net")
        assert network != os.readlink("/proc/self/ns/net")
        to.close()
        process.wait()


@pytest.mark.parametrize(("other", "least", "most"), [(0, 4, 100), (1, 0, 0)])
def test_a_recorder_writes_only_connections_of_its_user(
    store: Path, other: int, least: int, most: int
) -> None:
    def start(job: ProcessJob, stdin: int, stdout: int) -> programs.Program[Any]:
        return programs.start(
            job.command(ServiceFolders(store), os.geteuid() + other), stdin=stdin, stdout=stdout
        )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        process, to, source = piped(
            DirectLauncher(start), RecordingJob(DATA_ID, "tapes-1", "lo", address[1], 1_000_000)
        )
        with to, source:
            assert json.loads(source.readline()) == {}
            with socket.create_connection(address) as client, listener.accept()[0]:
                client.sendall(b"x" * 1000)
                to.write(json.dumps([[client.getsockname(), client.getpeername()]]).encode() + b"\n")
                to.close()
                recorded = json.loads(source.readline())
        process.wait()
    assert least <= recorded["interfaces"][0]["written"] <= most
