"""``nft`` in the calling thread's namespace."""

from __future__ import annotations

import subprocess
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import LabError

FAMILY: Final = "netdev"
"""Family of the tables that are created and deleted here."""


def nft(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run nft; raises ``MissingCapability`` if it is not installed. A failure shows in ``returncode``."""
    return programs.run(["nft", *arguments], input=text, capture_output=True, text=True, errors="replace")


def delete_table(name: str) -> None:
    """Delete a table that may be gone already. Raises ``LabError`` if it may still be there."""
    deleted = nft("delete", "table", FAMILY, name)
    if deleted.returncode == 0:
        return
    listed = nft("list", "tables", FAMILY)
    if listed.returncode != 0 or f"table {FAMILY} {name}" in listed.stdout.splitlines():
        raise LabError(f"nft: {first_line(deleted)}")


def first_line(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of its standard error."""
    return next(iter(done.stderr.strip().splitlines()), "no reason given")
