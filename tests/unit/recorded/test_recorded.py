"""Stored runs and captures of earlier days open unchanged, and every command says the same of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from weirlab.cli.program.app import parts
from weirlab.store import Store
from weirlab.studies.registry import kinds

from .answers import (
    ADDED_RUNS,
    ANSWERS,
    CLOSE,
    COMMANDS,
    FITTED,
    RUNS,
    TCP,
    TCP_EARLIER,
    answer,
    differences,
    kept,
    unpacked,
)

MEASURE = {
    "calibrate", "trial", "profile", "search", "rfc2544", "failover", "run", "tap", "log", "link", "tcp",
    "doctor", "lab", "schema", "completion", "web", "psock", "reproduce", "capacity", "demo", "campaign",
    "ports", "check", "cable", "library", "simulate", "worker", "label",
}  # fmt: skip
"""Commands that need no stored run and no capture: they make them, or speak of this machine or of Weir."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def place(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("WEIR_DEBUG", raising=False)
    monkeypatch.chdir(shutil.copytree(inputs, tmp_path, dirs_exist_ok=True))
    return tmp_path


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_says_what_it_said_when_it_was_recorded(name: str, place: Path) -> None:
    found = answer(name, place)
    changed = list(differences(kept(name), found, close=FITTED.get(name, CLOSE)))
    # `python tests/unit/recorded` shows all differences, and keeps what is meant to be otherwise.
    assert changed == []


def test_every_answer_has_its_command_and_every_command_its_answer() -> None:
    assert sorted(path.stem for path in ANSWERS.glob("*.json")) == sorted(COMMANDS)


def test_every_command_that_reads_runs_or_captures_is_recorded() -> None:
    asked = {command.split()[0] for command in COMMANDS.values()}
    known = {name for names in parts(only_own=True).values() for name in names}
    assert asked | MEASURE == known
    assert not asked & MEASURE


def test_there_is_a_stored_run_of_every_kind(inputs: Path) -> None:
    runs = Store(inputs / "store").runs()
    assert sorted(run.run_id for run in runs) == sorted((*RUNS, TCP_EARLIER, TCP, *ADDED_RUNS))
    assert {run.kind for run in runs} >= set(kinds())
    assert [run.problem for run in runs if run.problem] == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-12, "b": 2}, []),
        ({"a": 1.0}, {"a": 1.001}, [".a: 1.001, was 1.0"]),
        ({"a": 1}, {}, [".a: is gone, was 1"]),
        ({"a": [1, 2]}, {"a": [1]}, [".a: 1 items, were 2"]),
        ([{"a": None}], [{"a": 0}], ["[0].a: 0, was null"]),
        ({"a": True}, {"a": 1}, [".a: 1, was true"]),
        ({"a": "met"}, {"a": "undecided"}, ['.a: "undecided", was "met"']),
        ({"a": "carries 1,200 calls"}, {"a": "up to 1,200 calls"}, []),
        ({"a": "at 1,200 pps"}, {"a": "at 1,300 pps"}, ['.a: "at 1,300 pps", was "at 1,200 pps"']),
    ],
)
def test_differences_are_told_with_their_place(before: object, after: object, told: list[str]) -> None:
    assert list(differences(before, after)) == told
