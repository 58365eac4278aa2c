"""A campaign of several test beds, as somebody follows and stops it in a browser."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from weirlab.base import programs
from weirlab.store import Store

from ..unit.campaigns.conftest import LocalCluster
from ..unit.campaigns.test_campaign import MATRIX
from ..unit.conftest import unused_port
from .devtools import DEADLINE_S, Browser, Page
from .pages import AXE, LOOKS, Serve, axe_faults, nameless, photograph

BEDS = "[...document.querySelectorAll('.bed')]"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    pytest.importorskip("distributed")
    with ExitStack() as closing:
        made = LocalCluster(unused_port())
        closing.callback(made.close)
        yield made


@contextmanager
def started(store: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A command in a terminal, with the ID of the run that it begins."""
    nothing = subprocess.DEVNULL
    command = programs.own("weirlab", "--store", str(store), *words)
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing) as process:
        try:
            until_s = time.monotonic() + DEADLINE_S
            while not (runs := Store(store).runs()):
                assert time.monotonic() < until_s
                time.sleep(0.1)
            yield process, runs[0].run_id
        finally:
            process.kill()


def stop(page: Page, process: subprocess.Popen[bytes], store: Path) -> None:
    """Press the button, after which the command ends and keeps its run."""
    page.click(".live button")
    page.wait_for("document.querySelector('.tag.interrupted')")
    assert process.wait(DEADLINE_S) == 143
    (run,) = Store(store).runs()
    assert run.status == "interrupted"


def inspect(page: Page, shots: Path | None, name: str) -> None:
    """No faults at any width, light and dark; photographs."""
    assert nameless(page) == []
    for width, dark in LOOKS if AXE else ():
        page.look(width=width, height=900, dark=dark)
        assert axe_faults(page) == [], (width, dark)
    photograph(page, shots, name)


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
    with started(served.store, "campaign", str(file), "--cluster", cluster.url) as (campaign, run_id):
        page = browser.session()
        page.open(f"{served.url}#/runs/{run_id}")
        page.wait_for(f"{BEDS}.length === 3")
        page.wait_for("/[1-9][0-9,]* of 4,000 steps done/.test(document.querySelector('.live').innerText)")
        page.wait_for("/ left/.test(document.querySelector('.live').innerText)")
        told = page.evaluate(f"{BEDS}.map((bed) => bed.innerText)")
        (quarantined,) = (text for text in told if f"-{late.pid} " in text.replace("\n", " "))
        assert "quarantined" in quarantined
        assert "its clock is" in quarantined
        assert any("unsuitable" in text and "lacks kernel>=3" in text for text in told)
        assert any("nic=mlx5" in text and "heard just now" in text for text in told)
        inspect(page, shots, "campaign-live")
        stop(page, campaign, served.store)
    assert browser.problems() == []


def test_a_sweep_of_a_terminal_shows_its_workers_and_is_stopped(
    serve: Serve, browser: Browser, shots: Path | None, cluster: LocalCluster
) -> None:
    cluster.worker("--tag", "cpu=fast")
    cluster.worker()
    cluster.wait_for(2)
    served = serve()
    over = ("--over", "rules=0..999:100", "--over", "rate=50kpps..500kpps:100", "--cluster", cluster.url)
    with started(served.store, "simulate", *over) as (sweep, run_id):
        page = browser.session()
        page.open(f"{served.url}#/runs/{run_id}")
        page.wait_for(f"{BEDS}.length === 2")
        page.wait_for(
            "/[1-9][0-9,]* of 10,000 simulations done/.test(document.querySelector('.live').innerText)"
        )
        page.wait_for("/ left/.test(document.querySelector('.live').innerText)")
        page.wait_for(f"{BEDS}.every((bed) => /[1-9][0-9,]* simulations?;/.test(bed.innerText))")
        page.wait_for(f"{BEDS}.some((bed) => /, simulation [1-8] of 8, for /.test(bed.innerText))")
        assert page.evaluate(f"{BEDS}.some((bed) => bed.innerText.includes('cpu=fast'))")
        assert "measur" not in page.evaluate("document.querySelector('.beds').innerText")
        inspect(page, shots, "sweep-live")
        stop(page, sweep, served.store)
    assert browser.problems() == []
