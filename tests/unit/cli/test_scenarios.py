"""``weir run`` before it runs anything: which scenario is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from weirlab.studies import ready
from weirlab.studies.commands import scenarios

from ..conftest import Weir


def test_the_help_of_run_tells_every_ready_made_scenario(weir: Weir) -> None:
    shown = weir("run", "--help").out.splitlines()
    told = {line.split()[0] for line in shown if line.strip()}
    assert set(ready.names()) <= told


def test_run_without_a_scenario_says_which_there_are(weir: Weir) -> None:
    answer = weir("run")
    assert answer.code == 2
    assert all(name in answer.err for name in ready.names())


def test_run_with_an_unknown_name_is_refused_with_the_known_ones(weir: Weir) -> None:
    answer = weir("run", "firewall-rule")
    assert answer.code == 2
    assert "did you mean 'firewall-rules'?" in answer.err


def test_a_ready_made_scenario_is_printed_with_its_comments(weir: Weir) -> None:
    answer = weir("run", "firewall-rules", "--print")
    assert answer.code == 0
    assert answer.out.startswith("# yaml-language-server")
    assert yaml.safe_load(answer.out)["name"] == "What do firewall rules cost?"
    document = weir("run", "firewall-rules", "--print", "--json").json
    assert document["text"] == answer.out


def test_what_cannot_be_printed_is_refused(weir: Weir) -> None:
    assert weir("run", "--print", "--resume", "last").code == 2


def test_the_page_of_the_demo_is_opened_on_a_desktop_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[list[str]] = []
    page = tmp_path / "demo.html"
    monkeypatch.setattr("weirlab.base.programs.find", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("weirlab.base.programs.run", lambda command, **_: opened.append(command))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    scenarios._open(page)
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    scenarios._open(page)
    assert opened == [["setsid", "--fork", "xdg-open", str(page)]]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    scenarios._open(page)
    assert len(opened) == 1
