"""Where the commands of a device run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from weirlab.base.errors import LabError

Output = subprocess.CompletedProcess[str]


class UnreachableTarget(LabError):
    """A target cannot be reached, or no longer."""


class Target(Protocol):
    """A place where commands run, with the rights to change its rules."""

    @property
    def name(self) -> str:
        """For messages."""

    def run(self, argv: Sequence[str], stdin: str = "") -> Output:
        """Run a command to its end, in the C locale; a failure of the command itself shows in ``returncode``.

        Raises ``UnreachableTarget`` if the target does not answer, with the reason and what to do;
        ``MissingCapability`` if Weir lacks the rights there.
        """

    def check_login(self) -> None:
        """Raise ``UnreachableTarget`` if nobody could log in now. What is open already does not count."""

    def client(self) -> str:
        """The address that the login comes from, as the target sees it; empty if there is none."""

    def close(self) -> None:
        """End what was opened; may be called twice."""
