"""How jobs tell what they do, and how an interruption tells what was kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from weirlab.measure import OnProgress
from weirlab.measure import Progress as Measured
from weirlab.store import RunWriter


class Progress(Protocol):
    """What a job reports to. Calls come between trials, never during one."""

    def stage(self, title: str) -> None:
        """A new part of the work begins."""

    def advance(self, done: int, total: int, what: str = "", left_s: float | None = None) -> None:
        """``done`` of ``total`` trials of the stage are over, the rest takes ``left_s``; ``what`` is next."""

    def note(self, message: str) -> None:
        """Something the user should know that is no error."""


class Quiet:
    """Reports to nobody."""

    def stage(self, title: str) -> None:
        pass

    def advance(self, done: int, total: int, what: str = "", left_s: float | None = None) -> None:
        pass

    def note(self, message: str) -> None:
        pass


def passed_on(progress: Progress) -> OnProgress:
    """What measurements call, so that ``progress`` hears of it."""

    def tell(measured: Measured) -> None:
        progress.advance(measured.done, measured.total, measured.text, measured.left_s)

    return tell


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after finished trials are safe; the test bed goes on the way out.

    ``resume`` is the command that goes on from there; empty where a run is too short for it.
    """

    def __init__(self, run_id: str, kept: int, resume: str = "") -> None:
        self.run_id = run_id
        self.kept = kept
        self.resume = resume
        trials = "1 finished trial" if kept == 1 else f"{kept} finished trials"
        way_on = f"; go on with: {resume}" if resume else ""
        super().__init__(f"interrupted; {trials} kept in run {run_id}{way_on}")


@contextmanager
def kept(writer: RunWriter, resume: str = "") -> Iterator[None]:
    """Finish the run of ``writer`` however the block ends; Ctrl-C becomes :class:`Interrupted`."""
    try:
        with writer:
            yield
    except KeyboardInterrupt as error:
        raise Interrupted(writer.run_id, len(writer.done), resume) from error
