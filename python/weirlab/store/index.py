"""The index of a store: the summaries of its runs in a SQLite file, so that a list need not read every run.

It is a cache. Each summary is kept with the stamp of the files that it was read from, and counts only as long
as they have that stamp: runs that are copied, changed or removed by hand are noticed. What is missing is read
from the runs, and an index that is missing, damaged or from another version of Weir is made again. Where it
cannot be written, every command works without it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from weirlab.base import files
from weirlab.base.errors import StoreError
from weirlab.store.summary import RunSummary, stamp, summary

FILE: Final = ".index.sqlite"
_VERSION: Final = 3
_TABLE: Final = (
    "CREATE TABLE runs (run_id TEXT PRIMARY KEY, stamp TEXT, kind TEXT, status TEXT, created TEXT, "
    "host TEXT, name TEXT, trials INTEGER, invalid INTEGER, problem TEXT, simulated INTEGER, answer TEXT, "
    "unusable TEXT, device TEXT) "
    "WITHOUT ROWID"
)
_KINDS: Final = (str, str, str, str, str, str, str, int | None, int | None, str, int, str, str, str)
"""Types of the columns. SQLite itself keeps any value in any column."""
_WAIT_S: Final = 1.0
"""For another process that is writing the index."""
_MOST_BYTES: Final = 1_000_000_000
_MOST_CELL_BYTES: Final = 100_000

_MAGIC: Final = b"SQLite format 3\0"
_ROOT: Final = "\0"
"""Stands for the path of the store in a message: the store may be moved."""

Entry = tuple[str, RunSummary]
"""A summary with the stamp of its files."""


class RunIndex:
    """The index of the store in the folder ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / FILE

    def read(self) -> dict[str, Entry]:
        """All entries by run; empty if there is no index that can be used."""
        found: dict[str, Entry] = {}
        try:
            connection = self._open()
            if connection is None:
                return {}
            with closing(connection):
                for row in connection.execute("SELECT * FROM runs"):
                    found[row[0]] = row[1], self._summary(row)
        except sqlite3.OperationalError:
            return {}
        except (sqlite3.Error, ValueError):
            self._remove()
            return {}
        return found

    def write(self, changed: Mapping[str, Entry], removed: Iterable[str] = ()) -> None:
        """Keep ``changed`` entries, and forget those of ``removed`` runs, if the index can be written."""
        rows = [self._row(stamp, one) for stamp, one in changed.values()]
        try:
            connection = self._open(create=True)
            if connection is None:
                return
            with closing(connection):
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM runs WHERE run_id = ?", [(name,) for name in removed])
                marks = ", ".join("?" * len(_KINDS))
                connection.executemany(f"INSERT OR REPLACE INTO runs VALUES ({marks})", rows)
                connection.execute("COMMIT")
        except sqlite3.OperationalError:
            # Somebody else is writing, the disk is full, or the store may not be changed.
            return
        except sqlite3.Error:
            self._remove()

    def _open(self, *, create: bool = False) -> sqlite3.Connection | None:
        """A connection to an index of this version; None if there is none, and it is not to be created."""
        for _ in range(2):
            if self._is_foreign():
                self._remove()
                if self._is_foreign():
                    return None
            if not create and not self._path.exists():
                return None
            mode = "rwc" if create else "rw"
            address = f"file:{quote(str(self._path.absolute()))}?mode={mode}"
            connection = sqlite3.connect(address, timeout=_WAIT_S, isolation_level=None, uri=True)
            try:
                if _is_ready(connection, create=create):
                    return connection
            except sqlite3.OperationalError:
                connection.close()
                raise
            except sqlite3.Error:
                pass
            connection.close()
            self._remove()
        return None

    def _is_foreign(self) -> bool:
        """Whether there is something that Weir does not write here, and that SQLite should not open."""
        if self._path.with_name(f"{FILE}-journal").exists() or self._path.with_name(f"{FILE}-wal").exists():
            return True
        try:
            with files.open_regular(self._path) as file:
                head = file.read(101)
                size = file.seek(0, 2)
        except FileNotFoundError:
            return False
        except StoreError:
            return True
        except OSError:
            return False
        if not head:
            return False
        # sqlite.org/fileformat2.html: the whole schema is in the first page, no changes are in another file.
        return head[:16] != _MAGIC or head[18:20] != b"\1\1" or head[100:] != b"\x0d" or size > _MOST_BYTES

    def _remove(self) -> None:
        for suffix in ("-journal", "-wal", "-shm", ""):
            with suppress(OSError):
                self._path.with_name(FILE + suffix).unlink()

    def _row(self, stamp: str, one: RunSummary) -> tuple[Any, ...]:
        problem = one.problem.replace(str(self._root), _ROOT)
        about = (one.kind, one.status, one.created, one.host, one.name, one.trials, one.invalid)
        return one.run_id, stamp, *about, problem, int(one.simulated), one.answer, one.unusable, one.device

    def _summary(self, row: Collection[Any]) -> RunSummary:
        """The inverse of :meth:`_row`; raises ``ValueError`` for other types."""
        if not all(map(isinstance, row, _KINDS)):
            raise ValueError("a column has another type")
        run_id, _, kind, status, created, host, name, trials, invalid, problem, simulated, *told = row
        about = (run_id, kind, status, created, host, name, trials, invalid)
        problem = problem and problem.replace(_ROOT, str(self._root))
        return RunSummary(*about, self._root, problem, bool(simulated), *told)


def note(run_path: Path) -> None:
    """Keep the summary of a run whose files will not change for now, if the index can be written."""
    with suppress(OSError, StoreError):
        fd = os.open(run_path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            now = stamp(fd, run_path.name)
        finally:
            os.close(fd)
        one, lasting = summary(run_path)
        if lasting:
            RunIndex(run_path.parent).write({one.run_id: (now, one)})


def _is_ready(connection: sqlite3.Connection, *, create: bool) -> bool:
    """Whether it has the table of this version, which is made in a new file if ``create``.

    Raises ``sqlite3.DatabaseError`` for what is no database, or is damaged.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_CELL_BYTES)
    # A killed writer may leave a damaged file, and never one to be rolled back by the next process.
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA trusted_schema = OFF")
    if create:
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
    schema = connection.execute("SELECT sql FROM sqlite_master").fetchmany(2)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if schema != [(_TABLE,)] or version != _VERSION:
        return False
    # This visits each page once, whereas a query follows pages that contain each other for ever.
    return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
