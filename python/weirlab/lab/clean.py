"""Ownership of labs, and removal of those whose owner is gone.

Every lab has an identifier, namespaces (and control groups) named after it, a journal of the ports of this
machine that it has borrowed, and a lock file that its process locks with flock(2). The kernel releases the
lock however the process ends, so a lock that can be taken has no living owner.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.files import wait_for_lock
from weirlab.base.interrupts import shielded
from weirlab.lab.isolation import pages, partition
from weirlab.lab.isolation.partition import Isolation
from weirlab.lab.linux import namespace
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.syscalls import way_out
from weirlab.lab.wired import borrowing
from weirlab.lab.wired.borrowing import PortState

LOCKS: Final = Path("/run/weir")

_NAME: Final = re.compile(r"weir-(?P<lab>[0-9a-f]{8})-[a-z]+")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{8}")
_SCRATCH: Final = "weir-"
"""Prefix of the names of folders that belong to a lab."""
CONNECTION: Final = "ssh-"
"""Prefix of the names of folders with a shared connection, which are locked as long as they are in use."""


class LabOwnership:
    """The ownership of one lab, from construction to :meth:`release`."""

    @shielded
    def __init__(self, directory: Path = LOCKS) -> None:
        """Choose a free identifier and take its lock.

        Raises ``MissingCapability`` if ``directory`` cannot be written.
        """
        try:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            while True:
                identifier = secrets.token_hex(4)
                path = directory / f"{identifier}.lock"
                fd = open_locked(path, os.O_CREAT | os.O_EXCL)
                if fd is not None:
                    break
        except OSError as error:
            raise MissingCapability(
                f"cannot take ownership of a lab in {directory}: {error.strerror}; {way_out(error)}"
            ) from error
        self.identifier = identifier
        self._path = path
        self._journal = path.with_suffix(partition.JOURNAL)
        self._ports = path.with_suffix(borrowing.JOURNAL)
        self._isolation: Isolation | None = None
        self._fd: int | None = fd
        os.write(fd, f"{os.getpid()}\n".encode())

    def namespace_name(self, part: str) -> str:
        """Name of the namespace that plays ``part`` (``tx``, ``dut``, ``rx``)."""
        return f"weir-{self.identifier}-{part}"

    def own(self, folder: Path) -> None:
        """Have ``folder`` removed when a dead owner's lab is cleaned up."""
        assert self._fd is not None
        assert folder.name.startswith(_SCRATCH)
        os.write(self._fd, os.fsencode(folder.absolute()) + b"\0")

    def borrow(self, port: str, into: Namespace) -> PortState:
        """Move a port of this machine into a namespace of the lab, until :meth:`release`."""
        return borrowing.borrow(self._ports, port, into)

    def isolate(self, cpus: Iterable[int], spared: Iterable[int] = ()) -> None:
        """Isolate the measuring CPUs for this lab, if that is possible here; see ``isolation.partition``."""
        alone = not owners(self._path.parent, self._path)
        self._isolation = partition.make(self._journal, cpus, alone=alone, spared=spared)

    @property
    def isolation(self) -> Isolation | None:
        """Whether the measuring CPUs are isolated; None if that was not requested."""
        return None if self._isolation is None else partition.as_it_stands(self._isolation, self._journal)

    @shielded
    def release(self) -> None:
        """Remove everything named after the identifier, then release the lock. May be called twice.

        Raises ``LabError`` if a borrowed port could not be put back; everything else has been done then.
        """
        if self._fd is None:
            return
        _, is_empty = _remove_namespaces(self._path)
        # The kernel threads in it ended with their interfaces. What cannot be given back now is given back
        # later, by whichever process finds the lock file.
        if partition.give_back(self._journal) and is_empty:
            self._path.unlink(missing_ok=True)
        fd, self._fd = self._fd, None
        os.close(fd)
        if not is_empty:
            raise LabError("; ".join(stranded(self._path.parent, self._path.stem).values()))


@shielded
def clean(directory: Path = LOCKS) -> list[str]:
    """Remove every lab whose owner is dead; returns the names of the removed namespaces.

    Labs of living owners, and anything not named after a lab, are left alone; processes
    are never killed.
    """
    removed: list[str] = []
    for path in sorted(directory.glob("*.lock")):
        if not _IDENTIFIER.fullmatch(path.stem):
            continue
        try:
            fd = open_locked(path, 0)
        except OSError as error:
            raise MissingCapability(
                f"cannot tell whether a lab was left behind: {path}: {error.strerror}; {way_out(error)}"
            ) from error
        if fd is None:
            continue
        try:
            names, is_empty = _remove_namespaces(path)
            removed += names
            for folder in _folders(path):
                shutil.rmtree(folder, ignore_errors=True)
            if partition.give_back(path.with_suffix(partition.JOURNAL)) and is_empty:
                path.unlink(missing_ok=True)
        finally:
            os.close(fd)
    sweep_connections(directory)
    restore_settings(directory)
    return removed


def sweep_connections(directory: Path = LOCKS) -> None:
    """Remove the folders of connections whose process was killed; the connections ended with it."""
    for folder in directory.glob(f"{CONNECTION}*"):
        with suppress(OSError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)


def restore_settings(directory: Path = LOCKS) -> list[str]:
    """Restore what dead labs changed for the whole machine; returns the names of these settings."""
    try:
        return [pages.NAME] if pages.give_back(directory) else []
    except OSError as error:
        raise MissingCapability(
            f"cannot restore {pages.SETTING}, which a lab changed: {error.strerror}; {way_out(error)}"
        ) from error


def leftovers(directory: Path = LOCKS) -> list[str]:
    """Namespaces named like a lab's for which no lock exists, so they may be in use or not."""
    return [
        name
        for name in _namespaces()
        if (match := _NAME.fullmatch(name)) and not (directory / f"{match['lab']}.lock").exists()
    ]


@contextmanager
def alone(directory: Path = LOCKS) -> Iterator[None]:
    """Only one process of this machine at a time can be inside this context."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(fd)
        yield
    finally:
        os.close(fd)


def open_locked(path: Path, flags: int) -> int | None:
    """Open ``path`` and take its lock; None if another process holds it, or just made or removed it.

    Close-on-exec: a child that inherited the lock would keep a dead lab alive.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    except (FileNotFoundError, FileExistsError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed between open and lock; then the lock protects nothing.
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def owners(directory: Path = LOCKS, but: Path | None = None) -> list[int]:
    """The processes with an open lab, whose lock is not ``but``; 0 for one that cannot be told."""
    found = []
    for path in directory.glob("*.lock"):
        if path == but or not _IDENTIFIER.fullmatch(path.stem):
            continue
        try:
            fd = open_locked(path, 0)
            if fd is not None:
                os.close(fd)
                continue
            found.append(int(path.read_bytes().partition(b"\n")[0] or 0))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            found.append(0)
    return found


def borrower(port: str, directory: Path = LOCKS) -> int | None:
    """The process whose lab has borrowed a port called ``port``; None if there is none."""
    for path in directory.glob(f"*{borrowing.JOURNAL}"):
        if any(state["name"] == port for state in borrowing.states_in(path)):
            with suppress(OSError, ValueError):
                return int(path.with_suffix(".lock").read_bytes().partition(b"\n")[0])
    return None


def stranded(directory: Path = LOCKS, lab: str = "*") -> dict[str, str]:
    """Borrowed ports that could not be put back although their lab is gone: where each is, and what to do."""
    found = {}
    for path in sorted(directory.glob(f"{lab}{borrowing.JOURNAL}")):
        with suppress(OSError):
            fd = open_locked(path.with_suffix(".lock"), 0)
            if fd is None:
                continue
            os.close(fd)
            for state in borrowing.states_in(path):
                name, netns = state["name"], state["netns"]
                found[name] = (
                    f"{name} is still in the namespace {netns} of a run that has ended: another interface "
                    "has its name, or the namespace that it came from is gone. Rename that interface, then "
                    f"weir lab clean; or by hand: ip -n {netns} link set {name} netns 1"
                )
    return found


def _remove_namespaces(lock: Path) -> tuple[list[str], bool]:
    """Put borrowed ports back, then remove the namespaces of the lab with that lock: a veth would be deleted
    with its namespace. Returns the names of those removed, and whether that was all."""
    kept = {state["netns"] for state in borrowing.give_back(lock.with_suffix(borrowing.JOURNAL))}
    names = [name for name in _namespaces(lock.stem) if name not in kept]
    for name in names:
        Namespace(name).remove()
    return names, not kept


def _folders(path: Path) -> list[Path]:
    """The folders that a lab's owner noted in its lock file, after its process ID."""
    _, _, noted = path.read_bytes().partition(b"\n")
    found = [Path(os.fsdecode(name)) for name in noted.split(b"\0") if name]
    return [folder for folder in found if folder.name.startswith(_SCRATCH) and not folder.is_symlink()]


def _namespaces(identifier: str | None = None) -> list[str]:
    """Names of existing namespaces that belong to the lab ``identifier``, or to any lab."""
    try:
        names = os.listdir(namespace.DIRECTORY)
    except FileNotFoundError:
        return []
    return sorted(
        name
        for name in names
        if (match := _NAME.fullmatch(name)) and (identifier is None or match["lab"] == identifier)
    )
