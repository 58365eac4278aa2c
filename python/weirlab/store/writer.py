"""A run while it is being written."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import polars as pl

from weirlab.base.errors import StoreError
from weirlab.base.interrupts import behind, shielded
from weirlab.base.storage import SEARCH, searches
from weirlab.records import TrialRecord
from weirlab.store import index, tables
from weirlab.store.files import telling
from weirlab.store.lock import WriterLock
from weirlab.store.manifest import Manifest, Status
from weirlab.store.parquet import most_bytes
from weirlab.store.run import Run
from weirlab.store.summary import PARTS_DIR

_MOST_PARTS: Final = 500
"""So many are merged at once: whoever looks at a run that goes on reads every part."""
_FEW_PARTS: Final = 20
"""Fewer are read in less time than they are merged."""


class RunWriter:
    """Adds to one run; made by ``Store.create`` and ``Store.resume``.

    When :meth:`add` returns, the attempt is on disk, complete. As a context manager, it
    finishes the run as complete, as interrupted after Ctrl-C, or as failed after an error.
    """

    def __init__(self, path: Path, now: Callable[[], datetime], manifest: Manifest | None = None) -> None:
        """Begin the run in the folder ``path``, or resume it if ``manifest`` is None.

        Raises ``StoreError`` if another process is writing the run, or if it is damaged.
        """
        self._now = now
        self._lock = WriterLock(path)
        self._run = Run(path)
        try:
            tables.sweep(path)
            known = None if manifest is not None else self._run.trials()
            if known is not None:
                tables.check_merging(path, most_bytes())
                tables.drop_orphans(path, known["trial_id"], most_bytes())
            with telling(path / PARTS_DIR, "make the folder"):
                (path / PARTS_DIR).mkdir(exist_ok=True)
            begun = manifest or replace(Manifest.load(path), finished=None, trials=None, invalid=None)
            replace(begun, status="running").save(path)
        except BaseException:
            with suppress(OSError):
                # What is left of a disk that is full; not if there are parts.
                (path / PARTS_DIR).rmdir()
            self._lock.release()
            raise
        self._open = True
        self._parts = 0
        """Since the last merge."""
        self._valid: set[int] = set()
        self._prepared: set[int] = set()
        """Indices of trials that search for a load."""
        self._attempts: dict[int, int] = {}
        self.finished_beside = 0
        """Number of finished items that a study keeps in its own tables instead of as trials."""
        self.items = "valid attempt"
        """What a finished item is called."""
        if known is not None:
            for index, attempt, valid in known.select("index", "attempt", "valid").iter_rows():
                self._count(index, attempt, valid)
            self._prepared = set(known.filter(pl.col("role") == SEARCH)["index"])

    def move(self, path: Path) -> None:
        """Move the run to the folder ``path``, which must not exist, in one step."""
        with telling(path, "make the folder"):
            os.rename(self.path, path)
        self._run = Run(path)

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def path(self) -> Path:
        return self._run.path

    @property
    def run(self) -> Run:
        """The same run, for reading."""
        return self._run

    @property
    def done(self) -> set[int]:
        """Indices of trials that have a valid attempt."""
        return set(self._valid)

    @property
    def finished(self) -> int:
        """Number of items that need not be repeated, for messages; without searches that prepared the run."""
        mine = self._valid if searches(self.run_id) else self._valid - self._prepared
        return len(mine) + self.finished_beside

    @property
    def attempts(self) -> dict[int, int]:
        """By trial index, the highest attempt number so far."""
        return dict(self._attempts)

    @shielded
    def add(self, record: TrialRecord) -> None:
        """Keep one attempt; raises ``StoreError`` if it cannot be written, and then nothing of it stays."""
        if not self._open:
            raise StoreError(f"run {self.run_id} is finished; resume it to add trials")
        if record.run_id != self.run_id:
            raise ValueError(f"record of run {record.run_id!r} does not belong to {self.run_id!r}")
        if record.attempt <= self._attempts.get(record.index, 0):
            raise ValueError(f"attempt {record.attempt} of trial {record.index} is in the run already")
        tables.add_part(self.path, record)
        self._parts += 1
        if self._parts >= _MOST_PARTS:
            self._merge()
        self._count(record.index, record.attempt, record.valid)
        if record.role == SEARCH:
            self._prepared.add(record.index)

    @shielded
    def prepare_reading(self) -> None:
        """Make the next look at the whole run quick; call it while nothing is measured."""
        if self._parts > _FEW_PARTS:
            self._merge()

    def _merge(self) -> None:
        # Parts that cannot be merged now (a full disk) stay parts.
        with suppress(StoreError):
            tables.merge(self.path)
        self._parts = 0

    def has(self, name: str) -> bool:
        """Whether JSON is kept under ``name``."""
        return self._run.has(name)

    def get_json(self, name: str) -> Any:
        """The JSON kept under ``name``; :meth:`Run.get_json` can also decode it."""
        return self._run.get_json(name)

    @shielded
    def put_json(self, name: str, value: object) -> None:
        """Keep ``value`` under ``name``, replacing what was there."""
        self._run.put_json(name, value)

    @shielded
    def put_table(self, name: str, frame: pl.DataFrame) -> None:
        """Keep the table ``frame`` under ``name``, replacing what was there."""
        self._run.put_table(name, frame)

    @shielded
    def finish(self, status: Status = "complete") -> None:
        """Write the final manifest, merge the parts into tables, release the run; may be called twice.

        If this fails (a full disk), all attempts stay readable as parts.
        """
        if not self._open:
            return
        self._open = False
        try:
            manifest = Manifest.load(self.path)
            finished = self._now().isoformat(timespec="milliseconds")
            # Only now is it known which trials are invalid because the host was in another state.
            trials = self._run.trials()
            invalid = trials.height - int(trials["valid"].sum())
            replace(manifest, status=status, finished=finished, trials=trials.height, invalid=invalid).save(
                self.path
            )
            tables.compact(self.path)
            if status == "complete":
                self._run.keep_states()
        finally:
            self._lock.release()
        index.note(self.path)

    def _count(self, index: int, attempt: int, valid: bool) -> None:
        self._attempts[index] = max(attempt, self._attempts.get(index, 0))
        if valid:
            self._valid.add(index)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish("complete")
            return
        try:
            self.finish("interrupted" if error is not None and behind(error) else "failed")
        except StoreError as second:
            # The first error is the one that matters; on a full disk this one only repeats it.
            if error is not None:
                error.add_note(str(second))
