"""Scenarios that come with Weir and are run by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.studies import ready
from weirlab.studies.scenarios import load


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_ready_made_scenario_is_found_by_name_from_anywhere() -> None:
    assert load(ready.find(Path("firewall-rules"))).name == "What do firewall rules cost?"


def test_a_file_of_the_same_name_goes_before_the_ready_made_one() -> None:
    Path("failover").write_text("name: mine\nprofile: {}\n")
    assert load(ready.find(Path("failover"))).name == "mine"


def test_a_folder_of_the_same_name_does_not_hide_a_ready_made_scenario() -> None:
    Path("failover").mkdir()
    assert ready.find(Path("failover")) == ready.paths()["failover"]


@pytest.mark.parametrize("wanted", ["nothing", "scenarios/firewall-rules.yaml"])
def test_an_unknown_name_lists_the_ready_made_scenarios(wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        ready.find(Path(wanted))
    message = str(caught.value)
    assert message.startswith(f"{wanted}: no such file, and no ready-made scenario has this name")
    assert all(name in message for name in ready.names())
    assert ("did you mean 'firewall-rules'?" in message) == ("firewall" in wanted)


@pytest.mark.parametrize("wanted", [".", "n" * 5000])
def test_what_is_no_scenario_file_is_refused_when_it_is_read(wanted: str) -> None:
    with pytest.raises(InputError):
        load(ready.find(Path(wanted)))


def test_no_ready_made_scenario_reads_or_writes_files_of_its_own() -> None:
    for name in ready.names():
        text = (ready.paths()[name]).read_text()
        assert not any(key in text for key in ("ruleset:", "out:", "plots:")), name
