"""What to do when the kernel refuses."""

from __future__ import annotations

import errno
import os


def way_out(error: OSError) -> str:
    """Advice for a refused system call; "run as root" only for those who are not."""
    if error.errno == errno.EROFS:
        return "mount it read-write, in a container for instance with --tmpfs /run"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room there"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "remove the file that is in the way of a folder"
    if os.geteuid() != 0:
        return "run as root"
    return "root lacks a privilege here; weir doctor says which"
