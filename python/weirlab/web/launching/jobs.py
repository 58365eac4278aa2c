"""Everything that the service has other processes do: a closed list, and which files each of them gets.

Whoever starts these processes need not trust the service. It names a measurement or a run, never a path; a
link in the place of a folder is refused, and what goes to standard input changes nothing about the rights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from weirlab.base import programs
from weirlab.base.documents import typed
from weirlab.base.storage import RUN_ID

FOLDER: Final = "web"
"""Folder of measurements in the store."""
SECRETS: Final = ("WEIR_WEB_TOKEN", "WEIR_TCP_TOKEN")
"""Variables of the environment that no other process needs."""
_DATA_ID: Final = re.compile(r"[0-9a-f]{32}")
_TAPES: Final = re.compile(r"tapes-[A-Za-z0-9_]{1,32}")
TARGET: Final = re.compile(r"[\w.:\[\]+][\w.:\[\]+-]{0,199}", re.ASCII)
"""Connections as ``weir tcp why`` takes them; never an option."""
_INTERFACE: Final = re.compile(r"[^\s/-][^\s/]{0,14}")
_READER: Final = {
    # Address space is limited, and every thread takes some of it.
    "POLARS_MAX_THREADS": "2",
    # The other engine sorts through files below /var/tmp, and waits for ever if it cannot write there.
    "POLARS_ENGINE_AFFINITY": "in-memory",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    # Its user is in no list of users, and libraries ask where it is at home.
    "HOME": "/nonexistent",
}


@dataclass(frozen=True)
class ServiceFolders:
    """Where the service keeps its files, and what it may do. ``store`` has no links in it."""

    store: Path
    may_run: bool = False
    """It may have scenarios carried out."""
    may_watch: bool = False
    """It may have connections of the host watched."""

    @property
    def measurements(self) -> Path:
        """The folder of all measurements. The operator may have made it a link; the service cannot."""
        return Path(os.path.realpath(self.store / FOLDER))

    def measurement(self, data_id: str) -> Path:
        """The folder of a measurement; raises ``ValueError`` for what is no data ID."""
        return self.measurements / _matching(_DATA_ID, data_id, "data ID")


class ProcessJob(Protocol):
    """Work of another process."""

    KIND: ClassVar[str]

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        """The command for a service that runs as ``user``; raises ``ValueError`` if it may not be."""

    def environment(self, places: ServiceFolders) -> dict[str, str]:
        """The environment of its process."""


class _FolderJob:
    """A process that is confined to one folder."""

    def environment(self, places: ServiceFolders) -> dict[str, str]:
        return programs.bare_environment(**_READER)


@dataclass(frozen=True)
class CaptureJob(_FolderJob):
    """Analyse an uploaded capture, or draw a part of it."""

    KIND: ClassVar[str] = "capture"
    data_id: str

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        return programs.own("weirlab.web.captures.child", str(places.measurement(self.data_id)))


@dataclass(frozen=True)
class TestReadingJob(_FolderJob):
    """Read the captures of a TCP test, in the folder ``tapes`` of its measurement."""

    KIND: ClassVar[str] = "test"
    data_id: str
    tapes: str

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        return programs.own("weirlab.web.transfers.child", str(self._folder(places)))

    def environment(self, places: ServiceFolders) -> dict[str, str]:
        return {**super().environment(places), "TMPDIR": str(self._folder(places))}

    def _folder(self, places: ServiceFolders) -> Path:
        return places.measurement(self.data_id) / _matching(_TAPES, self.tapes, "folder")


@dataclass(frozen=True)
class ReportJob(_FolderJob):
    """Draw the report of a run; it reads the whole store, as reports compare runs."""

    KIND: ClassVar[str] = "report"
    run_id: str

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        folder = places.store / _matching(RUN_ID, self.run_id, "run ID")
        return programs.own("weirlab.web.drawing", str(folder), str(places.store))


@dataclass(frozen=True)
class RemovalJob(_FolderJob):
    """Remove a run from the store."""

    KIND: ClassVar[str] = "removal"
    run_id: str

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        run_id = _matching(RUN_ID, self.run_id, "run ID")
        return programs.own("weirlab.web.changes", "remove", str(places.store), run_id)


@dataclass(frozen=True)
class InterruptionJob(_FolderJob):
    """Interrupt the process that writes a run, as Ctrl-C does."""

    KIND: ClassVar[str] = "interruption"
    run_id: str

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        run_id = _matching(RUN_ID, self.run_id, "run ID")
        return programs.own("weirlab.web.changes", "stop", str(places.store), run_id)


@dataclass(frozen=True)
class RecordingJob(_FolderJob):
    """Record the packets of connections of the service's own to ``port``."""

    KIND: ClassVar[str] = "recording"
    data_id: str
    tapes: str
    interface: str
    port: int
    most_bytes: int

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        folder = places.measurement(self.data_id) / _matching(_TAPES, self.tapes, "folder")
        interface = _matching(_INTERFACE, self.interface, "interface")
        if not (0 < self.port < 1 << 16 and 0 < self.most_bytes < 1 << 62):
            raise ValueError("the port or the size of the recording is out of range")
        numbers = (str(self.port), str(self.most_bytes), str(user))
        return programs.own("weirlab.web.transfers.recorder", str(folder), interface, *numbers)


@dataclass(frozen=True)
class ScenarioRunJob:
    """Carry out a scenario, which says what it is on its standard input."""

    KIND: ClassVar[str] = "scenario"

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        if not places.may_run:
            raise ValueError("this service may not start scenarios")
        return programs.own("weirlab.web.scenarios.child", str(places.store))

    def environment(self, places: ServiceFolders) -> dict[str, str]:
        return without_secrets()


@dataclass(frozen=True)
class WatchJob:
    """Watch connections of the host, and say why they are not faster."""

    KIND: ClassVar[str] = "watch"
    target: str

    def command(self, places: ServiceFolders, user: int) -> list[str]:
        if not places.may_watch:
            raise ValueError("this service may not show connections")
        target = _matching(TARGET, self.target, "connection")
        return programs.own("weirlab.web.transfers.watcher", target)

    def environment(self, places: ServiceFolders) -> dict[str, str]:
        return without_secrets()


_KINDS: Final[Mapping[str, type[ProcessJob]]] = {
    each.KIND: each
    for each in (
        CaptureJob,
        TestReadingJob,
        ReportJob,
        RemovalJob,
        InterruptionJob,
        RecordingJob,
        ScenarioRunJob,
        WatchJob,
    )
}


def document(job: ProcessJob) -> dict[str, Any]:
    """A job as plain data."""
    return {"kind": job.KIND, "about": asdict(job)}  # type: ignore[call-overload]


def job(kind: object, about: object) -> ProcessJob:
    """The inverse of :func:`document`; raises ``ValueError`` for anything else."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError("there is no job of this kind")
    return typed(_KINDS[kind], about)


def without_secrets() -> dict[str, str]:
    """The environment of programs without what only the service needs to know."""
    return {name: value for name, value in programs.environment().items() if name not in SECRETS}


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"this is no {what}")
    return text
