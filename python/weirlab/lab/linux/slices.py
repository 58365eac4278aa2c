"""How long a thread that has the CPU keeps it before one that wakes may take it."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

from weirlab.lab.linux import syscalls

SHORTEST_NS: Final = 100_000
"""The least that the kernel grants."""

_NR_SCHED_SETATTR: Final = {
    "x86_64": 314,
    "aarch64": 274,
    "riscv64": 274,
    "loongarch64": 274,
    "s390x": 345,
    "ppc64le": 355,
    "armv7l": 380,
    "i686": 351,
}
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period."""


def shorten(thread: int) -> None:
    """Give an ordinary thread the shortest slices, at the nice value that it has.

    Where it wakes it then takes the CPU from threads with longer ones, rather than when these have used up
    theirs, some milliseconds. What it starts from now on inherits that. Before Linux 6.12 the kernel ignores
    it. Raises ``OSError``.
    """
    number = _NR_SCHED_SETATTR.get(platform.machine())
    if number is None:
        raise OSError(0, f"not tried on {platform.machine()}")
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    packed = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SHORTEST_NS, 0, 0)
    attributes = ctypes.create_string_buffer(packed)
    syscalls.syscall(
        number,
        "shorten the slices of a thread",
        ctypes.c_long(thread),
        ctypes.c_void_p(ctypes.addressof(attributes)),
        ctypes.c_long(0),
    )


def slice_ns(thread: int) -> int:
    """The slices that a thread asked for or was given; raises ``OSError``."""
    number = _NR_SCHED_SETATTR.get(platform.machine())
    if number is None:
        raise OSError(0, f"not tried on {platform.machine()}")
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.size)
    syscalls.syscall(
        number + 1,
        "ask for the slices of a thread",
        ctypes.c_long(thread),
        ctypes.c_void_p(ctypes.addressof(attributes)),
        ctypes.c_long(_ATTRIBUTES.size),
        ctypes.c_long(0),
    )
    return int(_ATTRIBUTES.unpack(attributes.raw[: _ATTRIBUTES.size])[5])
