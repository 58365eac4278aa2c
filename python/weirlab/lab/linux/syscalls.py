"""System calls that Python 3.11 lacks, an XDP program that tries what is needed, and advice if refused."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weirlab.base.errors import LabError, MissingCapability

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

BPF_NUMBERS: Final = {
    "x86_64": 321,
    "aarch64": 280,
    "riscv64": 280,
    "loongarch64": 280,
    "s390x": 351,
    "ppc64le": 361,
    "armv7l": 386,
    "i686": 357,
}
"""Number of the system call bpf(), by architecture."""

_PROG_LOAD: Final = 5
_PROG_TEST_RUN: Final = 10
_LINK_CREATE: Final = 28
_TYPE_XDP: Final = 6
_ATTACH_XDP: Final = 37
_DRIVER_MODE: Final = 1 << 2
_LIVE_FRAMES: Final = 1 << 1

XDP_DROP: Final = 1


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


def load_xdp(action: int = XDP_DROP) -> int:
    """Load an XDP program that returns ``action``; gives its descriptor. Needs CAP_BPF and CAP_NET_ADMIN."""
    instructions = ctypes.create_string_buffer(
        struct.pack("=BBhi", 0xB7, 0, 0, action)  # r0 = action
        + struct.pack("=BBhi", 0x95, 0, 0, 0)  # exit
    )
    license_name = ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack(
        "=IIQQ", _TYPE_XDP, 2, ctypes.addressof(instructions), ctypes.addressof(license_name)
    )
    return _bpf(_PROG_LOAD, attributes, "load a BPF program")


def attach_native(program: int, interface_index: int) -> int:
    """Attach in native mode; returns a descriptor whose closing detaches it. Linux 5.9."""
    attributes = struct.pack("=IIII", program, interface_index, _ATTACH_XDP, _DRIVER_MODE)
    return _bpf(_LINK_CREATE, attributes, "attach an XDP program in native mode")


def run_live(program: int) -> None:
    """Run the program once on a frame that the kernel treats as if it came from a wire. Linux 5.18."""
    frame = ctypes.create_string_buffer(64)
    attributes = struct.pack(
        "=IIIIQQIIIIQQIII",
        *(program, 0, len(frame), 0),
        *(ctypes.addressof(frame), 0),
        *(1, 0, 0, 0),
        *(0, 0),
        *(_LIVE_FRAMES, 0, 0),
    )
    _bpf(_PROG_TEST_RUN, attributes, "run an XDP program on live frames")


def _bpf(command: int, attributes: bytes, what: str) -> int:
    number = BPF_NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(0, f"cannot {what}: not tried on {platform.machine()}")
    size = 128
    buffer = ctypes.create_string_buffer(attributes, size)
    descriptor = syscall(
        number, what, ctypes.c_long(command), ctypes.c_void_p(ctypes.addressof(buffer)), ctypes.c_long(size)
    )
    if command != _PROG_TEST_RUN:
        os.set_inheritable(descriptor, False)
    return descriptor


def effective_capabilities(proc: Path = Path("/proc")) -> int:
    """A bit for each capability of this process (capabilities(7))."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", (proc / "self/status").read_text(), re.M)
    return int(match[1], 16) if match else 0


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
