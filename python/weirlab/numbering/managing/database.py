"""The database of a managed plan: SQLite in a file, or PostgreSQL by its URL.

A :class:`Database` gives transactions; during one of :meth:`Database.writing`, nobody else writes. Only
this module and ``transaction.py`` know SQL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from weirlab.base import files
from weirlab.base.errors import DiskFull, InputError, MissingCapability, StoreError
from weirlab.base.quoting import printable, shortened
from weirlab.numbering.managing.transaction import METADATA, SCHEMA, VERSION, Transaction

_WAIT_S: Final = 10
"""How long a transaction waits for another one."""
_PRIVATE: Final = 0o600
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNAVAILABLE: Final = ("08", "53", "55P", "57P")
"""PostgreSQL's classes of errors (its manual, appendix A): connection, resources, locks, shutdown."""


class DatabaseError(StoreError):
    """The database reports an error; ``temporary`` if it may be over soon."""

    def __init__(self, message: str, *, temporary: bool) -> None:
        super().__init__(message)
        self.temporary = temporary


class Database:
    """An open database."""

    def __init__(self, engine: sql.Engine, shown: str) -> None:
        self._engine = engine
        self.shown = shown
        """Its path or URL, without a password."""

    def close(self) -> None:
        """Close its connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that sees a single state of the database."""
        with self._telling(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield Transaction(connection)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction during which nobody else writes; rolled back if an exception leaves the block."""
        with self._telling(), self._engine.connect() as connection:
            connection = connection.execution_options(weir_writes=True)
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql("LOCK TABLE weir_events IN SHARE ROW EXCLUSIVE MODE")
                yield Transaction(connection)

    def make_tables(self) -> None:
        """Create missing tables; raises ``StoreError`` if they have another version."""
        with self._telling(), self._engine.begin() as connection:
            METADATA.create_all(connection)
            found = connection.execute(sql.select(VERSION.c.version)).scalar()
            if found is None:
                connection.execute(sql.insert(VERSION).values(version=SCHEMA))
            elif found != SCHEMA:
                raise StoreError(
                    f"{self.shown}: its tables have version {found}, but this Weir needs {SCHEMA}: "
                    "use the version of Weir that created them"
                )

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            said = shortened(printable(" ".join(str(cause).split())))
            message = f"{self.shown}: the database reports an error: {said}"
            if _is_full(cause):
                raise DiskFull(message) from error
            temporary = _is_temporary(error, cause)
            raise DatabaseError(message + "; try again" * temporary, temporary=temporary) from error


def _is_full(cause: BaseException | None) -> bool:
    """Whether the disk of the database has no room: class 53 of PostgreSQL is insufficient resources."""
    full = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return full or getattr(cause, "sqlstate", None) == "53100"


def _is_temporary(error: SQLAlchemyError, cause: BaseException | None) -> bool:
    """Whether another transaction takes long, or the server of the database cannot be reached."""
    if isinstance(cause, sqlite3.Error):
        # The low byte is the kind, the others are details of it.
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _BUSY
    state = getattr(cause, "sqlstate", None)
    return state.startswith(_UNAVAILABLE) if state else isinstance(error, OperationalError)


def opened(place: str, *, new: bool = False) -> Database:
    """The database at ``place``: a path, or a URL such as ``postgresql://weir@db.example.net/voice``.

    Parameters
    ----------
    new
        Create it, if it is a file that does not exist.

    Raises
    ------
    InputError
        ``place`` is neither, or there is no such file.
    StoreError
        The database cannot be used.
    MissingCapability
        The driver of PostgreSQL is not installed.
    """
    made = _postgresql(place) if "://" in place else _sqlite(Path(place), new=new)
    made.make_tables()
    return made


def _sqlite(path: Path, *, new: bool) -> Database:
    shown = files.shown(path)
    if not path.exists():
        if not new:
            raise InputError(
                f"{shown}: there is no such database; weir voice manage import creates one from a plan"
            )
        with files.telling(path, "be made"):
            # Readable by its owner alone: it holds hashes of passwords.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, _PRIVATE))
    engine = sql.create_engine(
        sql.URL.create("sqlite", database=str(path.absolute())), connect_args={"timeout": _WAIT_S}
    )

    # SQLite's own transactions; the driver would begin them late, after the first read.
    @sql.event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @sql.event.listens_for(engine, "begin")
    def begun(connection: sql.Connection) -> None:
        writes = connection.get_execution_options().get("weir_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return Database(engine, shown)


def _postgresql(place: str) -> Database:
    try:
        url = sql.make_url(place)
    except SQLAlchemyError:
        raise InputError("the database's URL is not valid; write postgresql://USER@HOST/NAME") from None
    shown = url.render_as_string(hide_password=True)
    if url.drivername not in ("postgresql", "postgres"):
        raise InputError(f"{shown}: give the path of an SQLite file, or a URL that begins with postgresql://")
    try:
        engine = sql.create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ModuleNotFoundError:
        raise MissingCapability(
            f"{shown} needs psycopg, not installed here; install with: pip install 'psycopg[binary]'"
        ) from None
    return Database(engine, shown)
