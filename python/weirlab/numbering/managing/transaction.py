"""The tables of a managed plan, and transactions that read and write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sql

from weirlab.numbering.managing.pieces import Content, Item

SCHEMA: Final = 1
"""Version of the tables."""


class JsonText(sql.types.TypeDecorator[Any]):
    """Plain values as JSON in a column of text, the same in every database; None is NULL."""

    impl = sql.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: object) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def process_result_value(self, value: str | None, dialect: object) -> Any:
        return None if value is None else json.loads(value)


METADATA: Final = sql.MetaData()
VERSION: Final = sql.Table("weir_schema", METADATA, sql.Column("version", sql.Integer, nullable=False))
_ITEMS: Final = sql.Table(
    "weir_items",
    METADATA,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("part", sql.String(32), nullable=False),
    sql.Column("content", JsonText, nullable=False),
    sql.Column("revision", sql.Integer, nullable=False),
)
_EVENTS: Final = sql.Table(
    "weir_events",
    METADATA,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("at", sql.String(32), nullable=False),
    sql.Column("who", sql.String(64), nullable=False),
    sql.Column("action", sql.String(32), nullable=False),
    sql.Column("told", sql.Text, nullable=False),
    sql.Column("part", sql.String(32)),
    sql.Column("item", sql.Integer, index=True),
    sql.Column("before", JsonText),
    sql.Column("after", JsonText),
    sql.Column("undoes", sql.Integer, index=True),
)
_ACCOUNTS: Final = sql.Table(
    "weir_accounts",
    METADATA,
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("password", sql.String(256), nullable=False),
    sql.Column("organisation", sql.String(64)),
    sql.Column("publishes", sql.Boolean, nullable=False),
)
_SESSIONS: Final = sql.Table(
    "weir_sessions",
    METADATA,
    sql.Column("digest", sql.String(64), primary_key=True),
    sql.Column("account", sql.String(64), nullable=False),
    sql.Column("ends", sql.String(32), nullable=False),
)
_PUBLICATIONS: Final = sql.Table(
    "weir_publications",
    METADATA,
    sql.Column("event", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("serial", sql.BigInteger, nullable=False),
    sql.Column("text", sql.Text, nullable=False),
)


@dataclass(frozen=True)
class PieceChange:
    """What an event did to a piece: its part, its number, its content; ``undoes`` is an earlier event."""

    part: str | None = None
    item: int | None = None
    before: Content | None = None
    after: Content | None = None
    undoes: int | None = None


NO_CHANGE: Final = PieceChange()


@dataclass(frozen=True)
class PlanEvent:
    """An action of a user; a change of a piece if it has a ``part``."""

    id: int
    at: str
    """UTC, as in ISO 8601."""
    who: str
    action: str
    """``added``, ``changed``, ``removed``, ``undone``, ``published``, ``signed in`` and others."""
    told: str
    """In words."""
    part: str | None = None
    item: int | None = None
    before: Content | None = None
    after: Content | None = None
    undoes: int | None = None
    undone: bool = False
    """Has a later event undone it?"""
    latest: bool = False
    """Has the piece not changed since? Then it can be undone."""

    @property
    def is_change(self) -> bool:
        """Is it the change of a piece?"""
        return self.part is not None and self.item is not None


@dataclass(frozen=True)
class UserAccount:
    """A user who may sign in, for an organisation or for the whole plan."""

    name: str
    password: str
    """Hash of the password; empty for accounts that only a proxy can sign in."""
    organisation: str | None
    """None for an administrator."""
    publishes: bool
    """May the user publish? Administrators always may."""

    @property
    def administrator(self) -> bool:
        return self.organisation is None

    @property
    def may_publish(self) -> bool:
        return self.publishes or self.administrator


@dataclass(frozen=True)
class PlanPublication:
    """What was published last."""

    event: int
    serial: int
    text: str
    """The plan, as YAML."""


class Transaction:
    """An atomic transaction, with the operations on the tables."""

    def __init__(self, connection: sql.Connection) -> None:
        self._on = connection

    def items(self) -> list[Item]:
        """All pieces in order."""
        found = self._on.execute(sql.select(_ITEMS).order_by(_ITEMS.c.id))
        return [Item(*row) for row in found]

    def head(self) -> int:
        """The last event of all; 0 for none."""
        return int(self._on.execute(sql.select(sql.func.max(_EVENTS.c.id))).scalar() or 0)

    def changed(self) -> int:
        """The last event that changed the plan; 0 for none."""
        query = sql.select(sql.func.max(_ITEMS.c.revision))
        removed = sql.select(sql.func.max(_EVENTS.c.id)).where(_EVENTS.c.item.is_not(None))
        return max(int(self._on.execute(each).scalar() or 0) for each in (query, removed))

    def next_item(self) -> int:
        """A number that no piece has ever had, as an undone removal restores the old one."""
        ever = sql.select(sql.func.max(_EVENTS.c.item))
        now = sql.select(sql.func.max(_ITEMS.c.id))
        return 1 + max(int(self._on.execute(each).scalar() or 0) for each in (ever, now))

    def put(self, item: Item) -> None:
        """Store a piece, replacing its earlier content."""
        self.drop(item.id)
        self.put_all([item])

    def put_all(self, items: list[Item]) -> None:
        """Store many new pieces."""
        self._on.execute(sql.insert(_ITEMS), [*map(vars, items)])

    def drop(self, item: int) -> None:
        """Remove a piece."""
        self._on.execute(sql.delete(_ITEMS).where(_ITEMS.c.id == item))

    def record(self, at: str, who: str, action: str, told: str, changed: PieceChange = NO_CHANGE) -> int:
        """Add an event; returns its number."""
        number = self.head() + 1
        self._on.execute(
            sql.insert(_EVENTS).values(id=number, at=at, who=who, action=action, told=told, **vars(changed))
        )
        return number

    def events(
        self, *, most: int, below: int | None = None, item: int | None = None, changes: bool = False
    ) -> list[PlanEvent]:
        """Up to ``most`` events, the latest first: before event ``below``, of one piece, or only changes."""
        query = sql.select(_EVENTS).order_by(_EVENTS.c.id.desc()).limit(most)
        if below is not None:
            query = query.where(_EVENTS.c.id < below)
        if item is not None:
            query = query.where(_EVENTS.c.item == item)
        if changes:
            query = query.where(_EVENTS.c.item.is_not(None))
        rows = self._on.execute(query).all()
        inverse = sql.select(_EVENTS.c.undoes).where(_EVENTS.c.undoes.in_([row.id for row in rows]))
        undone = {*self._on.execute(inverse).scalars()}
        changed = [row.item for row in rows if row.item is not None]
        latest = sql.select(sql.func.max(_EVENTS.c.id)).where(_EVENTS.c.item.in_(changed))
        last = {*self._on.execute(latest.group_by(_EVENTS.c.item)).scalars()}
        return [PlanEvent(**row._mapping, undone=row.id in undone, latest=row.id in last) for row in rows]

    def event(self, number: int) -> PlanEvent | None:
        found = self.events(most=1, below=number + 1)
        return found[0] if found and found[0].id == number else None

    def accounts(self) -> list[UserAccount]:
        """All of them, by name."""
        rows = self._on.execute(sql.select(_ACCOUNTS).order_by(_ACCOUNTS.c.name))
        return [UserAccount(*row) for row in rows]

    def account(self, name: str) -> UserAccount | None:
        row = self._on.execute(sql.select(_ACCOUNTS).where(_ACCOUNTS.c.name == name)).first()
        return None if row is None else UserAccount(*row)

    def put_account(self, account: UserAccount) -> None:
        """Store an account, replacing the earlier one; its sessions end."""
        self.drop_account(account.name)
        self._on.execute(sql.insert(_ACCOUNTS).values(vars(account)))

    def put_password(self, name: str, password: str, digest: str) -> None:
        """Store the hash of a new password; all sessions of the account but the one with ``digest`` end."""
        self._on.execute(sql.update(_ACCOUNTS).where(_ACCOUNTS.c.name == name).values(password=password))
        others = sql.delete(_SESSIONS).where(_SESSIONS.c.account == name, _SESSIONS.c.digest != digest)
        self._on.execute(others)

    def drop_account(self, name: str) -> None:
        """Remove an account and its sessions."""
        self._on.execute(sql.delete(_ACCOUNTS).where(_ACCOUNTS.c.name == name))
        self._on.execute(sql.delete(_SESSIONS).where(_SESSIONS.c.account == name))

    def begin_session(self, digest: str, account: str, ends: str, now: str) -> None:
        """Store a session, and delete those that have expired."""
        self._on.execute(sql.delete(_SESSIONS).where(_SESSIONS.c.ends <= now))
        self._on.execute(sql.insert(_SESSIONS).values(digest=digest, account=account, ends=ends))

    def session(self, digest: str, now: str) -> UserAccount | None:
        """The account of a session; None if the session has ended."""
        query = sql.select(_SESSIONS.c.account).where(_SESSIONS.c.digest == digest, _SESSIONS.c.ends > now)
        name = self._on.execute(query).scalar()
        return None if name is None else self.account(name)

    def end_session(self, digest: str) -> None:
        """Delete a session."""
        self._on.execute(sql.delete(_SESSIONS).where(_SESSIONS.c.digest == digest))

    def publication(self) -> PlanPublication | None:
        """The last one."""
        query = sql.select(_PUBLICATIONS).order_by(_PUBLICATIONS.c.event.desc()).limit(1)
        row = self._on.execute(query).first()
        return None if row is None else PlanPublication(*row)

    def put_publication(self, made: PlanPublication) -> None:
        """Store a publication."""
        self._on.execute(sql.insert(_PUBLICATIONS).values(vars(made)))
