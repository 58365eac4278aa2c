"""Booting a guest from the user's disk image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weirlab.base.files import Inputs
from weirlab.lab.vm.qemu import Boot

_MAGIC: Final = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx"}
_LONGEST: Final = max(map(len, _MAGIC))
_MEMORY_MB: Final = 2048


def format_of(begin: bytes) -> str:
    """QEMU's name for the format of an image, from its first bytes; raw if they are unknown."""
    return next((name for magic, name in _MAGIC.items() if begin.startswith(magic)), "raw")


def boot(path: Path, inputs: Inputs) -> Boot:
    """Boot from the image, which is one file; what the guest writes is discarded.

    Raises ``InputError`` if it cannot be read, or may not be.
    """
    fd = inputs.open(path, "a disk image")
    try:
        begin = os.pread(fd, _LONGEST, 0)
    finally:
        os.close(fd)
    name = str(path.absolute()).replace(",", ",,")
    options = ["-drive", f"file={name},format={format_of(begin)},if=ide,snapshot=on"]
    return Boot(options, (path,), has_agent=False, memory_mb=_MEMORY_MB)
