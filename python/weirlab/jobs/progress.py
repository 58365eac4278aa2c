"""How jobs report their progress, and how an interruption reports what was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol

from weirlab.base.errors import TrialError
from weirlab.base.interrupts import behind, shielded
from weirlab.base.quantities import plural
from weirlab.measure import OnProgress, TrialProgress
from weirlab.measure.progress import trial_s
from weirlab.records import TrialRecord, TrialSpec
from weirlab.store import RunWriter

Left = float | tuple[float, float]
"""Time left in s; the least and the most if it is uncertain."""

UNSURE_RATIO: Final = 1.2
"""Ratio of the most to the least time left above which both are shown."""


class Progress(Protocol):
    """Receives a job's reports. Calls come between trials, never during one."""

    def stage(self, title: str) -> None:
        """A new part of the work begins."""

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        """``done`` of ``total`` trials of the stage are done, the rest takes ``left_s``; ``what`` is next."""

    def note(self, message: str) -> None:
        """Something the user should know that is no error."""


class SilentProgress:
    """Discards all reports."""

    def stage(self, title: str) -> None:
        pass

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        pass

    def note(self, message: str) -> None:
        pass


def passed_on(progress: Progress) -> OnProgress:
    """A callback for measurements that reports to ``progress``."""

    def tell(measured: TrialProgress) -> None:
        soonest_s, latest_s = measured.soonest_s, measured.latest_s
        unsure = latest_s > UNSURE_RATIO * soonest_s and measured.last is not None
        left: Left = (soonest_s, latest_s) if unsure else measured.left_s
        progress.advance(measured.done, measured.total, measured.text, left)

    return tell


def attempts_told(
    progress: Progress, spec: TrialSpec, max_attempts: int, index: int = 0, repetitions: int = 1
) -> Callable[[int, TrialRecord | None], None]:
    """A callback for a single trial that reports each attempt, and why it is repeated, to ``progress``.

    ``index`` counts its ``repetitions`` from 0.
    """
    which = f"repetition {index + 1}, " if repetitions > 1 else ""

    def tell(attempt: int, last: TrialRecord | None) -> None:
        if last is not None:
            progress.note(
                f"{which}attempt {last.attempt} does not count: {'; '.join(last.invalid)}; trying again"
            )
        done, total = (index, repetitions) if repetitions > 1 else (attempt - 1, max_attempts)
        progress.advance(
            done, total, f"{which}attempt {attempt}", trial_s(spec) * max(repetitions - index, 1)
        )

    return tell


class RunInterrupt(KeyboardInterrupt):
    """Ctrl-C, raised after every attempt so far is on disk; the test bed is removed as it propagates.

    ``kept`` counts ``items``; None if all are done and only the report is missing. ``resume`` is the
    command that continues the run; empty if the run is too short for one.
    """

    def __init__(self, run_id: str, kept: int | None, resume: str = "", items: str = "valid attempt") -> None:
        self.run_id = run_id
        self.kept = kept
        self.resume = resume
        what = f"run {run_id} is complete and kept"
        if kept is not None:
            what = f"{plural(kept, items)} kept in run {run_id}"
        way_on = f"; go on with: {resume}" if resume else ""
        super().__init__(f"interrupted; {what}{way_on}")


class EarlyStop(TrialError):
    """The host spoils almost everything; what was measured is kept, and ``resume`` continues from there."""

    def __init__(self, why: str, run_id: str, advice: str = "", resume: str = "") -> None:
        self.why = why
        self.advice = advice
        self.run_id = run_id
        self.resume = resume
        self.details = {"run_id": run_id, "resume": resume}
        way_on = f"; go on when the machine is quieter with: {resume}" if resume else ""
        super().__init__(f"stopped early: {why}. All attempts are kept in run {run_id}{way_on}{advice}")


RESUME: Final = "weir run --resume"
"""The command that resumes the run of a scenario; the run's ID follows."""


def prepared(writer: RunWriter, prepare: Callable[[RunWriter], object]) -> RunWriter:
    """``writer`` of a new run, after ``prepare`` has stored the initial content.

    If that fails, on a full disk for instance, the run is marked as failed and released.
    """
    with ExitStack() as failing:
        failing.push(writer)
        prepare(writer)
        failing.pop_all()
    return writer


completed: list[str] = []
"""IDs of the runs that this process has finished, which a later interruption does not affect."""


@contextmanager
@shielded
def kept(begin: Callable[[], RunWriter], resume: str = "") -> Iterator[RunWriter]:
    """Write the run that ``begin`` creates or resumes, and finish it however the block ends.

    Ctrl-C becomes :class:`RunInterrupt`; ``resume`` is the command that continues the run, without its ID.
    """
    writer = begin()
    try:
        with writer:
            try:
                yield writer
            except EarlyStop as error:
                # Nothing failed: the run can be resumed, as after an interruption.
                writer.finish("interrupted")
                raise EarlyStop(error.why, error.run_id, error.advice, f"{resume} {writer.run_id}") from None
    except BaseException as error:
        if not behind(error):
            raise
        way_on = f"{resume} {writer.run_id}" if resume else ""
        raise RunInterrupt(writer.run_id, writer.finished, way_on, writer.items) from error
    completed.append(writer.run_id)
