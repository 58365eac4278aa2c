"""The store: a folder with one folder per run."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from weirlab import interrupts
from weirlab.documents import plain
from weirlab.errors import StoreError
from weirlab.files import wait_for_lock
from weirlab.interrupts import shielded
from weirlab.quoting import quoted
from weirlab.records import SIMULATION
from weirlab.storage import RUN_ID, default_root, run_ids
from weirlab.store.completeness import is_empty, problem
from weirlab.store.files import telling
from weirlab.store.manifest import Manifest, host, kernel, versions
from weirlab.store.run import Run
from weirlab.store.writer import RunWriter

_BEGUN: Final = ".new"
"""Suffix of a new run's folder until its manifest is written; the name also begins with a dot."""
_NEWEST: Final = re.compile(r"last(?:~(\d{1,6}))?")
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class RunSummary:
    """One line about a run. ``problem`` says why it cannot be used; empty if it can."""

    run_id: str
    kind: str
    status: str
    """As in the manifest, or ``corrupt``."""
    created: str
    host: str
    name: str
    """The scenario's ``name``, empty without one."""
    trials: int | None
    invalid: int | None
    path: Path
    problem: str = ""
    simulated: bool = False
    """The device was simulated: nothing in the run was measured."""


def how_recent(run_id: str) -> int | None:
    """0 for ``last``, 1 for ``last~1``, the run before it, and so on; None for an ID."""
    match = _NEWEST.fullmatch(run_id)
    return int(match[1] or 0) if match else None


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
        self._most_table_bytes = most_table_bytes
        # This package has imported Polars.
        interrupts.catch_again()
        self._now = now

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
            self.root.mkdir(parents=True, exist_ok=True)
        with self._alone() as alone:
            if alone:
                self._sweep()
            while True:
                run_id = f"{created:%Y%m%d-%H%M%S}-{kind}-{secrets.token_hex(2)}"
                if not (self.root / run_id).exists():
                    return self._begin(replace(manifest, run_id=run_id))

    def resume(self, run_id: str) -> RunWriter:
        """Resume a run; takes what :meth:`open` takes. Refused while another process is writing it."""
        return RunWriter(self.open(run_id).path, self._now)

    def open(self, run_id: str, *, kind: str | Sequence[str] | None = None) -> Run:
        """The run with this ID, or with an ID that starts with it.

        ``last`` is the newest run, ``last~1`` the one before it. With ``kind``, only runs of that kind, or of
        those kinds, count. Raises ``StoreError`` if no run or several runs match, or if the run is damaged.
        """
        kinds = (kind,) if isinstance(kind, str) else kind
        names = [name for name in self._names() if kinds is None or _kind_of(name) in kinds]
        recent = how_recent(run_id)
        if recent is not None:
            fitting = [name for name in names if not is_empty(self.root / name)][recent : recent + 1]
        else:
            fitting = [name for name in names if name == run_id] or [
                name for name in names if run_id and name.startswith(run_id)
            ]
        if not fitting:
            what = f"{' or '.join(kinds)} run" if kinds else "run"
            wanted = f"no {what} yet" if recent == 0 else f"no {what} {quoted(run_id)}"
            raise StoreError(
                f"{wanted} in {self.root}; 'weir runs' lists what is there (--store DIR looks elsewhere)"
            )
        if len(fitting) > 1:
            shown = ", ".join(fitting[:5]) + (", ..." if len(fitting) > 5 else "")
            raise StoreError(
                f"{quoted(run_id)} matches {len(fitting)} runs in {self.root}: {shown}; give more of the ID"
            )
        run = Run(self.root / fitting[0], self._most_table_bytes)
        Manifest.load(run.path)
        return run

    def runs(self) -> list[RunSummary]:
        """All runs, newest first; damaged runs are listed with their problem."""
        return [self._summary(name) for name in self._names()]

    def _names(self) -> list[str]:
        """IDs, newest first."""
        with telling(self.root, "read the store"):
            found = run_ids(self.root)
        same_second = Counter(name[:15] for name in found)

        def order(name: str) -> tuple[str, str, str]:
            return name[:15], self._summary(name).created if same_second[name[:15]] > 1 else "", name

        return sorted(found, key=order, reverse=True)

    def _begin(self, manifest: Manifest) -> RunWriter:
        """Begin the run, so that other processes see it with its manifest or not at all."""
        begun = self.root / f".{manifest.run_id}{_BEGUN}"
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

    def _summary(self, name: str) -> RunSummary:
        path = self.root / name
        try:
            if is_empty(path):
                raise StoreError(f"nothing was written into {path}, the folder of a run; delete it")
            manifest = Manifest.load(path)
            if manifest.status != "running" and (wrong := problem(path, manifest.trials)):
                raise StoreError(wrong)
        except StoreError as error:
            return RunSummary(name, _kind_of(name), "corrupt", "", "", "", None, None, path, str(error))
        title = manifest.scenario.get("name") or ""
        return RunSummary(
            run_id=name,
            kind=manifest.kind,
            status=manifest.status,
            created=manifest.created,
            host=manifest.host,
            name=str(title),
            trials=manifest.trials,
            invalid=manifest.invalid,
            path=path,
            simulated=manifest.facts.get("lab") == SIMULATION,
        )


def _kind_of(name: str) -> str:
    match = RUN_ID.fullmatch(name)
    return match[1] if match else ""
