"""The right to open files that a user names, handed down from a command to whatever opens one.

A scenario may come from someone who may not read this host's files, such as a user of ``weir web``. Parsing
it opens nothing. What opens a file that it names gets an :class:`Inputs`, and opens nothing without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from weirlab.base.errors import InputError
from weirlab.base.files import reading
from weirlab.base.files.refusals import shown

T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """Opens files that a user names. ``refusal`` says why it opens none; empty: it opens them."""

    refusal: str = ""

    def open(self, path: Path, what: str) -> int:
        """As :func:`reading.open_file`."""
        return self._allowed(path, lambda: reading.open_file(path, what))

    def read_bytes(self, path: Path, what: str, limit: int) -> bytes:
        """As :func:`reading.read_bytes`."""
        return self._allowed(path, lambda: reading.read_bytes(path, what, limit))

    def read_text(self, path: Path, what: str, limit: int) -> str:
        """As :func:`reading.read_text`."""
        return self._allowed(path, lambda: reading.read_text(path, what, limit))

    def _allowed(self, path: Path, read: Callable[[], T]) -> T:
        if self.refusal:
            raise InputError(f"{shown(path)}: {self.refusal}")
        return read()


HOST_FILES: Final = Inputs()
"""Every file that this process may open: for what was typed on this host."""
NO_FILES: Final = Inputs("no file of this host may be opened here; start the scenario with weir run instead")
"""No file: for what came from elsewhere."""
