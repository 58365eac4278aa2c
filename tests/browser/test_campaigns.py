"""A campaign of several test beds, as somebody follows and stops it in a browser."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from weirlab.base import programs
from weirlab.store import Store

from ..unit.campaigns.conftest import LocalCluster, free_port
from ..unit.campaigns.test_campaign import MATRIX
from .devtools import DEADLINE_S, Browser
from .pages import AXE, LOOKS, Serve, axe_faults, nameless, photograph

BEDS = "[...document.querySelectorAll('.bed')]"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    pytest.importorskip("distributed")
    with ExitStack() as closing:
        made = LocalCluster(free_port())
        closing.callback(made.close)
        yield made


def test_a_campaign_of_a_terminal_shows_its_test_beds_and_is_stopped(
    serve: Serve, browser: Browser, shots: Path | None, tmp_path: Path, cluster: LocalCluster
) -> None:
    late = cluster.worker_with_wrong_clock(3600)
    cluster.worker("--testbed", "--tag", "nic=mlx5")
    cluster.worker("--testbed", "--tag", "kernel=2.6")
    cluster.wait_for(3)
    file = tmp_path / "campaign.yaml"
    section = {**MATRIX["campaign"], "repetitions": 1000, "requires": ["kernel>=3"]}
    file.write_text(yaml.safe_dump({**MATRIX, "campaign": section}))
    served = serve()
    command = programs.own("weirlab", "--store", str(served.store), "campaign", str(file))
    with subprocess.Popen(
        [*command, "--cluster", cluster.url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as campaign:
        try:
            until_s = time.monotonic() + DEADLINE_S
            while not (runs := Store(served.store).runs()):
                assert time.monotonic() < until_s
                time.sleep(0.1)
            page = browser.session()
            page.open(f"{served.url}#/runs/{runs[0].run_id}")
            page.wait_for(f"{BEDS}.length === 3")
            page.wait_for(
                "/[1-9][0-9,]* of 4,000 steps done/.test(document.querySelector('.live').innerText)"
            )
            page.wait_for("/ left/.test(document.querySelector('.live').innerText)")
            told = page.evaluate(f"{BEDS}.map((bed) => bed.innerText)")
            (quarantined,) = (text for text in told if f"-{late.pid} " in text.replace("\n", " "))
            assert "quarantined" in quarantined
            assert "its clock is" in quarantined
            assert any("unsuitable" in text and "lacks kernel>=3" in text for text in told)
            assert any("nic=mlx5" in text and "heard just now" in text for text in told)
            assert nameless(page) == []
            if AXE:
                for width, dark in LOOKS:
                    page.look(width=width, height=900, dark=dark)
                    assert axe_faults(page) == [], (width, dark)
            photograph(page, shots, "campaign-live")
            page.click(".live button")
            page.wait_for("document.querySelector('.tag.interrupted')")
            assert campaign.wait(DEADLINE_S) == 143
        finally:
            campaign.kill()
    (run,) = Store(served.store).runs()
    assert run.status == "interrupted"
    assert browser.problems() == []
