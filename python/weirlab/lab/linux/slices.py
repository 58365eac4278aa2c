"""How long a running thread keeps its CPU before one that wakes may take it."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

from weirlab.lab.linux import syscalls

SHORTEST_NS: Final = 100_000
"""The shortest slice that the kernel grants."""

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
    """Give an ordinary thread the shortest slices, at its present nice value.

    When it wakes, it then takes the CPU from threads with longer slices, instead of waiting some milliseconds
    until they have used theirs up. Threads that it starts from now on inherit this. Linux before 6.12 ignores
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
    """The slices that a thread requested or was given; raises ``OSError``."""
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
