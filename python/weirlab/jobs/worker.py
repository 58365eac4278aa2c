"""A worker of a cluster: it takes work from a scheduler, and does it in the main thread."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import queue
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.base.errors import InputError, LabError, TrialError
from weirlab.base.extras import CLUSTER
from weirlab.jobs.progress import Left, SilentProgress
from weirlab.store.manifest import versions

TESTBED: Final = "testbed"
ANALYSIS: Final = "analysis"
REPORT: Final = "weir"
"""What heartbeats call the report of a worker."""

_LOOK_S: Final = 0.5

dask: Any = CLUSTER.deferred("dask")
distributed: Any = CLUSTER.deferred("distributed")


def quiet() -> None:
    """Dask reports every worker that comes and goes; what a user should know, Weir says."""
    # Dask sets these levels when it is imported.
    _ = distributed.Client
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


_REQUIREMENT: Final = re.compile(r"([a-z][a-z0-9_-]*)(>=|<=|=|<|>)([^\s<>=]+)")


def parse_requirement(text: str) -> tuple[str, str, str]:
    """The parts of ``kernel>=6.1``; raises ``InputError``."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise InputError(f"{text}: write what a test bed must have as NAME=VALUE or NAME>=VALUE")
    return match[1], match[2], match[3]


def meets(facts: Mapping[str, str], requirement: str) -> bool:
    """Whether a worker with ``facts`` has what ``requirement`` says; versions compare by numbers."""
    name, sign, wanted = parse_requirement(requirement)
    if name not in facts:
        return False
    if sign == "=":
        return facts[name] == wanted
    known, least = ([int(part) for part in re.findall(r"\d+", text)] for text in (facts[name], wanted))
    known = known[: len(least)]
    compared = {">=": known >= least, "<=": known <= least, ">": known > least, "<": known < least}
    return compared[sign]


class MainThreadExecutor(Executor):
    """Runs what Dask submits in the main thread, where signals arrive and measurements belong."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.put((future, lambda: fn(*args, **kwargs)))
        return future

    def work_until(self, over: threading.Event) -> None:
        """Work until ``over``, and finish what was begun."""
        while not over.is_set():
            try:
                future, call = self._waiting.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except Exception as error:
                    future.set_exception(error)


@dataclass
class WorkerState:
    """What this process is as a worker."""

    name: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    worker: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    quarantine: str = ""
    """Why its test bed measures nothing any more."""
    step: WorkerStep | None = None
    """What it measures."""


@dataclass
class WorkerStep:
    """A step that a worker measures; times are seconds since 1970 by the worker's clock."""

    run_id: str
    """Of its campaign or sweep."""
    place: str
    begun_s: float
    lease_s: float
    """0: without a limit."""
    done: int = 0
    total: int = 0


STATE: Final = WorkerState()


def require_version(there: str) -> None:
    """Raise ``LabError`` if whoever sent the work has another version of Weir, ``there``."""
    if (own := versions()["weirlab"]) != there:
        raise LabError(f"the worker {STATE.name} has Weir {own}, and here is {there}; they must be the same")


def report() -> dict[str, Any]:
    """What this worker tells the scheduler with every heartbeat."""
    step = STATE.step
    found: dict[str, Any] = {"facts": STATE.facts, "quarantine": STATE.quarantine}
    # How long it has been at work: clocks differ.
    return found if step is None else {**found, **vars(step), "elapsed_s": time.time() - step.begun_s}


class StepProgress(SilentProgress):
    """Notes how many trials of the step are done."""

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        if STATE.step is not None:
            STATE.step.done, STATE.step.total = done, total


@contextmanager
def busy(run_id: str, place: str, lease_s: float = 0.0) -> Iterator[StepProgress]:
    """Report the step at ``place`` of a campaign or a sweep as what this worker does."""
    STATE.step = WorkerStep(run_id, place, time.time(), lease_s)
    try:
        yield StepProgress()
    finally:
        STATE.step = None


def retire(why: str) -> None:
    """Offer no test bed from this worker any more."""
    STATE.quarantine = why
    if STATE.worker is not None and STATE.loop is not None:
        asyncio.run_coroutine_threadsafe(STATE.worker.set_resources(**{TESTBED: 0}), STATE.loop).result(30)


@contextmanager
def lease(seconds: float) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C does, after ``seconds``; raises ``TrialError`` then."""
    expired = threading.Event()

    def end() -> None:
        expired.set()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if not expired.is_set():
            raise
        raise TrialError(f"not finished within its lease of {seconds:.0f} s") from None
    finally:
        timer.cancel()


def serve(
    url: str, security: Any, *, testbed: bool, tags: Mapping[str, str], tell: Callable[[str], object]
) -> None:
    """Work for the scheduler at ``url`` until Ctrl-C; look for it again if it dies."""
    quiet()
    # Dask samples stacks 100 times a second: a test bed has something else to do.
    dask.config.set({"distributed.worker.profile.enabled": False})
    STATE.name = f"{socket.gethostname()}-{os.getpid()}"
    STATE.facts = {"kernel": platform.release(), "machine": platform.machine(), **tags}
    while True:
        executor, over, failed = MainThreadExecutor(), threading.Event(), list[BaseException]()
        offered = {ANALYSIS: 1} if not testbed else {TESTBED: 0 if STATE.quarantine else 1}
        thread = threading.Thread(
            target=_in_background, args=(url, security, offered, executor, over, failed), daemon=True
        )
        thread.start()
        try:
            executor.work_until(over)
        except KeyboardInterrupt:
            if STATE.loop is not None and STATE.worker is not None:
                asyncio.run_coroutine_threadsafe(STATE.worker.close(executor_wait=False), STATE.loop)
            thread.join(5)
            raise
        tell(f"no scheduler at {url}{f' ({failed[0]})' if failed else ''}; looking for it again")
        time.sleep(2)


def _in_background(
    url: str,
    security: Any,
    offered: Mapping[str, float],
    executor: Executor,
    over: threading.Event,
    failed: list[BaseException],
) -> None:
    async def work() -> None:
        STATE.loop = asyncio.get_running_loop()
        worker = distributed.Worker(
            url,
            nthreads=1,
            name=STATE.name,
            resources=dict(offered),
            executor=executor,
            security=security,
            dashboard=False,
            memory_limit=0,
            death_timeout=30,
            metrics={REPORT: lambda _: report()},
        )
        async with worker:
            STATE.worker = worker
            await worker.finished()

    try:
        asyncio.run(work())
    except Exception as error:
        failed.append(error)
    finally:
        STATE.worker = None
        over.set()
