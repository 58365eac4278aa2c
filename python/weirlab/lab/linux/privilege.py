"""Advice for when the kernel refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from weirlab.base.errors import LabError, MissingCapability


def way_out(error: OSError) -> str:
    """Advice for a refused system call; "run as root" only for other users."""
    if error.errno == errno.EROFS:
        return "mount it read-write, in a container for instance with --tmpfs /run"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room there"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "remove the file that is in the way of a folder"
    if os.geteuid() != 0:
        return "run as root"
    return "root lacks a privilege here; weir doctor says which"


@contextmanager
def explained(what: str) -> Iterator[None]:
    """While ``what`` is built, turn the kernel's errors into errors that say what to do."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except (OSError, NetlinkError) as error:
        # OSError becomes a PermissionError by its code.
        plain = OSError(error.code, os.strerror(error.code)) if isinstance(error, NetlinkError) else error
        if isinstance(plain, PermissionError):
            raise MissingCapability(f"{what} cannot be built: {plain.strerror}; {way_out(plain)}") from error
        raise LabError(f"{what} cannot be built: {error}; see weir doctor") from error
