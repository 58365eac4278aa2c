"""Booting a guest from the user's disk image."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weirlab.errors import InputError
from weirlab.files import shown
from weirlab.lab.vm.qemu import Boot

_MAGIC: Final = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx"}
_LONGEST: Final = max(map(len, _MAGIC))
_MEMORY_MB: Final = 2048


def format_of(path: Path) -> str:
    """QEMU's name for the image's format, from its first bytes; raw if they are unknown.

    Raises ``InputError`` if there is no such file or it cannot be read.
    """
    try:
        if not path.is_file():
            raise InputError(f"the disk image {shown(path)} is not a file: --image FILE")
        with path.open("rb") as file:
            begin = file.read(_LONGEST)
    except OSError as error:
        raise InputError(f"the disk image {shown(path)} cannot be read: {error.strerror}") from error
    return next((name for magic, name in _MAGIC.items() if begin.startswith(magic)), "raw")


def boot(path: Path) -> Boot:
    """Boot from the image; what the guest writes is discarded."""
    name = str(path.absolute()).replace(",", ",,")
    options = ["-drive", f"file={name},format={format_of(path)},if=ide,snapshot=on"]
    return Boot(options, has_agent=False, memory_mb=_MEMORY_MB)
