"""What was changed is undone by its owner, or by the next one where that is dead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyroute2.ethtool.ioctl import NoSuchDevice

from weirlab.errors import LabError
from weirlab.link.host import journal
from weirlab.link.host.journal import Journal


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the changes that were undone, in that order."""
    seen: list[str] = []

    def undo(change: Mapping[str, Any]) -> None:
        if change["name"] == "stubborn":
            raise OSError("busy")
        seen.append(change["name"])

    monkeypatch.setattr(journal, "_UNDO", dict.fromkeys(journal._UNDO, undo))
    return seen


def test_the_last_change_is_undone_first_and_once(undone: list[str], tmp_path: Path) -> None:
    changes = Journal(tmp_path)
    for name in ("first", "second"):
        changes.note("up", None, name)
    assert changes.undo() == ()
    assert changes.undo() == ()
    assert undone == ["second", "first"]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_undone_is_said_and_does_not_hinder_the_rest(
    undone: list[str], tmp_path: Path
) -> None:
    changes = Journal(tmp_path)
    for name in ("first", "stubborn"):
        changes.note("up", None, name)
    (problem,) = changes.undo()
    assert problem.startswith("stubborn could not be put back as it was (up: busy); the next weir tap")
    assert undone == ["first"]


def test_what_could_not_be_undone_stays_noted_until_somebody_can(
    undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = Journal(tmp_path)
    for name in ("first", "stubborn"):
        changes.note("up", None, name)
    changes.undo()
    told: list[str] = []
    assert journal.clean(tmp_path, tell=told.append) == []
    assert [words.split()[0] for words in told] == ["stubborn"]
    with pytest.raises(LabError, match="stubborn could not be put back"):
        journal.clean(tmp_path)
    monkeypatch.setattr(
        journal, "_UNDO", dict.fromkeys(journal._UNDO, lambda change: undone.append("at last"))
    )
    assert journal.clean(tmp_path) == [f"weir-{changes.identifier}"]
    assert undone == ["first", "at last"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [NoSuchDevice(), FileNotFoundError()])
def test_changes_of_an_interface_that_is_gone_went_with_it(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(change: Mapping[str, Any]) -> None:
        raise error

    monkeypatch.setattr(journal, "_UNDO", dict.fromkeys(journal._UNDO, gone))
    changes = Journal(tmp_path)
    changes.note("features", None, "eth9", before={})
    assert changes.undo() == ()
    assert list(tmp_path.iterdir()) == []


def test_changes_of_the_living_stay_and_those_of_the_dead_are_undone(
    undone: list[str], tmp_path: Path
) -> None:
    alive = Journal(tmp_path)
    alive.note("up", None, "alive")
    dead = tmp_path / "00c0ffee.lock"
    lines = [json.dumps({"do": "up", "netns": None, "name": name}) for name in ("a", "b")]
    # Killed while it wrote the last line.
    dead.write_text("\n".join([*lines, '{"do": "u']))
    assert journal.clean(tmp_path) == ["weir-00c0ffee"]
    assert undone == ["b", "a"]
    assert not dead.exists()
    alive.undo()
    assert undone[-1] == "alive"


def test_changes_in_a_namespace_that_is_gone_went_with_it(undone: list[str], tmp_path: Path) -> None:
    changes = Journal(tmp_path)
    changes.note("features", "weirlink-never-there", "x", before={"rx-gro": True})
    assert changes.undo() == ()
    assert undone == []
