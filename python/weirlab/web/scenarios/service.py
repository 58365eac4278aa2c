"""Scenarios from start to end: a queue, and a child process for the running one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from weirlab.base import files, limits
from weirlab.base.errors import InputError, WeirError
from weirlab.base.quoting import printable, shortened
from weirlab.scenario.model import Root
from weirlab.web import failures
from weirlab.web.children import write_line
from weirlab.web.failures import ForbiddenError
from weirlab.web.launching.jobs import ScenarioRunJob
from weirlab.web.launching.launcher import Launcher, Process, piped
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.measurements.space import Space
from weirlab.web.scenarios import asking

FILE: Final = "scenario.yaml"
"""The scenario in the folder of the measurement, as it was sent."""
RESULT: Final = "result.json"
MOST_TEXT_BYTES: Final = 4 * limits.MOST_BYTES
"""UTF-8 takes up to four bytes for a character."""
_LOOK_S: Final = 0.2
_GRACE_S: Final = 60.0
"""Time for removing a test bed."""
_MOST_NOTES: Final = 200
"""Most messages that are kept: the last ones."""


@dataclass(frozen=True)
class ScenarioProgress:
    """What the page shows of a scenario: ``done`` of ``total`` trials of the stage ``title``, and so on."""

    stage: str
    waiting: int = 0
    """The number of scenarios before this one."""
    title: str = ""
    done: int = 0
    total: int = 0
    what: str = ""
    left: str = ""
    """How much longer the stage takes."""
    notes: tuple[str, ...] = ()
    run_id: str = ""
    message: str = ""
    """Why it failed, or how it was stopped."""
    conclusion: str = ""
    remark: str = ""
    tables: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    """What makes the result invalid."""


@dataclass
class ScenarioJob:
    """A scenario that is waiting or running."""

    one: Measurement
    progress: ScenarioProgress
    taken: bool = False
    """It is no longer waiting."""
    cancelled: bool = False
    process: Process | None = None


@dataclass
class Scenarios:
    """Starts scenarios, one at a time, and keeps their results. Callable from any thread.

    ``bench`` is held while anything measures on this host.
    """

    launcher: Launcher
    measurements: Measurements
    space: Space
    allowed: bool
    bench: threading.Lock
    begun: int = 0
    failed: int = 0
    _jobs: list[ScenarioJob] = field(default_factory=list)
    """The running one first, then the waiting ones in order."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closing: bool = False
    _thread: threading.Thread | None = None

    def go_on(self) -> None:
        """Continue what an earlier service left: a run that was begun is resumed, not repeated."""
        if not self.allowed:
            return
        for one in self.measurements.all():
            if one.state.kind == "scenario" and one.state.stage in ("queued", "working"):
                one.advance(stage="queued")
                self._queue(one)

    def start(self, asked: asking.ScenarioRequest) -> Measurement:
        """Put a scenario into the queue.

        Raises
        ------
        ForbiddenError
            The service does not allow it.
        InputError
            The scenario cannot be carried out; with lines and columns.
        """
        self._require()
        what = asking.understood(asked)
        name = asked.name or what.name
        # What is kept of it beside its run takes less than a step.
        claim = self.space.claim(self.space.step)
        try:
            with self.measurements.created("scenario", what.name) as one:
                claim.cover(one)
                files.write_bytes(one.path / FILE, asked.text.encode())
                asks = {"name": name, "lab": asked.lab, "kind": what.KEY, "question": _in_a_line(what)}
                one.change(stage="queued", facts={"asked": asks, "run_id": ""})
        finally:
            claim.release()
        self._queue(one)
        return one

    def resume(self, one: Measurement) -> None:
        """Resume a scenario that was stopped: trials with a valid attempt are not repeated.

        Raises
        ------
        ForbiddenError, InputError
            The service does not allow it, or the scenario was not stopped.
        """
        self._require()
        self.measurements.require_writable()
        if one.state.stage != "stopped":
            raise InputError("Only a scenario that was stopped can be resumed.")
        one.change(stage="queued", message="")
        self._queue(one)

    def stop(self, one: Measurement) -> None:
        """End a scenario cleanly, or take it out of the queue.

        Raises
        ------
        InputError
            It is neither running nor waiting.
        """
        with self._changed:
            job = self._job(one)
            if job is None:
                raise InputError("This scenario is not running.")
            job.cancelled = True
            if not job.taken:
                self._end(job, "stopped", "It was cancelled before it began.")
                return
            job.progress = replace(job.progress, title="Stopping", left="", what="")
            _interrupt(job)

    def live(self, run_id: str) -> dict[str, Any]:
        """The progress of a run, and whether it can be stopped here: only if this service carries it out."""
        with self._changed:
            job = next((job for job in self._jobs if job.progress.run_id == run_id), None)
            told = asdict(ScenarioProgress("") if job is None else job.progress)
        names = ("title", "done", "total", "what", "left")
        return {"held": job is not None, **{name: told[name] for name in names}}

    def load(self) -> tuple[int, ScenarioProgress | None]:
        """How many scenarios wait, and the progress of the one under way."""
        with self._changed:
            taken = [job.progress for job in self._jobs if job.taken]
            return len(self._jobs) - len(taken), taken[0] if taken else None

    def of_run(self, run_id: str) -> Measurement:
        """The scenario that a run belongs to; raises ``InputError`` if it was not started from this page."""
        for one in self.measurements.all():
            if one.state.kind == "scenario" and one.state.facts.get("run_id") == run_id:
                return one
        raise InputError(f"Run {run_id} was not started from this page: stop it or resume it where it was.")

    def resumable(self, run_id: str) -> bool:
        """Whether :meth:`resume` goes on with a run."""
        with suppress(InputError):
            return self.allowed and self.of_run(run_id).state.stage == "stopped"
        return False

    def describe(self, one: Measurement) -> dict[str, Any]:
        """The progress of a scenario, or its result."""
        with self._changed:
            job = self._job(one)
            if job is not None:
                return asdict(replace(job.progress, waiting=self._jobs.index(job)))
        state = one.state
        kept = one.read(RESULT, dict) if one.has(RESULT) else {}
        return {
            **asdict(ScenarioProgress(state.stage)),
            **kept,
            "stage": state.stage,
            "message": state.message,
        }

    async def events(self, one: Measurement, closing: Callable[[], bool]) -> AsyncIterator[dict[str, Any]]:
        """What :meth:`told` returns, whenever it has changed, until the end."""
        last: dict[str, Any] | None = None
        while not closing():
            told = self.describe(one)
            if told != last:
                yield told
            last = told
            # If the service does not run scenarios, nothing changes any more.
            if told["stage"] not in ("queued", "working") or not self.allowed:
                return
            await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        """End the running scenario cleanly; the next service continues it and those that wait."""
        with self._changed:
            self._closing = True
            for job in self._jobs:
                _interrupt(job)
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_GRACE_S)
            for job in self._jobs:
                if job.process is not None:
                    job.process.kill()
            self._thread.join()

    def _require(self) -> None:
        if not self.allowed:
            raise ForbiddenError("This service may not start scenarios. Start it with: weir web --allow-run")

    def _job(self, one: Measurement) -> ScenarioJob | None:
        return next((job for job in self._jobs if job.one.data_id == one.data_id), None)

    def _queue(self, one: Measurement) -> None:
        with self._changed:
            notes = tuple(one.read(RESULT, dict).get("notes", ())) if one.has(RESULT) else ()
            progress = ScenarioProgress("queued", run_id=one.state.facts.get("run_id", ""), notes=notes)
            self._jobs.append(ScenarioJob(one, progress))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="weir-scenarios")
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._carry_out(job)
            except Exception as error:
                # A failure of one must not keep the next ones from running.
                self._end(job, "failed", failures.explain(error).message)
            finally:
                self.bench.release()

    def _next(self) -> ScenarioJob | None:
        """The next job, with the bench held, as soon as it is free; None if the service ends."""
        with self._changed:
            while not self._closing:
                if self._jobs and self.bench.acquire(blocking=False):
                    self._jobs[0].taken = True
                    return self._jobs[0]
                # A transfer that holds the bench does not notify.
                self._changed.wait(_LOOK_S if self._jobs else None)
            return None

    def _carry_out(self, job: ScenarioJob) -> None:
        state = job.one.advance(stage="working")
        self.begun += 1
        asked = state.facts["asked"]
        text = files.read_regular(job.one.path / FILE, MOST_TEXT_BYTES).decode()
        request = {
            "text": text,
            "name": asked["name"],
            "lab": asked["lab"],
            "run_id": state.facts["run_id"],
        }
        process, target, source = piped(self.launcher, ScenarioRunJob())
        with self._changed:
            job.process = process
            job.progress = replace(job.progress, stage="working", title=job.progress.title or "Beginning")
            if job.cancelled or self._closing:
                _interrupt(job)
        last: dict[str, Any] = {}
        with source, suppress(OSError), target:
            write_line(target, request)
            for line in source:
                # If the child was killed, its last line may be cut.
                with suppress(ValueError):
                    last = json.loads(line)
                    self._hear(job, last)
        self._conclude(job, last, process.wait())

    def _hear(self, job: ScenarioJob, event: dict[str, Any]) -> None:
        """Take an event of the child. It may quote what a user supplied, so it is only text here."""
        with self._changed:
            told = job.progress
            match event.get("event"):
                case "stage" if not job.cancelled:
                    told = replace(told, title=_text(event["title"]), done=0, total=0, what="", left="")
                case "progress" if not job.cancelled:
                    told = replace(
                        told,
                        done=int(event["done"]),
                        total=int(event["total"]),
                        what=_text(event["what"]),
                        left=_text(event["left"]),
                    )
                case "note":
                    told = replace(told, notes=(*told.notes, _text(event["text"]))[-_MOST_NOTES:])
                case "run":
                    told = replace(told, run_id=_text(event["run_id"]))
            job.progress = told
        if event.get("event") == "run":
            # From here on it can be resumed, whatever happens.
            job.one.advance(facts={**job.one.state.facts, "run_id": told.run_id})

    def _conclude(self, job: ScenarioJob, last: dict[str, Any], code: int) -> None:
        match last.get("event"):
            case "done":
                told = {name: last[name] for name in ("run_id", "conclusion", "remark", "problem")}
                job.progress = replace(job.progress, tables=tuple(last["tables"]), **told)
                self._end(job, "ready", "")
            case "stopped" if self._closing and not job.cancelled:
                self._end(job, "queued", "")
            case "stopped":
                self._end(job, "stopped", _text(last["message"]))
            case "failed":
                self._end(job, "failed", _text(last["message"]))
            case _ if self._closing and not job.cancelled:
                self._end(job, "queued", "")
            case _ if job.cancelled:
                # Interrupted before it could answer.
                self._end(job, "stopped", "It was stopped.")
            case _:
                said = f"The process that carried it out ended without an answer (exit code {code})."
                self._end(job, "failed", said)

    def _end(self, job: ScenarioJob, stage: str, message: str) -> None:
        job.progress = replace(job.progress, stage=stage, message=message, what="", left="", title="")
        self.failed += stage == "failed"
        one, told = job.one, job.progress
        with self._changed, suppress(WeirError):
            self._jobs.remove(job)
            facts = {**one.state.facts, "run_id": told.run_id, "conclusion": told.conclusion}
            one.advance(stage=stage, message=message, facts=facts)
            # If the disk is full, the run itself says how far it came.
            one.keep(RESULT, asdict(told))
            self.space.note(one)


def _interrupt(job: ScenarioJob) -> None:
    """As by Ctrl-C; the caller has the lock."""
    if job.process is not None and job.process.poll() is None:
        job.process.interrupt()


def _text(value: object) -> str:
    return "\n".join(map(shortened, printable(str(value)).split("\n")))


def _in_a_line(what: Root) -> str:
    return " ".join(what.question.split())
