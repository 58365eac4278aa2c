"""Archives that the kernel unpacks as its first root: cpio in the format newc (initramfs.c in the kernel)."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Final

_MAGIC: Final = b"070701"
_ALIGN: Final = 4
_TRAILER: Final = "TRAILER!!!"


@dataclass(frozen=True)
class _Entry:
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


class Archive:
    """Files, links and devices by their paths, without a leading slash. Folders are added automatically."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def add_file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Add a regular file."""
        self._add(path, _Entry(stat.S_IFREG | mode, content))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(path, _Entry(stat.S_IFLNK | 0o777, target.encode()))

    def add_character_device(self, path: str, major: int, minor: int) -> None:
        """Add a character device that only root may use."""
        self._add(path, _Entry(stat.S_IFCHR | 0o600, device=(major, minor)))

    def add_folder(self, path: str) -> None:
        """Add a folder and its parents."""
        for folder in (*reversed(PurePosixPath(path).parents), PurePosixPath(path)):
            if str(folder) != ".":
                self._entries.setdefault(str(folder), _Entry(stat.S_IFDIR | 0o755))

    def write(self, file: BinaryIO) -> None:
        """The whole archive; the same entries always give the same bytes."""
        for number, (path, entry) in enumerate(self._entries.items(), 1):
            _write(file, number, path, entry)
        _write(file, 0, _TRAILER, _Entry(0))

    def _add(self, path: str, entry: _Entry) -> None:
        self.add_folder(str(PurePosixPath(path).parent))
        self._entries[path] = entry


def _write(file: BinaryIO, number: int, path: str, entry: _Entry) -> None:
    name = path.encode() + b"\0"
    major, minor = entry.device
    # Inode, mode, owner, group, links, time, size, device of the file system, of the file, name, checksum.
    fields = (number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, major, minor, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % value for value in fields)
    for part in (header + name, entry.content):
        file.write(part + bytes(-len(part) % _ALIGN))
