"""What a job is given beside what it is to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weirlab.jobs.progress import Progress
    from weirlab.store import Run, Store


@dataclass(frozen=True)
class Work:
    """The store for a job's run, and where it reports its progress."""

    store: Store
    progress: Progress
    command: str = ""
    """What the user typed."""
    begun: Run | None = None
    """The run that is gone on with; None for a new one."""
