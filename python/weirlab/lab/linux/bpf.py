"""Checks, with a tiny program, that this kernel has the BPF and XDP features that the engine needs."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

from weirlab.lab.linux import syscalls

NUMBERS: Final = {
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


def load(action: int = XDP_DROP) -> int:
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
    number = NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(0, f"cannot {what}: not tried on {platform.machine()}")
    size = 128
    buffer = ctypes.create_string_buffer(attributes, size)
    descriptor = syscalls.syscall(
        number, what, ctypes.c_long(command), ctypes.c_void_p(ctypes.addressof(buffer)), ctypes.c_long(size)
    )
    if command != _PROG_TEST_RUN:
        os.set_inheritable(descriptor, False)
    return descriptor
