"""A transfer between two other hosts, captured at both of them and on this one, which forwards it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weirlab._engine import TcpServer
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.lab.linux.namespace import Namespace
from weirlab.store import Store
from weirlab.studies import runner, scenarios
from weirlab.studies.contract import Outcome
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.page.story import tell
from weirlab.transfers.tcp.study import kept, running
from weirlab.transfers.tcp.study.running import TcpStudy

from .router import CLIENT, SERVER, Router, routed

pytestmark = pytest.mark.netns

TOTAL = 3_000_000
DROPS = (
    "add table ip t\n"
    "add chain ip t c { type filter hook forward priority 0; }\n"
    f"add rule ip t c ip daddr {SERVER} meta length > 1000 numgen inc mod 20 19 drop\n"
)
"""Behind the interface at which packets come in."""


@pytest.fixture
def router() -> Iterator[Router]:
    with routed("between") as found:
        yield found


def served(at: Namespace, address: str, token: str, folder: Path, errands: bool = False) -> Any:
    folder.mkdir()
    return at.call(
        lambda: TcpServer(
            address=address,
            port=0,
            token=token,
            most_ns=None,
            most_bytes=None,
            most_clients=1,
            options=[],
            errands=errands,
            capture=ends.Captures().allowed(str(folder)),
        )
    )


@pytest.fixture
def measured(router: Router, tmp_path: Path) -> Outcome[Any]:
    """Three captures of a transfer of which the router loses packets."""
    nft = ["ip", "netns", "exec", router.here.name, "nft", "--file", "-"]
    subprocess.run(nft, input=DROPS, text=True, check=True)
    client = served(router.client, CLIENT, "the first of two", tmp_path / "client", errands=True)
    server = served(router.server, SERVER, "the second token", tmp_path / "server")
    asked = scenarios.loads(
        f"{{name: x, report: null, tcp: {{host: {SERVER}, port: {server.address[1]}, client: {CLIENT}, "
        f"client_port: {client.address[1]}, total: {TOTAL}, congestion: cubic, "
        "capture: 'sender,receiver,between:rc'}}"
    )
    study = TcpStudy(running.TransferDisplay(tokens=("the second token", "the first of two")))
    outcome = router.here.call(
        lambda: runner.run(study, asked, Work(Store(tmp_path / "runs"), SilentProgress()))
    )
    for each in (client, server):
        each.stop()
    # Neither server keeps what it has handed over.
    assert [*(tmp_path / "client").iterdir(), *(tmp_path / "server").iterdir()] == []
    return outcome


def test_loss_is_located_by_a_capture_in_between(measured: Outcome[Any]) -> None:
    found = kept.read(measured.run)
    assert found.files.keys() == found.captures.keys() == {"client", "server", "between"}
    interfaces = {end: row.interface for end, row in found.captures.items()}
    assert interfaces == {"client": "e0", "server": "e0", "between": "rc"}
    assert [row.why_not for row in found.captures.values()] == [""] * 3
    assert set(found.diagnoses[0]) >= {"both", "sender", "between", "receiver"}
    if any(row.lost_packets for row in found.captures.values()):
        pytest.skip("packets came too fast to be captured here")
    path, before, behind = (found.crossing(0, section) for section in ("all", "before", "behind"))
    assert path is not None
    assert before is not None
    assert behind is not None
    assert before.lost_bytes == 0
    assert path.lost_bytes == behind.lost_bytes
    assert path.lost_bytes
    assert path.arrived_bytes - path.twice_bytes == TOTAL + 32
    assert any(
        each.startswith("Before the capture in between, 0 B was lost") for each in measured.found.sentences()
    )
    # Its clock is that of the ends, and found to be so within what packets take both ways.
    assert before.there is not None
    assert before.back is not None
    bound_ns = (before.there.least + before.back.least) / 2
    assert abs(found.captures["between"].shift_ns) <= bound_ns + 1_000
    between = found.diagnoses[0]["both"].between
    assert between is not None
    assert between.fates is not None
    assert between.fates.lost > 0
    assert between.fates.late == between.fates.dropped == 0
    said = [table.caption for chapter in tell(measured.run).chapters for table in chapter.tables]
    assert "Between the captures at both ends" in said
