"""The child process that carries out a scenario and reports on it in lines of JSON; see :mod:`.service`.

Its argument is the store. The line of standard input is the request. SIGINT, or the end of standard input,
ends it cleanly: finished trials are kept, and the test bed is removed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weirlab.base import interrupts
from weirlab.cli import quantities
from weirlab.cli.program import failures
from weirlab.jobs.inventory import show
from weirlab.jobs.progress import Left
from weirlab.store import RunWriter, Store
from weirlab.studies import runner
from weirlab.studies.commands import wording
from weirlab.studies.contract import Outcome
from weirlab.web.failures import explain
from weirlab.web.scenarios import asking
from weirlab.web.tables import for_page

_CHUNK_BYTES: Final = 1 << 16
COMMAND: Final = "weir web"
"""What manifests have instead of a command."""

Tell = Callable[..., None]


class _Progress:
    """``weirlab.jobs`` reports to it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def stage(self, title: str) -> None:
        self._tell("stage", title=title)

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        left = ""
        if left_s is not None and done < total:
            left = quantities.clocks(*left_s) if isinstance(left_s, tuple) else quantities.clock(left_s)
        self._tell("progress", done=done, total=total, what=what, left=left)

    def note(self, message: str) -> None:
        self._tell("note", text=message)


class _ReportingStore(Store):
    """A store that reports the ID of a scenario's run when it creates it."""

    def __init__(self, root: Path, kind: str, tell: Tell) -> None:
        super().__init__(root)
        self._kind = kind
        self._tell = tell

    @interrupts.shielded
    def create(
        self,
        kind: str,
        scenario: Mapping[str, Any],
        facts: Mapping[str, Any],
        *,
        calibration: str | None = None,
    ) -> RunWriter:
        writer = super().create(kind, scenario, facts, calibration=calibration)
        if kind == self._kind:
            self._tell("run", run_id=writer.run_id)
        return writer


def main(store: str) -> None:
    """Read the request, carry it out, and report the end."""
    tell = _teller()
    interrupts.catch()
    try:
        request = json.loads(_line())
        threading.Thread(target=_end_with_the_service, daemon=True).start()
        tell("done", **_carry_out(Path(store), request, tell))
    except BaseException as error:
        _explain(error, tell)
    interrupts.ignore()


def _carry_out(root: Path, request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    what = asking.understood(
        asking.ScenarioRequest(text=request["text"], name=request["name"], lab=request["lab"])
    )
    store = _ReportingStore(root, what.KEY, tell)
    if not (begun := str(request["run_id"])):
        started = runner.run_scenario(store, what, _Progress(tell), command=COMMAND, inputs=asking.INPUTS)
        return _result(started)
    if store.open(begun).manifest.status == "complete":
        # Only the report was missing, which the page draws on demand.
        conclusion = wording.run(show(store, begun))
        return {"run_id": begun, "conclusion": conclusion, "remark": "", "tables": [], "problem": ""}
    return _result(runner.resume_scenario(store, begun, _Progress(tell), inputs=asking.INPUTS))


def _result(outcome: Outcome[Any]) -> dict[str, Any]:
    told, problem = outcome.summary(), outcome.problem()
    return {
        "run_id": outcome.run.run_id,
        "conclusion": told.conclusion,
        "remark": told.remark,
        "tables": [for_page(table) for table in told.tables if not table.details],
        "problem": "" if problem is None else str(problem),
    }


def _explain(error: BaseException, tell: Tell) -> None:
    if interrupts.behind(error):
        stopped = error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt()
        tell("stopped", message=failures.explain(failures.InterruptCarrier(stopped)).message)
    else:
        tell("failed", message=explain(error).message)


def _teller() -> Tell:
    """A function that writes events to the original standard output; anything else printed is discarded."""
    target = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)

    def tell(event: str, **more: Any) -> None:
        # A service that is gone does not listen.
        with suppress(OSError):
            left = memoryview(json.dumps({"event": event, **more}).encode() + b"\n")
            while left:
                left = left[os.write(target, left) :]

    return tell


def _line() -> bytes:
    """The line of standard input, read without a buffer, whose lock would be in the way at the end."""
    read = bytearray()
    while not read.endswith(b"\n") and (chunk := os.read(0, _CHUNK_BYTES)):
        read += chunk
    return bytes(read)


def _end_with_the_service() -> None:
    """Standard input ends when the service does, however it ends."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main(*sys.argv[1:])
