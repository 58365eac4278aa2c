from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from weirlab.numbering.managing.accounts import Accounts
from weirlab.numbering.managing.database import Database, opened
from weirlab.numbering.managing.pieces import Item
from weirlab.numbering.managing.register import Register
from weirlab.numbering.managing.state import ChangeRefusal, Problem
from weirlab.numbering.managing.transaction import UserAccount

from ..plans import BASE, loads

CHEAP = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1),))
"""What a hash of a password costs in tests."""

ADMINISTRATOR = UserAccount("root", "", None, False)
ONE = UserAccount("ann", "", "one", False)
TWO = UserAccount("ben", "", "two", False)


@dataclass
class Clock:
    """A time that stands still until it is set forward."""

    now: datetime = field(default_factory=lambda: datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: int) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = opened(str(tmp_path / "plan.db"), new=True)
    yield made
    made.close()


@pytest.fixture
def register(database: Database, clock: Clock) -> Register:
    """With the small plan of all tests."""
    made = Register(database, clock)
    made.begin("test", loads(BASE).plan, "plan.yaml")
    return made


@pytest.fixture
def accounts(register: Register) -> Accounts:
    return Accounts(register, CHEAP)


def find(register: Register, part: str, **values: Any) -> Item:
    """The piece with these values."""
    (found,) = [
        item
        for item in register.state().items
        if item.part == part and all(item.content.get(key) == value for key, value in values.items())
    ]
    return found


def refused(act: Callable[[], object]) -> tuple[Problem, ...]:
    """Why it is."""
    with pytest.raises(ChangeRefusal) as caught:
        act()
    return caught.value.problems
