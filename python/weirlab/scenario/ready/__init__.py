"""The ready-made scenarios, each a YAML file beside this one, and how a name becomes a file."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Final

from weirlab import files
from weirlab.errors import InputError

FOLDER: Final = Path(__file__).parent


def names() -> list[str]:
    """The names of all ready-made scenarios, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(wanted: Path) -> Path:
    """The scenario file that ``wanted`` means: a path, or the name of a ready-made scenario.

    A file that exists goes before a name; whether it can be read shows when it is.

    Raises
    ------
    InputError
        There is neither; the message lists the names.
    """
    known = names()
    if str(wanted) in known and (wanted.is_dir() or not os.path.lexists(wanted)):
        return FOLDER / f"{wanted}.yaml"
    try:
        wanted.stat()
    except (FileNotFoundError, NotADirectoryError):
        close = difflib.get_close_matches(wanted.stem, known, n=1)
        advice = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(
            f"{files.shown(wanted)}: no such file, and no ready-made scenario has this name{advice}; "
            f"there are {listed()}"
        ) from None
    except OSError:
        pass  # Whoever reads it says why it cannot be.
    return wanted


def listed() -> str:
    """The names, for people."""
    *most, last = names()
    return f"{', '.join(most)} and {last}"
