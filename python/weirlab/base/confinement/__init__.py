"""Takes rights away from this process, for good, before it reads what strangers sent or serves them.

Each measure counts by itself, so that what a kernel or a container lacks does not cost the others:

``view``
    As root: a root file system with nothing but the files that the process needs.
``user``
    As root: another user, the owner of the folder that it writes to or one that nobody else is. The files
    that it needs belong to that user as it sees them, and stay their owner's on the disk.
``network``
    A network namespace without interfaces.
``capabilities``
    No capabilities, and none to be had by starting a program.
``files``
    Landlock: no files but its own, no signals to other processes.
``calls``
    seccomp: no system calls but those that its work needs.

``docs/security.md`` says which process has which, and what each needs of the kernel.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from weirlab.base import programs

Calls = Literal["all", "files", "drawing", "service"]

MEASURES: Final[Mapping[str, str]] = {
    "view": "a root file system of its own",
    "user": "a user of its own",
    "network": "no network",
    "capabilities": "no capabilities",
    "files": "no other files (Landlock)",
    "calls": "few system calls (seccomp)",
}
"""Each measure in words."""

_SYSTEM: Final = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone",
    "/sys/devices/system/cpu", "/dev/zero", "/dev/random", "/dev/urandom",
)  # fmt: skip
"""What programs of the system, and Python, read."""
_DEVICES: Final = ("/dev/null",)
"""What any program may write to."""
_USERS: Final = range(61184, 65520)
"""Numbers that distributions do not give to users; systemd gives them to services for the time that they run
(https://systemd.io/UIDS-GIDS)."""


@dataclass(frozen=True)
class Confinement:
    """What a process keeps besides the program that it is: files to ``read``, folders to ``write`` to, the
    ``network`` and some system ``calls``.

    It can ``read_as_owner`` what only their owner can read, if it has a view. Paths to write to have no links
    in them: whoever can replace a folder there would have others written to.

    ``view`` False: as root, it becomes another user without a root file system of its own, so that it must be
    able to use the files as they are.
    """

    read: tuple[Path, ...] = ()
    read_as_owner: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    network: bool = False
    calls: Calls = "files"
    view: bool = True


def enter(kept: Confinement, user: int | None = None) -> dict[str, str]:
    """Take all other rights away from this process; it must have one thread.

    Returns each measure with the reason why it is not in force; empty: it is. ``user`` to become as root;
    None: the owner of the first folder to write to, or one that nobody else is.

    Raises
    ------
    MissingCapability
        The process is neither as free as before nor confined: it must end.
    """
    from weirlab._engine import confine

    if os.geteuid() != 0:
        user = None
    elif user is None:
        user = next((path.stat().st_uid for path in kept.write), 0) or unused_user()
    report = confine(
        user=user,
        view=kept.view,
        read=[*_existing([*_SYSTEM, *programs.own_files(), *kept.read])],
        read_as_owner=[*_existing(kept.read_as_owner)],
        write=[*_existing([*_DEVICES, *kept.write])],
        network=kept.network,
        calls=kept.calls,
    )
    found = {measure: refusal or "" for measure, refusal in report}
    if user is None and os.geteuid() == 0:
        found["user"] = "this process can become no user but root here"
    return found


def tried() -> dict[str, str]:
    """What :func:`enter` returns here to a process that reads captures; another process tries it.

    Raises ``subprocess.SubprocessError``, ``OSError`` or ``ValueError`` if that process fails.
    """
    with TemporaryDirectory(prefix="weir-") as folder:
        command = programs.own(f"{__name__}.probe", os.path.realpath(folder))
        done = programs.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)["measures"]
    return found


def unused_user() -> int | None:
    """The number of a user that nobody is, at random; None if this process may become none."""
    taken = {entry.pw_uid for entry in pwd.getpwall()} | set(_running_users())
    free = [number for number in _USERS if number not in taken and _is_mapped(number)]
    return secrets.choice(free) if free else None


def _existing(paths: Iterable[str | Path]) -> Iterator[str]:
    yield from (str(path) for path in paths if os.path.exists(path))


def _running_users() -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):
                yield entry.stat().st_uid


def _is_mapped(number: int) -> bool:
    """Whether this process's user namespace has the user, which a container's may not."""
    try:
        lines = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except OSError:
        return False
    return any(int(first) <= number < int(first) + int(count) for first, _, count in lines)
