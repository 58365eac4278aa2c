"""What is kept, in SQLite and in PostgreSQL alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from weirlab.base.errors import DiskFull
from weirlab.numbering.managing.accounts import Accounts
from weirlab.numbering.managing.database import Database, opened
from weirlab.numbering.managing.publishing import PublicationPlanner, PublicationTarget, publish
from weirlab.numbering.managing.register import Register

from ..plans import BASE, loads
from . import postgresql
from .conftest import ADMINISTRATOR, CHEAP, ONE, Clock, find
from .test_accounts import PASSWORD
from .test_register import ENTRY


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One database for all tests of a kind."""
    if request.param == "sqlite":
        made = opened(str(tmp_path_factory.mktemp("sqlite") / "plan.db"), new=True)
        yield made
        made.close()
        return
    if reason := postgresql.missing():
        pytest.skip(reason)
    with postgresql.server() as url:
        made = opened(url)
        yield made
        made.close()


@pytest.fixture(scope="module")
def kept(both: Database) -> Register:
    made = Register(both, Clock())
    made.begin("test", loads(BASE).plan, "plan.yaml")
    return made


def test_a_full_disk_is_named_and_nothing_of_the_change_is_kept(tmp_path: Path) -> None:
    with closing(opened(str(tmp_path / "plan.db"), new=True)) as database:
        register = Register(database, Clock())
        register.begin("test", loads(BASE).plan, "plan.yaml")
        before = register.state().text

        def fill() -> None:
            with database.writing() as on:
                # As if there were no more pages on the disk.
                on._on.exec_driver_sql("PRAGMA max_page_count = 1")
                on._on.exec_driver_sql("CREATE TABLE more (content BLOB)")
                on._on.exec_driver_sql("INSERT INTO more VALUES (zeroblob(1000000))")

        with pytest.raises(DiskFull, match="disk is full"):
            fill()
        assert register.state().text == before


def test_changes_are_kept_found_and_undone(kept: Register) -> None:
    before = kept.state().text
    event = kept.add(ONE, "enum", ENTRY).event
    with kept.database.reading() as on:
        assert on.events(most=1, changes=True) == [event]
        assert on.events(most=1, item=event.item) == [event]
    kept.undo(ONE, event.id)
    assert kept.state().text == before


def test_sessions_are_kept(kept: Register) -> None:
    accounts = Accounts(kept, CHEAP)
    accounts.add("test", "ann", PASSWORD, "one", publishes=True)
    key = accounts.sign_in("ann", PASSWORD, "192.0.2.1")
    # Another process has the same database.
    found = Accounts(Register(kept.database, kept.now), CHEAP).signed_in(key)
    assert found is not None
    assert found.account.may_publish


def test_publications_are_kept(kept: Register, tmp_path: Path) -> None:
    made = publish(
        PublicationPlanner(kept),
        ADMINISTRATOR,
        PublicationPlanner(kept).pending().head,
        PublicationTarget(tmp_path),
    )
    assert PublicationPlanner(kept).pending().changes == ()
    with kept.database.reading() as on:
        found = on.publication()
    assert found is not None
    assert found.serial == made.serial


def test_two_at_once_both_count(kept: Register) -> None:
    """Each sees what the other one did: neither a number nor an event is given twice."""
    numbers = [f"+42011100010{digit}" for digit in range(4)]
    failures: list[BaseException] = []

    def add(number: str) -> None:
        try:
            kept.add(ONE, "enum", {**ENTRY, "number": number})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {find(kept, "enum", number=number).id for number in numbers}.__len__() == 4
