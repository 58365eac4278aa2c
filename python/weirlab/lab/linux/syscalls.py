"""System calls that Python 3.11 does not offer, as functions that raise ``OSError``."""

from __future__ import annotations

import ctypes
import os
from typing import Final

# Numbers above 423 are the same on every architecture.
_NR_FSOPEN: Final = 430
_NR_FSCONFIG: Final = 431
_NR_FSMOUNT: Final = 432

_CLONE_NEWNET: Final = 0x40000000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SHARED: Final = 1 << 20
_MNT_DETACH: Final = 2
_FSCONFIG_CMD_CREATE: Final = 6
_CLOEXEC: Final = 1
"""FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC."""

_libc = ctypes.CDLL(None, use_errno=True)


def unshare_net() -> None:
    """Move the calling thread into a new network namespace. Needs CAP_SYS_ADMIN."""
    _check(_libc.unshare(_CLONE_NEWNET), "unshare a network namespace")


def set_net(fd: int) -> None:
    """Move the calling thread into the network namespace behind ``fd``. Needs CAP_SYS_ADMIN."""
    _check(_libc.setns(fd, _CLONE_NEWNET), "enter a network namespace")


def bind_mount(source: str, target: str) -> None:
    """Bind-mount ``source`` at ``target``."""
    _check(_libc.mount(source.encode(), target.encode(), b"none", _MS_BIND, None), f"bind mount {target}")


def share_mount(path: str) -> None:
    """Let mounts below ``path`` propagate to other namespaces; ``EINVAL`` if it is not a mount point."""
    _check(_libc.mount(b"", path.encode(), b"none", _MS_SHARED | _MS_REC, None), f"share mount {path}")


def bind_recursively(path: str) -> None:
    """Turn the directory ``path`` into a mount point of itself."""
    _check(_libc.mount(path.encode(), path.encode(), b"none", _MS_BIND | _MS_REC, None), f"bind mount {path}")


def unmount(path: str) -> None:
    """Unmount ``path``, in use or not; ``EINVAL`` if there is none."""
    _check(_libc.umount2(path.encode(), _MNT_DETACH), f"unmount {path}")


def mount_sysfs() -> int:
    """A directory descriptor of /sys as the calling thread's network namespace sees it.

    The mount is not attached anywhere and ends with its descriptor, so there is no need to remove
    it and no mount namespace is needed. Linux 5.2.
    """
    context = syscall(_NR_FSOPEN, "open sysfs", ctypes.c_char_p(b"sysfs"), ctypes.c_long(_CLOEXEC))
    try:
        null = ctypes.c_void_p(None)
        syscall(
            _NR_FSCONFIG, "configure sysfs", ctypes.c_long(context), ctypes.c_long(_FSCONFIG_CMD_CREATE),
            null, null, ctypes.c_long(0),
        )  # fmt: skip
        return syscall(
            _NR_FSMOUNT, "mount sysfs", ctypes.c_long(context), ctypes.c_long(_CLOEXEC), ctypes.c_long(0)
        )
    finally:
        os.close(context)


def syscall(number: int, what: str, *arguments: ctypes.c_long | ctypes.c_void_p | ctypes.c_char_p) -> int:
    """Make the system call ``number``; ``what`` describes its purpose in the error."""
    return _check(int(_libc.syscall(ctypes.c_long(number), *arguments)), what)


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot {what}: {os.strerror(code)}")
    return result
