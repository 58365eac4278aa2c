"""Keeps the kernel from moving thousands of free pages at once while a test bed is open.

The sender takes a page for every packet on its CPU, and the page is freed on the device's. Each CPU has a
list of free pages. From a list that only grows, the kernel gives back more and more at once: up to 2,016
pages, and for some 200 µs the CPU does nothing else (``nr_pcp_free()`` in mm/page_alloc.c). A device would
seem to pause once in 2,000 packets. Short lists make these moves short: 252 pages at most.

The setting applies to the whole machine, so all labs share it: each holds a shared lock on the journal, in
which the first one noted the former value. Whoever finds that nobody else holds the lock restores it: the
last lab that closes or, after ``kill -9``, any later clean-up.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weirlab.base.interrupts import shielded

NAME: Final = "vm.percpu_pagelist_high_fraction"
"""Linux 5.14 or later."""
SETTING: Final = Path("/proc/sys") / NAME.replace(".", "/")
JOURNAL: Final = "pages"
"""Name of the journal in the folder of the labs' locks."""

_SHORTEST: Final = f"{2**31 - 1}\n".encode()
"""A list may hold one page of so many, but never less than four batches of 63."""


@contextmanager
@shielded
def short_lists(directory: Path, setting: Path = SETTING) -> Iterator[str | None]:
    """Keep the lists of free pages short until this context ends; yields why that is refused, or None."""
    journal = directory / JOURNAL
    fd, refused = None, None
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd = _hold(journal, setting)
    except OSError as error:
        refused = f"{error.filename or setting}: {error.strerror}"
    try:
        yield refused
    finally:
        if fd is not None:
            _let_go(fd, journal, setting)


@shielded
def give_back(directory: Path, setting: Path = SETTING) -> bool:
    """Restore the setting if the labs that changed it are gone; returns whether it was changed.

    Raises ``OSError`` if that is refused.
    """
    journal = directory / JOURNAL
    try:
        fd = os.open(journal, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    return _let_go(fd, journal, setting)


def _hold(journal: Path, setting: Path) -> int:
    while True:
        fd = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _is_ours_alone(fd) and _is_current(fd, journal):
                # If a dead lab's value still applies, its note tells the former one.
                if (now := setting.read_bytes()) != _SHORTEST or not _noted(fd):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, now, 0)
                setting.write_bytes(_SHORTEST)
            fcntl.flock(fd, fcntl.LOCK_SH)
            # Before the lock was shared, another process may have restored the setting.
            if _is_current(fd, journal) and _noted(fd):
                return fd
        except BaseException:
            _let_go(fd, journal, setting)
            raise
        os.close(fd)


def _let_go(fd: int, journal: Path, setting: Path) -> bool:
    """Restore the setting if nobody else needs it; returns whether it was changed."""
    try:
        if not (_is_ours_alone(fd) and _is_current(fd, journal)):
            return False
        # A value that somebody else has set since then is theirs to keep.
        restored = bool(former := _noted(fd)) and setting.read_bytes() == _SHORTEST
        if restored:
            setting.write_bytes(former)
        journal.unlink()
        return restored
    finally:
        os.close(fd)


def _is_ours_alone(fd: int) -> bool:
    """Lock the journal for this process alone, if no other holds it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(fd: int, journal: Path) -> bool:
    """Whether ``journal`` is still the file that is open as ``fd``."""
    try:
        return os.stat(journal).st_ino == os.fstat(fd).st_ino
    except FileNotFoundError:
        return False


def _noted(fd: int) -> bytes:
    return os.pread(fd, 32, 0)
