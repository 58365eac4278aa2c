"""The plans that come with Weir, each a YAML file beside this one, and how a name becomes a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.base.quantities import words

FOLDER: Final = Path(__file__).parent


def names() -> list[str]:
    """The names of all ready-made plans, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def shown(name: str) -> str:
    """What a command calls the plan in the file ``name``: a ready-made one by its own name."""
    path = Path(name)
    return path.stem if path.parent == FOLDER else name


def find(wanted: Path) -> Path:
    """The file that ``wanted`` means: a path, or the name of a ready-made plan.

    Raises
    ------
    InputError
        There is neither; the message lists the names.
    """
    if str(wanted) in names() and (wanted.is_dir() or not os.path.lexists(wanted)):
        return FOLDER / f"{wanted}.yaml"
    try:
        wanted.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{files.shown(wanted)}: no such file; plans that come with Weir are {words(names())}"
        ) from None
    except OSError:
        pass  # Reading it will report the reason.
    return wanted
