"""An installation without the extra ``report``, as ``pip install weirlab`` makes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.testing import FakeBed

from ..conftest import Weir
from ..trace import made


@pytest.fixture(autouse=True)
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    # What Python's import system takes for a package that is not installed.
    for module in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, module, None)


def test_a_scenario_with_a_report_is_refused_before_it_measures(weir: Weir) -> None:
    refused = weir("run", "firewall-rules", "--lab", "sim")
    assert refused.code == 3
    assert "Altair and vl-convert, not installed here" in refused.err
    assert "pip install 'altair>=" in refused.err
    assert weir("runs", "--json").json["runs"] == []


def test_the_demo_answers_and_says_how_to_get_its_report(
    weir: Weir, bed: Callable[..., list[FakeBed]], tmp_path: Path
) -> None:
    bed()
    answer = weir("demo", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["report"] is None
    assert "no report: it needs charts; install them with: pip install" in answer.err
    assert weir("demo", "--out", tmp_path / "demo.html").code == 3


def test_a_trial_needs_no_charts_and_its_report_says_what_is_missing(weir: Weir) -> None:
    trial = weir("trial", "--lab", "sim", "--rate", "1kpps", "--duration", "0.05", "--json")
    assert trial.code == 0
    answer = weir("report", trial.json["run_id"], "--json")
    assert answer.code == 3
    assert answer.json["error"]["kind"] == "MissingCapability"


def test_the_page_of_a_connection_needs_no_charts(
    weir: Weir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made.answering(monkeypatch, made.analysis([made.connection(0)]))
    assert weir("trace", "made.pcap", "--out", tmp_path / "page.html").code == 0
