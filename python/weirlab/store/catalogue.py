"""The store: a folder with one folder per run."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weirlab.base import interrupts
from weirlab.base.documents import plain
from weirlab.base.errors import StoreError
from weirlab.base.files import wait_for_lock
from weirlab.base.interrupts import shielded
from weirlab.base.quoting import quoted
from weirlab.base.storage import RUN_ID, default_root, kind_of, run_ids
from weirlab.store.files import telling
from weirlab.store.index import Entry, RunIndex
from weirlab.store.labels import NO_LABEL, RunLabel, RunLabels
from weirlab.store.lock import WriterLock
from weirlab.store.manifest import Manifest, host, kernel, versions
from weirlab.store.summary import RunSummary, is_empty, stamp, summary

if TYPE_CHECKING:
    from weirlab.store.run import Run
    from weirlab.store.writer import RunWriter

_BEGUN: Final = ".new"
"""Suffix of a new run's folder until its manifest is written; the name also begins with a dot."""
_NEWEST: Final = re.compile(r"last(?:~(\d{1,6}))?")
_SECOND: Final = len("20261121-072500")
"""The beginning of an ID that tells the time, to the second."""
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*")


def how_recent(run_id: str) -> int | None:
    """0 for ``last``, 1 for ``last~1``, the run before it, and so on; None for an ID."""
    match = _NEWEST.fullmatch(run_id)
    return int(match[1] or 0) if match else None


def _labelled(run: RunSummary, labels: Mapping[str, RunLabel]) -> RunSummary:
    found = labels.get(run.run_id)
    return run if found is None else replace(run, label=found)


def _unless_gone(_: object, __: str, error: tuple[object, BaseException, object]) -> None:
    """A new run of another process may remove what is being removed."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Store:
    """The runs in one folder, which is created with the first run."""

    def __init__(
        self,
        root: Path | None = None,
        *,
        now: Callable[[], datetime] = utc_now,
        most_table_bytes: int | None = None,
    ) -> None:
        """``root`` defaults to :func:`default_root`; ``now`` gives the time in UTC.

        ``most_table_bytes`` is as for :class:`Run`.
        """
        self.root = default_root() if root is None else root
        self.labels = RunLabels(self.root)
        self._index = RunIndex(self.root)
        self._entries: dict[str, Entry] | None = None
        self._lock = threading.Lock()
        self._most_table_bytes = most_table_bytes
        self._now = now
        # Polars may have been imported by now.
        interrupts.catch_again()

    @shielded
    def create(
        self,
        kind: str,
        scenario: Mapping[str, Any],
        facts: Mapping[str, Any],
        *,
        calibration: str | None = None,
    ) -> RunWriter:
        """Begin a run; raises ``StoreError`` if the store cannot be written.

        ``scenario`` says what to test and ``facts`` describes the test bed; ``calibration`` is
        the ID of the calibration in force.
        """
        if not _KIND.fullmatch(kind):
            raise ValueError(f"not a kind of run: {kind!r}")
        created = self._now()
        manifest = Manifest(
            run_id="",
            kind=kind,
            status="running",
            created=created.isoformat(timespec="milliseconds"),
            scenario=plain(scenario),
            versions=versions(),
            host=host(),
            kernel=kernel(),
            calibration=calibration,
            facts=plain(facts),
        )
        with telling(self.root, "make the store"):
            is_new = not self.root.exists()
            self.root.mkdir(parents=True, exist_ok=True)
        try:
            with self._alone() as alone:
                if alone:
                    self._sweep()
                while True:
                    run_id = f"{created:%Y%m%d-%H%M%S}-{kind}-{secrets.token_hex(2)}"
                    if not (self.root / run_id).exists():
                        return self._begin(replace(manifest, run_id=run_id))
        except BaseException:
            if is_new:
                with suppress(OSError):
                    self.root.rmdir()
            raise

    def resume(self, run_id: str) -> RunWriter:
        """Resume a run; takes what :meth:`open` takes. Refused while another process is writing it."""
        from weirlab.store.writer import RunWriter

        return RunWriter(self.open(run_id).path, self._now)

    def open(self, run_id: str, *, kind: str | Sequence[str] | None = None) -> Run:
        """The run with this ID, or with an ID that starts with it.

        ``last`` is the newest run, ``last~1`` the one before it. With ``kind``, only runs of that kind, or of
        those kinds, count. Raises ``StoreError`` if no run or several runs match, or if the run is damaged.
        """
        from weirlab.store.run import Run

        # That has imported Polars.
        interrupts.catch_again()
        kinds = (kind,) if isinstance(kind, str) else kind
        names = [name for name in self._names() if kinds is None or kind_of(name) in kinds]
        recent = how_recent(run_id)
        if recent is not None:
            whole = (name for name in self._ordered(names) if not is_empty(self.root / name))
            fitting = list(islice(whole, recent, recent + 1))
        else:
            fitting = [name for name in names if name == run_id] or [
                name for name in names if run_id and name.startswith(run_id)
            ]
        if recent is not None and len(kinds or ()) != 1 and not self._names():
            raise StoreError(
                f"no run yet in {self.root}; 'weir trial' or 'weir run' makes the first (--store DIR looks "
                "elsewhere)"
            )
        if not fitting:
            what = f"{' or '.join(kinds)} run" if kinds else "run"
            wanted = f"no {what} yet" if recent == 0 else f"no {what} {quoted(run_id)}"
            raise StoreError(
                f"{wanted} in {self.root}; 'weir runs' lists what is there (--store DIR looks elsewhere)"
            )
        if len(fitting) > 1:
            shown = ", ".join(islice(self._ordered(fitting), 5)) + (", ..." if len(fitting) > 5 else "")
            raise StoreError(
                f"{quoted(run_id)} matches {len(fitting)} runs in {self.root}: {shown}; give more of the ID"
            )
        run = Run(self.root / fitting[0], self._most_table_bytes)
        Manifest.load(run.path)
        return run

    def runs(self) -> list[RunSummary]:
        """All runs, newest first; damaged runs are listed with their problem."""
        return self.known_runs(math.inf)[0]

    def known_runs(self, most_s: float) -> tuple[list[RunSummary], int]:
        """As :meth:`runs`, of what is known after ``most_s`` seconds of reading; the newest are read first.

        The second value is how many are left for later calls. Each call reads at least one.
        """
        with self._lock:
            names = sorted(self._names(), reverse=True)
            if self._entries is None:
                self._entries = self._index.read()
            self._renew(names, time.monotonic() + most_s)
            labels = self.labels.all()
            entries = [self._entries[name][1] for name in names if name in self._entries]
            found = [_labelled(one.now(), labels) for one in entries]
        found.sort(key=lambda one: (one.run_id[:_SECOND], one.created, one.run_id), reverse=True)
        return found, len(names) - len(found)

    @shielded
    def remove(self, run_id: str) -> None:
        """Remove a run, damaged or not, and its label for good.

        Raises ``StoreError`` if there is none with this ID, if a process is writing it, or if the store may
        not be changed.
        """
        path = self.root / run_id
        if not RUN_ID.fullmatch(run_id) or path.is_symlink() or not path.is_dir():
            raise StoreError(f"no run {quoted(run_id)} with a folder of its own in {self.root}")
        lock = WriterLock(path)
        try:
            # In one step for everybody else. What a killed process leaves, the next new run removes.
            gone = self.root / f".{run_id}{_BEGUN}"
            with telling(path, "delete"):
                os.rename(path, gone)
                shutil.rmtree(gone, onerror=_unless_gone)
        finally:
            lock.release()
        with suppress(StoreError):
            self.labels.put(run_id, NO_LABEL)

    def _renew(self, names: Collection[str], until_s: float) -> None:
        """Read the runs again whose files have changed since they were read; after ``until_s``, drop them."""
        assert self._entries is not None
        if not names and not self._entries:
            return
        changed: dict[str, Entry] = {}
        late = False
        with telling(self.root, "read the store"):
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                if late and name not in self._entries:
                    continue
                # Before the files are read: if they change meanwhile, they are read again the next time.
                now = stamp(fd, name)
                known = self._entries.get(name)
                if known is None or known[0] != now:
                    if late:
                        # What could not be read is kept: it would never be known otherwise.
                        if known is not None and known[0]:
                            del self._entries[name]
                        continue
                    late = time.monotonic() > until_s
                    found, lasting = summary(self.root / name)
                    if found.problem and not os.path.isdir(self.root / name):
                        # Another process has deleted it since it was found.
                        self._entries.pop(name, None)
                        continue
                    self._entries[name] = (now if lasting else "", found)
                    if lasting:
                        changed[name] = self._entries[name]
        finally:
            os.close(fd)
        removed = self._entries.keys() - set(names)
        for name in removed:
            del self._entries[name]
        if changed or removed:
            self._index.write(changed, removed)

    def _names(self) -> list[str]:
        """IDs, in no order."""
        with telling(self.root, "read the store"):
            return run_ids(self.root)

    def _ordered(self, names: Iterable[str]) -> Iterator[str]:
        """IDs, newest first. Those of the same second need a look at their manifests."""

        def created(name: str) -> tuple[str, str]:
            return summary(self.root / name)[0].created, name

        for _, group in groupby(sorted(names, reverse=True), lambda name: name[:_SECOND]):
            same = list(group)
            yield from same if len(same) == 1 else sorted(same, key=created, reverse=True)

    def _begin(self, manifest: Manifest) -> RunWriter:
        """Begin the run, so that other processes see it with its manifest or not at all."""
        begun = self.root / f".{manifest.run_id}{_BEGUN}"
        from weirlab.store.writer import RunWriter

        interrupts.catch_again()
        with telling(begun, "make the folder"):
            begun.mkdir()
        try:
            writer = RunWriter(begun, self._now, manifest)
            writer.move(self.root / manifest.run_id)
        except BaseException:
            shutil.rmtree(begun, ignore_errors=True)
            raise
        return writer

    def _sweep(self) -> None:
        """Remove the folders of runs whose writer was killed before the manifest was there."""
        for folder in self.root.glob(f".*{_BEGUN}"):
            if RUN_ID.fullmatch(folder.name[1:].removesuffix(_BEGUN)):
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Keep other processes from beginning a run in this store; yields False if that is not possible."""
        with telling(self.root, "read the store"):
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Not every network file system locks folders.
            try:
                wait_for_lock(fd)
                alone = True
            except OSError:
                alone = False
            yield alone
        finally:
            os.close(fd)
