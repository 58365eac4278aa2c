"""The ready-made scenarios of all studies, and how a name becomes a file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.studies.registry import broken, entries

FOLDER: Final = "ready"
"""Folder with the ready-made scenarios of a study, next to its module."""


def paths() -> Mapping[str, Path]:
    """The files of all ready-made scenarios, by name."""
    known = entries().values()
    return {name: entry.folder / FOLDER / f"{name}.yaml" for entry in known for name in entry.ready}


def phrases() -> Mapping[str, str]:
    """What each is about, by name."""
    return {name: phrase for entry in entries().values() for name, phrase in entry.ready.items()}


def names() -> list[str]:
    """The names of all ready-made scenarios, in order."""
    return sorted(paths())


def find(wanted: Path) -> Path:
    """The scenario file that ``wanted`` means: a path, or the name of a ready-made scenario.

    An existing file takes precedence over a name; whether it is readable shows when it is read.

    Raises
    ------
    InputError
        There is neither; the message lists the names.
    """
    known = names()
    if str(wanted) in known and (wanted.is_dir() or not os.path.lexists(wanted)):
        path = paths()[str(wanted)]
        if not path.exists():
            raise InputError(
                f"the ready-made scenario {wanted} is missing: {path} does not exist; reinstall the package "
                "that it comes with"
            )
        return path
    try:
        wanted.stat()
    except (FileNotFoundError, NotADirectoryError):
        close = difflib.get_close_matches(wanted.stem, known, n=1)
        advice = f" (did you mean {close[0]!r}?)" if close else ""
        missing = "".join(f"; {why}" for why in broken())
        raise InputError(
            f"{files.shown(wanted)}: no such file, and no ready-made scenario has this name{advice}; "
            f"there are {listed()}{missing}"
        ) from None
    except OSError:
        pass  # Reading it will report the reason.
    return wanted


def listed() -> str:
    """The names as a phrase, for messages."""
    *most, last = names()
    return f"{', '.join(most)} and {last}"
