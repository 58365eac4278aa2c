"""What a list says of a run, read from its folder, and whether a run has all its attempts.

Nothing here imports Polars, which takes longer than listing all runs does.
"""

from __future__ import annotations

import html
import os
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from weirlab.base import files
from weirlab.base.errors import StoreError
from weirlab.base.quoting import printable, shortened
from weirlab.base.storage import kind_of
from weirlab.store import lock
from weirlab.store.labels import NO_LABEL, RunLabel
from weirlab.store.manifest import MANIFEST_FILE, Manifest

PARTS_DIR: Final = "parts"
"""Folder of a run with one file for each attempt, until they are merged."""
TRIALS: Final = "trials"


def table_file(run_path: Path, table: str) -> Path:
    return run_path / f"{table}.parquet"


def is_empty(run_path: Path) -> bool:
    """Whether this is a folder that an earlier version made for a run but wrote nothing into."""
    try:
        found = os.listdir(run_path)
        if PARTS_DIR in found:
            found += os.listdir(run_path / PARTS_DIR)
    except FileNotFoundError:
        return True
    except OSError:
        # What cannot be looked into may hold something.
        return False
    return all(name.startswith(".") or name == PARTS_DIR for name in found)


def shortage(run_path: Path, found: int, counted: int) -> str:
    """The problem if there are fewer attempts (``found``) than in the manifest (``counted``), or "".

    While there are parts, fewer are accepted: the user may have deleted a damaged one.
    """
    if found >= counted or (run_path / PARTS_DIR).is_dir():
        return ""
    path = table_file(run_path, TRIALS)
    what = f"holds {found} of the {counted}" if path.exists() else f"is missing, with all {counted}"
    return (
        f"{path} is damaged: it {what} attempts in the manifest; restore it from a copy or delete {run_path}"
    )


def problem(run_path: Path, counted: int | None) -> str:
    """What is wrong with the table of trials; "" if nothing. Raises ``StoreError`` if it is not a file."""
    if not counted or (run_path / PARTS_DIR).is_dir():
        return ""
    path = table_file(run_path, TRIALS)
    if not path.exists():
        return shortage(run_path, 0, counted)
    from weirlab import _engine

    try:
        with files.open_regular(path) as file:
            found, _ = _engine.parquet_extent(file.fileno(), set())
    except (OSError, ValueError) as error:
        return f"{path} is damaged ({error}); restore it from a copy or delete {run_path}"
    return shortage(run_path, found, counted)


REPORT: Final = "report.html"
"""The report in the folder of its run."""
SKETCH: Final = "sketch.png"
"""The first chart of the report, small."""
CORRUPT: Final = "corrupt"
RUNNING: Final = "running"

_ANSWER: Final = re.compile(r'<h1 id="answer-title">(.*?)</h1>', re.DOTALL)
_HEAD_BYTES: Final = 200_000
"""Bytes of a report that are searched: the answer comes before charts and scripts."""


@dataclass(frozen=True, slots=True)
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
    store: Path
    problem: str = ""
    simulated: bool = False
    """The device was simulated: nothing in the run was measured."""
    answer: str = ""
    """The sentence at the head of its report; empty without a report."""
    unusable: str = ""
    """Why it does not count; empty if it does, or if nothing judged that."""
    device: str = ""
    """The device under test; empty without one."""
    label: RunLabel = NO_LABEL
    """What people say about it."""

    @property
    def title(self) -> str:
        """The name that somebody gave it, or that of its scenario; empty without one."""
        return self.label.name or self.name

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.store / self.run_id

    def to_json(self) -> dict[str, Any]:
        """The document: all of this, with the folder of the run in place of the store's."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {("path" if name == "store" else name): value for name, value in found.items()} | {
            "path": self.path
        }

    def now(self) -> RunSummary:
        """This summary, with the state of a run whose writer was killed since then."""
        if self.status == RUNNING and not lock.is_held(self.path):
            return replace(self, status="interrupted")
        return self


def stamp(store_fd: int, run_id: str) -> str:
    """The state of the files that a summary depends on; it changes whenever one of them does.

    ``store_fd`` is a descriptor of the store's folder. Files that are added, replaced or removed change the
    time of the run's folder; the manifest and the table of trials may also be changed in place. Times are
    those of the last change of the inode (ctime), which cannot be set.
    """
    # The folder of a run may be a link.
    return " ".join(
        (
            _state(store_fd, run_id, True),
            _state(store_fd, f"{run_id}/{MANIFEST_FILE}", False),
            _state(store_fd, f"{run_id}/{TRIALS}.parquet", False),
        )
    )


def _state(store_fd: int, path: str, follow: bool) -> str:
    try:
        about = os.stat(path, dir_fd=store_fd, follow_symlinks=follow)
    except OSError:
        return ""
    return f"{about.st_ino:x}-{about.st_size:x}-{about.st_ctime_ns:x}"


def summary(path: Path) -> tuple[RunSummary, bool]:
    """The summary of the run in the folder ``path``, and whether it stays true as long as its files do.

    An error of the disk, or a missing right, may be gone the next time or for another user.
    """
    root = path.parent
    try:
        manifest = _stored(path)
        if manifest.status != RUNNING and (wrong := problem(path, manifest.trials)):
            raise StoreError(wrong)
    except StoreError as error:
        kind, lasting = kind_of(path.name), not isinstance(error.__cause__, OSError)
        return RunSummary(path.name, kind, CORRUPT, "", "", "", None, None, root, str(error)), lasting
    return (
        RunSummary(
            run_id=path.name,
            kind=_text(manifest.kind),
            status=manifest.status,
            created=_text(manifest.created),
            host=_text(manifest.host),
            name=_text(manifest.scenario.get("name") or ""),
            trials=manifest.trials,
            invalid=manifest.invalid,
            store=root,
            simulated=manifest.simulated,
            answer=answer_of(path),
            unusable=_text(manifest.refusal),
            device=_text(manifest.facts.get("dut") or ""),
        ),
        True,
    )


def _stored(path: Path) -> Manifest:
    """As :meth:`Manifest.stored`; the error for a folder without anything in it says that."""
    try:
        return Manifest.stored(path)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError) and is_empty(path):
            raise StoreError(f"nothing was written into {path}, the folder of a run; delete it") from None
        raise


def _text(value: Any) -> str:
    return shortened(printable(str(value)))


def answer_of(run_path: Path) -> str:
    """The sentence at the head of the run's report; empty without one."""
    try:
        with files.open_regular(run_path / REPORT) as file:
            found = _ANSWER.search(file.read(_HEAD_BYTES).decode(errors="replace"))
    except (OSError, StoreError):
        return ""
    return _text(" ".join(html.unescape(found[1]).split())) if found else ""
