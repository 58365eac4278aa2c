"""Records what a tap, link or logger changes on this host, so that it can be undone even after ``kill -9``.

Each tap has a file in ``/run/weir/link``, locked with flock(2), with one line of JSON per change, written
before the change is made. A file whose lock can be taken has no living owner.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import EthtoolError, NoSuchDevice
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability, WeirError
from weirlab.base.files import shown
from weirlab.lab import clean as lab_clean
from weirlab.lab.isolation.groups import CgroupHierarchy
from weirlab.lab.linux import namespace
from weirlab.lab.linux.inventory import inside
from weirlab.lab.linux.syscalls import way_out
from weirlab.link.host import tools
from weirlab.link.host.tools import FAMILY, delete_ingress, delete_root, delete_table

DIRECTORY: Final = lab_clean.LOCKS / "link"

_IDENTIFIER: Final = re.compile(r"[0-9a-f]{8}")
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.02

Change = Mapping[str, Any]
"""``do`` (see ``_UNDO``), ``netns``, ``name`` and whatever else that kind needs."""


class Journal:
    """The changes of one tap, from construction to :meth:`undo`."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        """Choose a free identifier. Raises ``MissingCapability`` where ``directory`` cannot be written."""
        try:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            fd = None
            while fd is None:
                self.identifier = os.urandom(4).hex()
                self._path = directory / f"{self.identifier}.lock"
                fd = lab_clean.open_locked(self._path, os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise MissingCapability(
                f"changes to this host cannot be recorded in {directory}: {error.strerror}; {way_out(error)}"
            ) from error
        self._fd: int | None = fd
        self._changes: list[Change] = []
        self._keeper: programs.Program[bytes] | None = None

    def guard(self) -> None:
        """Let a process of its own undo the changes as soon as this one is gone, as after ``kill -9``.

        If that is killed, too, or before Linux 5.3, the next :func:`clean` does it.
        """
        try:
            life = os.pidfd_open(os.getpid())
        except OSError:
            return
        try:
            self._keeper = programs.start(
                programs.own("weirlab.link.host.keeper", str(life), str(self._path.parent)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[life],
                start_new_session=True,
            )
        finally:
            os.close(life)

    def note(self, do: str, netns: str | None, name: str, **more: object) -> None:
        """Remember how to undo a change; call it before making the change."""
        assert do in _UNDO
        assert self._fd is not None
        change = {"do": do, "netns": netns, "name": name, **more}
        self._changes.append(change)
        os.write(self._fd, (json.dumps(change) + "\n").encode())

    def claim(self, outputs: Mapping[str, Path], who: str) -> None:
        """Keep other sessions from writing ``outputs`` until :meth:`undo`.

        Each comes with the option that named it. Raises ``InputError``, naming the other session, if that is
        already writing one of them.
        """
        with lab_clean.alone(self._path.parent):
            taken = {(tuple(change["folder"]), change["file"]): change for change in self._others("output")}
            for option, path in outputs.items():
                if other := taken.get((_folder(path), path.name)):
                    raise InputError(
                        f"{option} {shown(path)}: {other['who']} (process {other['pid']}) is writing it; "
                        "choose another name, or end that one first"
                    )
            for path in outputs.values():
                place = {"folder": _folder(path), "file": path.name}
                self.note("output", None, str(path), **place, who=who, pid=os.getpid())

    def occupy(self, ends: Mapping[str, tuple[str | None, int]], who: str) -> None:
        """Keep other sessions from carrying frames between these interfaces until :meth:`undo`.

        ``ends`` has the name of each interface with its namespace (None: this one) and its index. Raises
        ``LabError``, naming the other session, if one already carries the frames of one of them.
        """
        places = {name: [*inside(netns, namespace.identity), index] for name, (netns, index) in ends.items()}
        with lab_clean.alone(self._path.parent):
            taken = {tuple(change["place"]): change for change in self._others("end")}
            for name, place in places.items():
                if other := taken.get(tuple(place)):
                    raise LabError(
                        f"{name}: {other['who']} (process {other['pid']}) carries its frames already, and "
                        "each frame would cross twice; end that one first"
                    )
            for name, place in places.items():
                self.note("end", None, name, place=place, who=who, pid=os.getpid())

    def _others(self, do: str) -> Iterator[Change]:
        """The changes of that kind of other living sessions."""
        for path in sorted(self._path.parent.glob("*.lock")):
            if path != self._path:
                yield from (change for change in _living(path) if change["do"] == do)

    def undo(self) -> tuple[str, ...]:
        """Undo all changes, the last one first. May be called twice.

        Returns, in words, what could not be undone; it stays recorded for the next :func:`clean`.
        """
        if self._fd is None:
            return ()
        failed = _undo(self._changes)
        _keep(self._path, failed)
        fd, self._fd = self._fd, None
        os.close(fd)
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
        return tuple(each.problem for each in failed)


def clean(tell: Callable[[str], None], directory: Path = DIRECTORY) -> list[str]:
    """Undo the changes of every tap whose owner is dead; returns the identifiers of those taps.

    What could not be undone stays recorded, and ``tell`` gets it in words. Such a tap is not among those
    returned, nor is a session that had changed nothing.
    """
    undone: list[str] = []
    for path in sorted(directory.glob("*.lock")):
        if not _IDENTIFIER.fullmatch(path.stem):
            continue
        try:
            fd = _locked(path)
        except OSError as error:
            raise MissingCapability(
                f"cannot tell whether a tap was left behind: {path}: {error.strerror}; {way_out(error)}"
            ) from error
        if fd is None:
            continue
        try:
            changes = _read(path)
            failed = _undo(changes)
            _keep(path, failed)
            for each in failed:
                tell(each.problem)
            if not failed and any(change["do"] not in ("output", "end") for change in changes):
                undone.append(f"weir-{path.stem}")
        finally:
            os.close(fd)
    return undone


def _locked(path: Path) -> int | None:
    """``path`` with its lock; None if its owner lives, or if another process has undone the changes.

    What a dead owner left is not touched before such a process is through with it.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while (fd := lab_clean.open_locked(path, 0)) is None and time.monotonic() < end_s:
        if not any(_is_gone(change["pid"]) for change in _read(path) if "pid" in change):
            break
        time.sleep(_LOOK_S)
    return fd


def _is_gone(pid: int) -> bool:
    """Whether the process has ended, and at most its parent has not noticed."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in ("Z", "X")


def dissolve_group(path: str) -> None:
    """Remove a control group; processes left in it move to its parent."""
    CgroupHierarchy(Path(path).parent, 2, "/").dissolve(Path(path).name)


def set_up(name: str, *, up: bool) -> None:
    """Set an interface up or down."""
    _change_link("set", name, state="up" if up else "down")


def delete_link(name: str) -> None:
    """Delete an interface that may be gone already."""
    _change_link("del", name)


def _change_link(command: str, name: str, **values: str) -> None:
    with IPRoute() as netlink:
        for index in netlink.link_lookup(ifname=name):
            netlink.link(command, index=index, **values)


@dataclass(frozen=True)
class _UndoAction:
    """How one kind of change is undone."""

    act: Callable[[Change], object]
    """Raises unless the change is gone."""
    left: str
    """What remains if it is not undone."""
    by_hand: str = ""
    """The command that does it."""


def _switch_back(change: Change) -> None:
    name, before = change["name"], change["before"]
    tools.switch_offloads(name, before)
    # A driver may refuse without an error.
    if left := tools.differing_offloads(name, before):
        raise LabError(f"the driver keeps {', '.join(left)}")


_UNDO: Final[Mapping[str, _UndoAction]] = {
    "features": _UndoAction(
        _switch_back, "its offloads are still set as the tap needed them", "ethtool -K {name} {features}"
    ),
    "up": _UndoAction(
        lambda change: set_up(change["name"], up=False), "it is still up", "ip link set dev {name} down"
    ),
    "ipv6": _UndoAction(
        lambda change: namespace.write_sysctls({f"net/ipv6/conf/{change['name']}/disable_ipv6": 0}),
        "IPv6 of this host is still switched off on it",
        "sysctl net/ipv6/conf/{name}/disable_ipv6=0",
    ),
    "bridge": _UndoAction(
        lambda change: delete_link(change["name"]), "the bridge may still be there", "ip link delete {name}"
    ),
    "table": _UndoAction(
        lambda change: delete_table(change["name"]),
        "the nftables table may still be there and go on copying the link's traffic",
        f"nft delete table {FAMILY} {{name}}",
    ),
    "netem": _UndoAction(
        lambda change: delete_root(change["name"]),
        "netem may still delay and drop what leaves through it",
        "tc qdisc del dev {name} root",
    ),
    "ingress": _UndoAction(
        lambda change: delete_ingress(change["name"]),
        "what arrives on it may still leave through the other end of the link",
        "tc qdisc del dev {name} ingress",
    ),
    "group": _UndoAction(
        lambda change: dissolve_group(change["name"]), "the control group may still be there", "rmdir {name}"
    ),
    "output": _UndoAction(lambda change: None, ""),
    "end": _UndoAction(lambda change: None, ""),
}


@dataclass(frozen=True)
class _UndoFailure:
    """A change that could not be undone."""

    change: Change
    problem: str


def _undo(changes: Sequence[Change]) -> list[_UndoFailure]:
    """Undo changes; returns those that could not be undone, in the order in which they were made."""
    failed: list[_UndoFailure] = []
    for change in reversed(changes):
        netns = change["netns"]
        if netns is not None and not (namespace.DIRECTORY / netns).exists():
            continue
        try:
            inside(netns, lambda change=change: _UNDO[change["do"]].act(change))  # type: ignore[misc]
        except (NoSuchDevice, FileNotFoundError):
            # The interface is gone, and the change with it.
            continue
        # Errors of pyroute2 are not OSErrors.
        except (OSError, NetlinkError, EthtoolError, WeirError) as error:
            failed.insert(0, _UndoFailure(change, _in_words(change, error)))
    return failed


def _in_words(change: Change, error: Exception) -> str:
    name, netns, undoing = change["name"], change["netns"], _UNDO[change["do"]]
    where = f" in namespace {netns}" if netns is not None else ""
    features = " ".join(
        f"{feature} {'on' if value else 'off'}" for feature, value in change.get("before", {}).items()
    )
    command = undoing.by_hand.format(name=shlex.quote(name), features=features)
    if netns is not None:
        command = f"ip netns exec {shlex.quote(netns)} {command}"
    return (
        f"{name}{where} could not be restored: {undoing.left} ({error}); the next weir tap, "
        f"weir log or weir lab clean tries again, or by hand: {command}"
    )


def _read(path: Path) -> list[Change]:
    """The changes noted in a file; none if it is gone by now."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    changes = []
    for line in lines:
        # The last line is incomplete if its writer was killed.
        with suppress(ValueError):
            changes.append(json.loads(line))
    return changes


def _living(path: Path) -> list[Change]:
    """The changes noted in a file whose owner is alive; none if it is dead."""
    try:
        fd = lab_clean.open_locked(path, 0)
        if fd is None:
            return _read(path)
        os.close(fd)
    except OSError:
        # The file is gone by now.
        pass
    return []


def _folder(path: Path) -> tuple[int, int]:
    """What identifies the folder of an output, however it was named."""
    found = path.parent.stat()
    return found.st_dev, found.st_ino


def _keep(path: Path, failed: Sequence[_UndoFailure]) -> None:
    """Keep in the file what could not be undone; remove the file if that is nothing."""
    if not failed:
        path.unlink(missing_ok=True)
        return
    lines = "".join(json.dumps(each.change) + "\n" for each in failed).encode()
    # In place, because the lock is on this file. If that fails, all lines stay and are undone again.
    with suppress(OSError), path.open("r+b") as file:
        file.write(lines)
        file.truncate()
