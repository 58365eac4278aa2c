"""What was changed on this host for a tap, so that it can be changed back, also after ``kill -9``.

Each tap has a file in ``/run/weir/link`` that it holds with flock(2), with one line of JSON per change,
written before the change is made. A file whose lock can be taken has no living owner.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import EthtoolError, NoSuchDevice
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.errors import LabError, MissingCapability
from weirlab.lab import clean as lab_clean
from weirlab.lab.linux import namespace
from weirlab.link.host import offloads
from weirlab.link.host.interfaces import inside

DIRECTORY: Final = lab_clean.LOCKS / "link"

_IDENTIFIER: Final = re.compile(r"[0-9a-f]{8}")

Change = Mapping[str, Any]
"""``do`` (see ``_UNDO``), ``netns``, ``name`` and what else it needs."""


class Journal:
    """The changes of one tap, from construction to :meth:`undo`."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        """Choose a free identifier. Raises ``MissingCapability`` where ``directory`` cannot be written."""
        try:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            fd = None
            while fd is None:
                self.identifier = os.urandom(4).hex()
                self._path = directory / f"{self.identifier}.lock"
                fd = lab_clean.open_locked(self._path, os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise MissingCapability(
                f"what is changed on this host cannot be noted in {directory}: {error.strerror}; run as root"
            ) from error
        self._fd: int | None = fd
        self._changes: list[Change] = []

    def note(self, do: str, netns: str | None, name: str, **more: object) -> None:
        """Remember how to undo a change; call it before making the change."""
        assert do in _UNDO
        assert self._fd is not None
        change = {"do": do, "netns": netns, "name": name, **more}
        self._changes.append(change)
        os.write(self._fd, (json.dumps(change) + "\n").encode())

    def undo(self) -> tuple[str, ...]:
        """Change everything back, the last change first. May be called twice.

        What could not be is returned, and stays noted for the next :func:`clean`.
        """
        if self._fd is None:
            return ()
        failed = _undo(self._changes)
        _keep(self._path, failed)
        fd, self._fd = self._fd, None
        os.close(fd)
        return tuple(each.problem for each in failed)


def clean(directory: Path = DIRECTORY, *, tell: Callable[[str], None] | None = None) -> list[str]:
    """Undo the changes of every tap whose owner is dead; their identifiers.

    What cannot be undone stays noted, and ``tell`` gets it in words; such a tap is not among those returned.
    Without ``tell`` it raises ``LabError`` with these words, after everything else has been undone.
    """
    undone: list[str] = []
    problems: list[str] = []
    for path in sorted(directory.glob("*.lock")):
        if not _IDENTIFIER.fullmatch(path.stem):
            continue
        try:
            fd = lab_clean.open_locked(path, 0)
        except OSError as error:
            raise MissingCapability(
                f"cannot tell whether a tap was left behind: {path}: {error.strerror}; run as root"
            ) from error
        if fd is None:
            continue
        try:
            changes = []
            for line in path.read_text().splitlines():
                # The last line of one that was killed while it wrote.
                with suppress(ValueError):
                    changes.append(json.loads(line))
            failed = _undo(changes)
            _keep(path, failed)
            problems += [each.problem for each in failed]
            if not failed:
                undone.append(f"weir-{path.stem}")
        finally:
            os.close(fd)
    if problems and tell is None:
        raise LabError("; ".join(problems))
    for problem in problems:
        if tell is not None:
            tell(problem)
    return undone


def set_up(name: str, *, up: bool) -> None:
    """Put an interface up or down."""
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=name)
        if found:
            netlink.link("set", index=found[0], state="up" if up else "down")


def delete_link(name: str) -> None:
    """Delete an interface that may be gone already."""
    with IPRoute() as netlink:
        found = netlink.link_lookup(ifname=name)
        if found:
            netlink.link("del", index=found[0])


def delete_table(name: str) -> None:
    """Delete a table of nftables that may be gone already."""
    subprocess.run(["nft", "delete", "table", "netdev", name], capture_output=True, check=False)


_UNDO: Final[Mapping[str, Callable[[Change], object]]] = {
    "features": lambda change: offloads.switch(change["name"], change["before"]),
    "up": lambda change: set_up(change["name"], up=False),
    "ipv6": lambda change: namespace.write_sysctls({f"net/ipv6/conf/{change['name']}/disable_ipv6": 0}),
    "bridge": lambda change: delete_link(change["name"]),
    "table": lambda change: delete_table(change["name"]),
}


@dataclass(frozen=True)
class _Failed:
    """A change that could not be undone."""

    change: Change
    problem: str


def _undo(changes: Sequence[Change]) -> list[_Failed]:
    """Those that could not be, in the order in which they were made."""
    failed: list[_Failed] = []
    for change in reversed(changes):
        netns = change["netns"]
        if netns is not None and not (namespace.DIRECTORY / netns).exists():
            continue
        try:
            inside(netns, lambda change=change: _UNDO[change["do"]](change))  # type: ignore[misc]
        except (NoSuchDevice, FileNotFoundError):
            # The interface has gone meanwhile, and the change with it.
            continue
        # Those of pyroute2 are no OSErrors.
        except (OSError, NetlinkError, EthtoolError) as error:
            problem = (
                f"{change['name']} could not be put back as it was ({change['do']}: {error}); the next "
                "weir tap, weir log or weir lab clean tries again"
            )
            failed.insert(0, _Failed(change, problem))
    return failed


def _keep(path: Path, failed: Sequence[_Failed]) -> None:
    """Leave what could not be undone for the next one; without that the file is done with."""
    if not failed:
        path.unlink(missing_ok=True)
        return
    lines = "".join(json.dumps(each.change) + "\n" for each in failed).encode()
    # In place, as the lock is on this very file. Where that fails all lines stay, and are undone once more.
    with suppress(OSError), path.open("r+b") as file:
        file.write(lines)
        file.truncate()
