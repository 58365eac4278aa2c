"""Separates the service from its rights: a helper process keeps them, and this process gives them up.

The service keeps the Internet, the folder of measurements, index and labels of the store, and what zone
management needs. It reads the rest of the store.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weirlab.base import confinement, files
from weirlab.base.confinement import Confinement
from weirlab.base.errors import InputError, MissingCapability, StoreError, WeirError
from weirlab.base.quoting import quoted
from weirlab.store.index import FILE as INDEX
from weirlab.store.labels import FOLDER as LABELS
from weirlab.web.launching.jobs import FOLDER, ServiceFolders
from weirlab.web.launching.remote import RemoteLauncher
from weirlab.web.settings import VoiceSettings, WebSettings

USER: Final = "weir"
"""The user that the service becomes, if there is one."""
_READ: Final = ("/etc", "/proc", "/run/systemd/resolve")
"""What looking up names and the engine read, as any user may."""
_SOCKETS: Final = "/run/postgresql"
_SUFFIXES: Final = ("", "-journal", "-wal", "-shm")
"""Of the files that SQLite makes."""
_INCLUDE: Final = re.compile(rb'^\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class PrivilegeSeparation:
    """The helper, and which measures are in force: each with the reason why it is not, or nothing."""

    remote: RemoteLauncher
    measures: dict[str, str]

    def lacking(self) -> str:
        """The measures that are not in force, as root, with the reasons; empty for none."""
        if os.geteuid() != 0:
            return ""
        return "; ".join(
            f"not {confinement.MEASURES[name]} ({refusal})"
            for name, refusal in self.measures.items()
            if refusal
        )


def separate(
    settings: WebSettings, store: Path, user: str | None
) -> tuple[WebSettings, Path, PrivilegeSeparation]:
    """Start a helper, and give up all rights that the service does not need.

    Returns the settings and the store with the paths by which the service knows them. The process must have
    one thread.

    Raises
    ------
    InputError
        There is no such user, or only root can become it; as root, the plan's database shares its folder.
    MissingCapability
        The rights cannot be given up, ``user`` cannot be had, or the service could not write to the store.
    """
    root, voice = Path(os.path.realpath(store)), _real(settings.voice)
    wanted = _wanted(user)
    places = ServiceFolders(root, settings.allow_run, settings.allow_watch)
    # Otherwise, the service only shows what is there.
    with suppress(StoreError):
        files.make_folder(root / FOLDER)
        files.make_folder(root / LABELS)
    may_write = os.access(places.measurements, os.W_OK)
    with suppress(OSError):
        os.close(os.open(root / INDEX, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    needed = kept(places, voice)
    remote = RemoteLauncher.started(places)
    measures = confinement.enter(needed, wanted)
    if user is not None and (refusal := measures.get("user")):
        raise MissingCapability(f"--user {quoted(user)}: {refusal}; run weir web as that user")
    if may_write and not os.access(places.measurements, os.W_OK):
        raise MissingCapability(
            f"user {os.geteuid()} could not write to {places.measurements}; give that folder to the user, or "
            "run weir web as its owner"
        )
    return replace(settings, voice=voice), root, PrivilegeSeparation(remote, measures)


def kept(places: ServiceFolders, voice: VoiceSettings | None) -> Confinement:
    """What the service needs; raises ``InputError`` if the plan's database shares its folder."""
    return Confinement(
        read=(*map(Path, _READ), *_read(voice)),
        read_as_owner=(places.store, *_read_as_owner(voice)),
        write=tuple(_written(places, voice)),
        network=True,
        calls="service",
    )


def _wanted(name: str | None) -> int | None:
    """The number of the user to become; None: this one, or one that nobody else is."""
    if os.geteuid() != 0:
        if name is not None and name != pwd.getpwuid(os.geteuid()).pw_name:
            raise InputError(f"--user {quoted(name)}: only root can become another user")
        return None
    try:
        found = pwd.getpwnam(name or USER).pw_uid
    except KeyError:
        if name is not None:
            raise InputError(f"--user {quoted(name)}: there is no such user; see getent passwd") from None
        return confinement.unused_user()
    if found == 0:
        raise InputError(f"--user {quoted(name or USER)}: this is root; name another user")
    return found


def _real(voice: VoiceSettings | None) -> VoiceSettings | None:
    """With paths that do not depend on this process's folder or on links."""
    if voice is None:
        return None

    def real(path: str) -> str:
        return os.path.realpath(path) if path and "://" not in path else path

    return replace(voice, database=real(voice.database), zones=real(voice.zones), rndc=real(voice.rndc))


def _written(places: ServiceFolders, voice: VoiceSettings | None) -> Iterator[Path]:
    yield places.measurements
    if (labels := places.store / LABELS).is_dir() and not labels.is_symlink():
        yield labels
    index = places.store / INDEX
    with suppress(OSError):
        if stat.S_ISREG(index.lstat().st_mode):
            yield index
    if voice is None:
        return
    if "://" not in voice.database:
        database = Path(voice.database)
        if os.geteuid() == 0:
            _require_own_folder(database)
        yield database.parent
    if voice.zones:
        files.make_folder(Path(voice.zones))
        yield Path(voice.zones)


def _require_own_folder(database: Path) -> None:
    """SQLite makes files beside the database, so that the service may write to its whole folder."""
    names = {database.name + suffix for suffix in _SUFFIXES}
    with suppress(OSError):
        if others := sorted(set(os.listdir(database.parent)) - names):
            raise InputError(
                f"--voice {database}: as root, the database needs a folder of its own, which the service may "
                f"write to; this one also has {quoted(others[0])}. Move the database, or run weir web as its "
                "owner"
            )


def _read(voice: VoiceSettings | None) -> Iterator[Path]:
    if voice is not None and "://" in voice.database:
        yield Path(_SOCKETS)


def _read_as_owner(voice: VoiceSettings | None) -> Iterator[Path]:
    """The passwords of PostgreSQL; the configuration of rndc, and the keys that it includes."""
    if voice is None:
        return
    if "://" in voice.database:
        yield Path(os.environ.get("PGPASSFILE") or Path("~/.pgpass").expanduser())
    if not voice.rndc:
        return
    yield Path(voice.rndc)
    with suppress(OSError, WeirError):
        for name in _INCLUDE.findall(files.read_regular(Path(voice.rndc), 1_000_000)):
            yield Path(os.fsdecode(name))
