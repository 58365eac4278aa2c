"""What people say about runs: a name, a note, tags, a star. Kept beside the runs, in the folder ``labels``.

Nothing in a run's folder changes, so that what was measured stays as it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from weirlab.base import files
from weirlab.base.documents import typed
from weirlab.base.errors import InputError, StoreError
from weirlab.base.quoting import printable, quoted
from weirlab.base.storage import RUN_ID
from weirlab.store.files import load_json, telling, write_json

FOLDER: Final = "labels"
"""Folder of the store with a file for each run that has a label."""
MOST_NAME: Final = 200
"""Characters."""
MOST_NOTE: Final = 2000
MOST_TAG: Final = 40
MOST_TAGS: Final = 20
_MOST_BYTES: Final = 100_000


@dataclass(frozen=True, slots=True)
class RunLabel:
    """What people say about a run; empty for nothing. Texts must be printable: see :func:`label`."""

    name: str = ""
    """Shown in place of the scenario's name."""
    star: bool = False
    note: str = ""
    tags: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != NO_LABEL


NO_LABEL: Final = RunLabel()


def label(*, name: str = "", star: bool = False, note: str = "", tags: Iterable[str] = ()) -> RunLabel:
    """A label of texts that a user entered; tags lose their order and repetitions.

    Raises
    ------
    InputError
        A text is too long, there are too many tags, or a tag has a comma or is not one word.
    """
    words = tuple(sorted({tag.strip() for tag in tags} - {""}))
    for what, text, most in (("name", name, MOST_NAME), ("note", note, MOST_NOTE)):
        if len(text) > most:
            raise InputError(f"the {what} of a run has at most {most} characters, this one has {len(text)}")
    for word in words:
        if len(word) > MOST_TAG or "," in word or len(word.split()) != 1:
            raise InputError(
                f"{quoted(word)} is no tag: one word of at most {MOST_TAG} characters, without commas"
            )
    if len(words) > MOST_TAGS:
        raise InputError(f"a run has at most {MOST_TAGS} tags, not {len(words)}")
    return RunLabel(
        printable(" ".join(name.split())), star, printable(note.strip()), tuple(map(printable, words))
    )


class RunLabels:
    """The labels of the runs in the store ``root``. May be used by several threads."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER
        self._known: dict[str, tuple[tuple[int, int, int], RunLabel]] = {}
        self._lock = threading.Lock()

    def all(self) -> dict[str, RunLabel]:
        """The labels that there are, by run; a damaged one is left out."""
        with self._lock:
            known, self._known = self._known, {}
            for run_id, stamp in self._stamps():
                one = known.get(run_id)
                if one is None or one[0] != stamp:
                    with suppress(StoreError):
                        one = stamp, self._read(run_id)
                if one is not None:
                    self._known[run_id] = one
            return {run_id: found for run_id, (_, found) in self._known.items()}

    def one(self, run_id: str) -> RunLabel:
        """The label of a run, empty if it has none; raises ``StoreError`` if it is damaged."""
        try:
            return self._read(run_id)
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return NO_LABEL
            raise

    def put(self, run_id: str, found: RunLabel) -> None:
        """Keep the label of a run, atomically; an empty one is removed. Raises ``StoreError``."""
        path = self._path(run_id)
        if found:
            files.make_folder(self._folder)
            write_json(path, asdict(found))
        else:
            with telling(path, "delete"):
                path.unlink(missing_ok=True)

    def _stamps(self) -> list[tuple[str, tuple[int, int, int]]]:
        found = []
        # What cannot be read has no labels: runs are listed all the same.
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                run_id = entry.name.removesuffix(".json")
                if RUN_ID.fullmatch(run_id) and entry.name != run_id:
                    about = entry.stat(follow_symlinks=False)
                    found.append((run_id, (about.st_ino, about.st_size, about.st_ctime_ns)))
        return found

    def _read(self, run_id: str) -> RunLabel:
        path = self._path(run_id)
        kept = load_json(path, f"delete {path}", limit=_MOST_BYTES)
        try:
            return label(**asdict(typed(RunLabel, kept)))
        except (TypeError, ValueError, InputError) as error:
            raise StoreError(f"{path} is damaged ({error}); delete it") from error

    def _path(self, run_id: str) -> Path:
        if not RUN_ID.fullmatch(run_id):
            raise ValueError(f"not the ID of a run: {run_id!r}")
        return self._folder / f"{run_id}.json"
