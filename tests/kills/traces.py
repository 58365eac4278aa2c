"""What one command made on this machine, found from outside: by its environment and its open files."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from weirlab.lab.linux import syscalls

MARK = "WEIR_KILLS"
_LOCKS = Path("/run/weir")
_NETNS = Path("/run/netns")
_LAB = re.compile(r"/run/weir/([0-9a-f]{8})\.lock")
_LINK = re.compile(r"/run/weir/link/([0-9a-f]{8})\.lock")
_NAMELESS = re.compile(r"/#\d+ \(deleted\)$")
_GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_PROGRAM = "anon_inode:bpf-prog"
_PROGRAM_ID = re.compile(r"^prog_id:\s*(\d+)$", re.M)
_PROGRAM_BY_NUMBER = 13
"""BPF_PROG_GET_FD_BY_ID of linux/bpf.h."""
_PATIENCE_S = 3.0
"""The kernel takes a BPF program away some time after its last descriptor."""


@dataclass
class Traces:
    """Of the command whose environment has ``mark``; others work on this machine at the same time."""

    mark: str
    labs: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    programs: set[int] = field(default_factory=set)
    """Numbers of BPF programs."""
    most_namespaces: int = 0
    writes: bool = False
    """A file has been seen that is being written and has no name yet."""

    def look(self, pid: int) -> None:
        """Note the locks that the process ``pid`` holds now, and whether it writes."""
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if match := _LAB.match(target):
                        self.labs.add(match[1])
                    elif match := _LINK.match(target):
                        self.links.add(match[1])
                    elif target == _PROGRAM:
                        text = Path(f"/proc/{pid}/fdinfo", entry.name).read_text()
                        self.programs.update(map(int, _PROGRAM_ID.findall(text)))
                    elif _NAMELESS.search(target):
                        self.writes = True
        self.most_namespaces = max(self.most_namespaces, len(self.namespaces()))

    def namespaces(self) -> list[str]:
        with suppress(OSError):
            return [name for name in os.listdir(_NETNS) if any(f"weir-{lab}-" in name for lab in self.labs)]
        return []

    def left(self) -> list[str]:
        """What is still there, in words."""
        found = [f"namespace {name}" for name in self.namespaces()]
        found += [f"lock {lab}" for lab in self.labs if (_LOCKS / f"{lab}.lock").exists()]
        found += [f"journal {link}" for link in self.links if (_LOCKS / "link" / f"{link}.lock").exists()]
        found += [f"control group {path}" for path in self._groups()]
        end_s = time.monotonic() + _PATIENCE_S
        while any(map(is_loaded, self.programs)) and time.monotonic() < end_s:
            time.sleep(0.01)
        found += [f"BPF program {number}" for number in self.programs if is_loaded(number)]
        return found + [f"process {pid}: {words}" for pid, words in self.processes()]

    def _groups(self) -> Iterator[Path]:
        for link in self.links:
            for mount in _GROUPS:
                yield from mount.glob(f"**/weir-psock-{link}")

    def processes(self) -> Iterator[tuple[int, str]]:
        """Living processes with the mark."""
        mark = f"{MARK}={self.mark}".encode()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                with suppress(OSError):
                    if mark in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                        words = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ")
                        if words:
                            yield int(entry), words.decode(errors="replace")[:120]


def is_loaded(program: int) -> bool:
    """Whether the kernel has a BPF program of this number."""
    attributes = ctypes.create_string_buffer(struct.pack("=III", program, 0, 0), 128)
    descriptor = ctypes.CDLL(None).syscall(
        syscalls.BPF_NUMBERS[os.uname().machine], _PROGRAM_BY_NUMBER, attributes, len(attributes)
    )
    if descriptor >= 0:
        os.close(descriptor)
    return bool(descriptor >= 0)


def scratch(folder: Path) -> list[str]:
    """Files that only a command at work has."""
    if not folder.exists():
        return []
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix in (".tmp", ".new") or path.name.startswith(("weir-monitor-", "weir-trace-"))
    )
