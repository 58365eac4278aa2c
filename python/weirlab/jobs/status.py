"""How far work in steps is, and what its workers do: kept in the run while it goes on, for whoever looks on.

A scheduler knows this only as long as it lives; the run knows it as long as there is a run.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from weirlab.base.errors import WeirError
from weirlab.store import Run, RunWriter
from weirlab.store.manifest import host, kernel

NAME: Final = "workers"
"""Of the JSON in the run's folder."""

_EVERY_S: Final = 1.0
_MOST_SHARE: Final = 0.02
"""Most of the time that writing may take."""

Activity = Literal["working", "idle", "unsuitable", "quarantined", "gone"]


@dataclass(frozen=True)
class WorkerStatus:
    """A worker as it was last heard of. Times are seconds since 1970, by the clock that the run has."""

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    """What it has, such as its kernel."""
    run_id: str = ""
    """The run that it works for, which may be another one; empty: none."""
    doing: str = ""
    """Which step."""
    since_s: float = 0.0
    until_s: float = 0.0
    """When its lease on the step ends; 0: never."""
    done: int = 0
    """Trials of the step, and how many it has."""
    total: int = 0
    steps: int = 0
    """What the run has of it: steps, those of them without a result, and trials."""
    failed: int = 0
    trials: int = 0
    seen_s: float = 0.0
    """Its last sign of life."""
    lacking: str = ""
    """What the run requires and it does not have; empty for nothing."""
    quarantine: str = ""
    """Why it measures nothing any more; empty if it does."""
    gone: bool = False

    @property
    def activity(self) -> Activity:
        """What it does, in a word."""
        if self.quarantine:
            return "quarantined"
        if self.gone:
            return "gone"
        if self.doing:
            return "working"
        return "unsuitable" if self.lacking else "idle"


@dataclass(frozen=True)
class WorkStatus:
    """How far the work is. Steps are done, failed for good, under way, or waiting."""

    at_s: float
    """When this was so."""
    done: int
    failed: int
    underway: int
    waiting: int
    left_s: float | None
    """Time that the rest takes, if the workers stay; None while that is not known."""
    workers: tuple[WorkerStatus, ...] = ()
    items: str = "step"
    """What the steps are called."""


def this_machine() -> WorkerStatus:
    """Without a cluster, this machine does the work."""
    return WorkerStatus(host(), {"kernel": kernel(), "machine": platform.machine()})


def rest_s(begun_s: float, ended: int, left: int) -> float | None:
    """How long ``left`` steps take if they go on as the ``ended`` ones have since ``begun_s`` (monotonic)."""
    return (time.monotonic() - begun_s) / ended * left if ended else None


def status_of(run: Run) -> WorkStatus | None:
    """The last status of ``run``; None if it keeps none, or a damaged one: it decides nothing."""
    with suppress(WeirError):
        return run.get_json(NAME, WorkStatus) if run.has(NAME) else None
    return None


class StatusKeeper:
    """Keeps what ``status`` says in the run of ``writer``, but not more often than is worth its time."""

    def __init__(self, writer: RunWriter, status: Callable[[], WorkStatus]) -> None:
        self._writer, self._status = writer, status
        self._next_s = 0.0

    def keep(self, *, at_once: bool = False) -> None:
        """Keep the status, if it is time to."""
        begun_s = time.monotonic()
        if begun_s < self._next_s and not at_once:
            return
        # A full disk ends the work when it next keeps a result.
        with suppress(WeirError):
            self._writer.put_json(NAME, self._status())
        took_s = time.monotonic() - begun_s
        self._next_s = begun_s + max(_EVERY_S, took_s / _MOST_SHARE)
