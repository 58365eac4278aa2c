"""What was measured or uploaded here, each under its data ID.

Each measurement has a folder in ``web`` in the store: ``measurement.json`` says what it is and how far it has
come; the other files are its data. Anyone who knows a data ID may see the measurement; IDs cannot be guessed,
and there is no list of them.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from weirlab.base import files
from weirlab.base.documents import typed
from weirlab.base.errors import InputError, StoreError, WeirError
from weirlab.base.quoting import printable, shortened
from weirlab.store.files import load_json, write_json
from weirlab.web.launching.jobs import FOLDER

T = TypeVar("T")

Kind = Literal["capture", "transfer", "scenario"]
Stage = Literal["receiving", "queued", "working", "ready", "stopped", "failed", "removed"]

OVER: Final = ("ready", "failed", "stopped")
"""Stages of measurements that are not in progress."""
_STATE: Final = "measurement.json"
_DATA_ID: Final = re.compile(r"[0-9a-f]{32}")
_MOST_NAME: Final = 200
_MOST_STATE_BYTES: Final = 1_000_000


class UnknownMeasurement(InputError):
    """There is no measurement with this data ID."""


class RemovedMeasurement(InputError):
    """Its data was removed; the message says why."""


class ReadOnlyStore(StoreError):
    """The service may not write to its store."""


@dataclass(frozen=True)
class MeasurementState:
    """What a measurement is, and how far it has come."""

    data_id: str
    kind: Kind
    name: str
    created: str
    """ISO 8601, UTC."""
    stage: Stage = "receiving"
    message: str = ""
    """Why it failed, how it was stopped, or why it was removed."""
    size_bytes: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    """What a line about it shows."""
    born_s: float | None = None
    """When it was created, or first seen, by :class:`ElapsedTime`."""


class Measurement:
    """One measurement. Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._unsaved: MeasurementState | None = None

    @property
    def data_id(self) -> str:
        return self.path.name

    @property
    def state(self) -> MeasurementState:
        """The latest state; raises ``StoreError`` if the stored one is damaged."""
        if (unsaved := self._unsaved) is not None:
            return unsaved
        path, remedy = self.path / _STATE, f"delete {self.path}"
        kept = load_json(path, remedy, limit=_MOST_STATE_BYTES)
        try:
            state = typed(MeasurementState, kept)
            if datetime.fromisoformat(state.created).tzinfo is None:
                raise ValueError("its time has no zone")
        except ValueError as error:
            raise StoreError(f"{path} is damaged ({error}); {remedy}") from error
        return state

    def change(self, **changes: Any) -> MeasurementState:
        """Store the state with ``changes``, and return it; raises ``StoreError`` and then changes nothing."""
        with self._lock:
            changed = replace(self.state, **changes)
            write_json(self.path / _STATE, asdict(changed))
            self._unsaved = None
            return changed

    def advance(self, **changes: Any) -> MeasurementState:
        """As :meth:`change`; but if the disk is full, the state is kept in memory until :meth:`save`.

        For work whose end must be seen by those who wait for it. A service that begins anew repeats it.
        """
        with self._lock:
            self._unsaved = replace(self.state, **changes)
            changed = self._unsaved
        with suppress(StoreError):
            self.save()
        return changed

    def save(self) -> None:
        """Store a state that :meth:`advance` could not store; raises ``StoreError``."""
        with self._lock:
            if self._unsaved is not None:
                write_json(self.path / _STATE, asdict(self._unsaved))
                self._unsaved = None

    def held_bytes(self) -> int:
        """The size of its files in bytes."""
        return _bytes_in(str(self.path))

    def remove(self, message: str) -> None:
        """Remove its data; its state stays, with ``message``."""
        note_removal = partial(self.change, stage="removed", message=message, facts={}, size_bytes=0)
        try:
            note_removal()
        except WeirError:
            # A full disk has room for this once the data is gone.
            self.empty()
            note_removal()
        self.empty()

    def empty(self) -> None:
        """Remove every file but its state."""
        for path in self.path.iterdir():
            if path.name != _STATE:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str, kind: type[T]) -> T:
        """The JSON that :meth:`keep` stored under ``name``, which is a ``kind``: a dict or a list."""
        path, remedy = self.path / name, f"delete {self.path}"
        kept = load_json(path, remedy)
        if not isinstance(kept, kind):
            raise StoreError(f"{path} is damaged (not a {kind.__name__}); {remedy}")
        return kept

    def keep(self, name: str, value: object) -> None:
        write_json(self.path / name, value)


class Measurements:
    """All measurements of a store. ``elapsed_s`` is the time by which their age counts."""

    def __init__(
        self,
        root: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed_s: Callable[[], float | None] = lambda: None,
        *,
        read_only: bool = False,
    ) -> None:
        self.root = root
        # Without links, as those that read what is in it are confined to paths without.
        self.folder = Path(os.path.realpath(root / FOLDER))
        self.read_only = read_only
        self._now = now
        self._elapsed_s = elapsed_s
        self._known: dict[str, Measurement] = {}
        self._lock = threading.Lock()

    def require_writable(self) -> None:
        """Raise ``ReadOnlyStore`` if the service may not write to its store."""
        if self.read_only:
            raise ReadOnlyStore(
                "The service may not write to its store, so nothing can be uploaded, measured or drawn here."
            )

    @contextmanager
    def created(self, kind: Kind, name: str) -> Iterator[Measurement]:
        """A new measurement, discarded if the block fails. Only its owner may read its folder."""
        self.require_writable()
        data_id = secrets.token_hex(16)
        path = self.folder / data_id
        files.make_folder(self.folder)
        with files.telling(path, "make the folder"):
            path.mkdir(mode=0o700)
        one = Measurement(path)
        try:
            shown = shortened(printable(name).replace("\n", " ").replace("\t", " "), _MOST_NAME)
            created, born_s = self._now().isoformat(timespec="seconds"), self._elapsed_s()
            write_json(path / _STATE, asdict(MeasurementState(data_id, kind, shown, created, born_s=born_s)))
            with self._lock:
                self._known[data_id] = one
            yield one
        except BaseException:
            self.discard(one)
            raise

    def discard(self, one: Measurement) -> None:
        """Remove a measurement with its data ID."""
        with self._lock:
            self._known.pop(one.data_id, None)
        shutil.rmtree(one.path, ignore_errors=True)

    def open(self, data_id: str) -> Measurement:
        """The measurement with this data ID.

        Raises
        ------
        UnknownMeasurement
            There is none.
        RemovedMeasurement
            Its data was removed.
        """
        if not _DATA_ID.fullmatch(data_id) or not (self.folder / data_id / _STATE).is_file():
            raise UnknownMeasurement("There is no measurement with this data ID here.")
        one = self._remembered(data_id)
        if (state := one.state).stage == "removed":
            raise RemovedMeasurement(state.message)
        return one

    def all(self) -> Iterator[Measurement]:
        """All measurements, oldest first; damaged ones are left out."""
        found = []
        for path in self.folder.glob(f"*/{_STATE}"):
            if _DATA_ID.fullmatch(path.parent.name):
                one = self._remembered(path.parent.name)
                try:
                    found.append((one.state.created, one.data_id, one))
                except StoreError:
                    continue
        yield from (one for *_, one in sorted(found, key=lambda each: each[:2]))

    def _remembered(self, data_id: str) -> Measurement:
        with self._lock:
            return self._known.setdefault(data_id, Measurement(self.folder / data_id))


def _bytes_in(folder: str) -> int:
    found = 0
    # Any of it may be gone by now.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    found += _bytes_in(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    found += entry.stat(follow_symlinks=False).st_size
    return found
