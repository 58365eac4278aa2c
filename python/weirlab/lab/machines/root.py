"""The virtual machine's root: programs with their libraries and modules, from unpacked packages."""

from __future__ import annotations

import lzma
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab.machines import qemu
from weirlab.lab.machines.machine import quote

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


_BINARIES: Final = ("bin", "sbin", "usr/bin", "usr/sbin")
_LIBRARIES: Final = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64")
_LOADER: Final = "ld-linux-x86-64.so.2"
_FOUND: Final = re.compile(r"=> (/\S+) \(0x")
_MERGED: Final = ("bin", "lib", "lib64", "sbin")
"""Links to the folders of the same name below usr, as in Debian (sbin is the same as bin here)."""
_BUSYBOX: Final = "busybox"


def released(unpacked: Path) -> str:
    """The kernel's release, from its modules."""
    found = [path.name for path in _modules(unpacked).glob("*")]
    if len(found) != 1:
        raise LabError(
            f"the kernel's package has modules of {len(found)} kernels instead of one: {quote(found)}"
        )
    return found[0]


def kernel(unpacked: Path) -> Path:
    """The kernel itself."""
    return unpacked / "boot" / f"vmlinuz-{released(unpacked)}"


def assemble(unpacked: Path) -> Archive:
    """The root as an archive.

    Raises
    ------
    LabError
        The packages lack something of the recipe.
    """
    archive = Archive()
    for name in _MERGED:
        archive.add_link(name, "usr/bin" if name == "sbin" else f"usr/{name}")
    archive.add_link("usr/sbin", "bin")
    for folder in ("dev", "proc", "run", "sys", "tmp"):
        archive.add_folder(folder)
    # The kernel opens it for the first process before that can mount anything.
    archive.add_character_device("dev/console", 5, 1)
    archive.add_file("init", qemu.INIT.read_bytes(), 0o755)
    for path in _programs(unpacked):
        archive.add_file(f"usr/bin/{path.name}", path.read_bytes(), 0o755)
        for library in _libraries(unpacked, path):
            folder = "lib64" if library.name == _LOADER else "lib"
            archive.add_file(f"usr/{folder}/{library.name}", library.read_bytes(), 0o755)
    for applet in _run([str(_program(unpacked, _BUSYBOX)), "--list"]).split():
        if f"usr/bin/{applet}" not in archive:
            archive.add_link(f"usr/bin/{applet}", _BUSYBOX)
    for path in sorted(unpacked.glob(qemu.DELAYS)):
        archive.add_file(str(path.relative_to(unpacked)), path.read_bytes())
    _add_modules(archive, unpacked)
    return archive


def closure(wanted: Iterable[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The existing modules of ``wanted`` and their dependencies, sorted; ``needs`` has these by module."""
    found: dict[str, None] = {}
    waiting = [name for name in wanted if name in needs]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = None
            waiting += needs[name]
    return sorted(found)


def module_name(path: str) -> str:
    """The modprobe name of ``kernel/net/ipv4/esp4.ko``: ``esp4``."""
    return path.rpartition("/")[2].partition(".")[0].replace("-", "_")


def _add_modules(archive: Archive, unpacked: Path) -> None:
    release = released(unpacked)
    source = _modules(unpacked) / release
    for path in sorted(source.rglob("*.ko.xz")):
        # BusyBox cannot read the dependencies of compressed modules.
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        path.unlink()
    _run([str(_program(unpacked, _BUSYBOX)), "depmod", "-b", str(unpacked), release])
    lines = [line.partition(":") for line in (source / "modules.dep").read_text().splitlines()]
    paths = {module_name(path): path for path, _, _ in lines}
    needs = {module_name(path): [module_name(each) for each in others.split()] for path, _, others in lines}
    built_in = {module_name(line) for line in (source / "modules.builtin").read_text().splitlines()}
    if lacking := [name for name in qemu.NEEDED if name not in needs and name not in built_in]:
        raise LabError(f"the kernel {release} has no {' and no '.join(lacking)}")
    chosen = closure(qemu.MODULES, needs)
    target = f"usr/lib/modules/{release}"
    for name in chosen:
        archive.add_file(f"{target}/{paths[name]}", (source / paths[name]).read_bytes())
    for name in ("modules.dep", "modules.alias", "modules.symbols"):
        text = (source / name).read_text()
        kept = [line for line in text.splitlines(keepends=True) if _about(line, name) in chosen]
        archive.add_file(f"{target}/{name}", "".join(kept).encode())
    archive.add_file(f"{target}/modules.builtin", (source / "modules.builtin").read_bytes())


def _about(line: str, table: str) -> str:
    """The module that a line of modules.dep, modules.alias or modules.symbols is about."""
    return module_name(line.partition(":")[0] if table == "modules.dep" else line.split()[-1])


def _modules(unpacked: Path) -> Path:
    merged = unpacked / "usr/lib/modules"
    return merged if merged.is_dir() else unpacked / "lib/modules"


def _programs(unpacked: Path) -> Iterator[Path]:
    for names in qemu.PROGRAMS.values():
        for name in names:
            yield _program(unpacked, name)


def _program(unpacked: Path, name: str) -> Path:
    return _found(unpacked, _BINARIES, name)


def _libraries(unpacked: Path, program: Path) -> list[Path]:
    """Libraries that the packages' loader would load for ``program``, including the loader; none if static.

    By the names that programs request, which are often links.
    """
    if program.name == _BUSYBOX:
        return []
    loader = _found(unpacked, _LIBRARIES, _LOADER)
    folders = ":".join(str(unpacked / folder) for folder in _LIBRARIES)
    listed = _run([str(loader), "--library-path", folders, "--list", str(program)])
    found = [Path(path) for path in _FOUND.findall(listed)]
    # It falls back to this machine's libraries for those that the packages lack.
    strange = [path.name for path in found if not path.is_relative_to(unpacked) and path.name != _LOADER]
    if strange or "not found" in listed:
        raise LabError(
            f"the packages lack libraries of {program.name}: {quote(strange or listed.splitlines())}"
        )
    return [loader, *(path for path in found if path.name != _LOADER)]


def _found(unpacked: Path, folders: Sequence[str], name: str) -> Path:
    for folder in folders:
        path = unpacked / folder / name
        if os.path.lexists(path):
            return _inside(unpacked, path)
    raise LabError(f"the packages have no {name}: the virtual machine's recipe does not fit this Debian")


def _inside(unpacked: Path, path: Path) -> Path:
    """``path``, or the target of an absolute link inside ``unpacked``."""
    if path.is_symlink() and os.path.isabs(target := os.readlink(path)):
        return unpacked / target.lstrip("/")
    return path


def _run(command: Sequence[str]) -> str:
    done = programs.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(f"{Path(command[0]).name} {command[1]} fails: {quote(said)}")
    return str(done.stdout)
