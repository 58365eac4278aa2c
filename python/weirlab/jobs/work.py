"""The context of a job: the store for its run, and where it reports its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weirlab.base.files import NO_FILES, Inputs

if TYPE_CHECKING:
    from weirlab.jobs.progress import Progress
    from weirlab.scenario import Dut
    from weirlab.store import Run, Store


@dataclass(frozen=True)
class Work:
    """The store for a job's run, and where it reports its progress."""

    store: Store
    progress: Progress
    command: str = ""
    """What the user typed."""
    begun: Run | None = None
    """The run to resume; None for a new one."""
    inputs: Inputs = NO_FILES
    """Opens the files that the scenario or the command names."""
    name: str = ""
    """Of the run; empty: see :meth:`run_name`."""

    def run_name(self, what: str, dut: Dut, device: str) -> str:
        """The name of a run that is ``what``, e.g. "search of": by the user's file, or the ``device``."""
        return self.name or f"{what} {device if dut.file is None else dut.file.name}"
