"""``weir voice manage``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app
from weirlab.numbering.plan import load, ready

from ..conftest import Voice

PASSWORD = "a weir holds water"


@pytest.fixture
def database(voice: Voice, tmp_path: Path) -> Path:
    path = tmp_path / "plan.db"
    assert voice("manage", "import", "--plan", "federation", "--database", path).code == 0
    return path


def test_a_plan_comes_back_as_it_was(voice: Voice, database: Path, tmp_path: Path) -> None:
    answer = voice("manage", "export", "--database", database)
    assert answer.code == 0
    (tmp_path / "back.yaml").write_text(answer.out)
    assert load(tmp_path / "back.yaml").plan == load(ready.FOLDER / "federation.yaml").plan
    checked = voice("check", "--plan", tmp_path / "back.yaml")
    assert checked.code == voice("check", "--plan", "federation").code


def test_users_are_added_listed_and_removed(voice: Voice, database: Path) -> None:
    on = ("--database", str(database), "--json")
    added = CliRunner().invoke(
        app, ["voice", "manage", "add-user", "ben", "--organisation", "north", *on], input=f"{PASSWORD}\n"
    )
    assert added.exit_code == 0, added.stderr
    assert voice("manage", "add-user", "root", "--no-password", *on).json["organisation"] is None
    listed = voice("manage", "users", *on).json["users"]
    assert listed == [
        {"name": "ben", "organisation": "north", "publishes": False, "password": True},
        {"name": "root", "organisation": None, "publishes": True, "password": False},
    ]
    assert "ben" in voice("manage", "users", "--database", database).out
    assert voice("manage", "remove-user", "ben", *on).code == 0
    assert voice("manage", "remove-user", "ben", *on).code == 2
    events = voice("manage", "log", *on).json["events"]
    assert [each["action"] for each in events] == [
        "removed account", "added account", "added account", "imported",
    ]  # fmt: skip
    assert "federation" in voice("manage", "log", "--database", database).out


def test_no_password_is_asked_for_where_nobody_could_enter_one(voice: Voice, database: Path) -> None:
    answer = voice("manage", "add-user", "ben", "--database", database)
    assert answer.code == 2
    assert "give it on standard input, or --no-password" in answer.err


def test_a_database_that_is_not_there_is_named(voice: Voice, tmp_path: Path) -> None:
    answer = voice("manage", "export", "--database", tmp_path / "none.db")
    assert answer.code == 2
    assert "none.db: there is no such database" in answer.err
