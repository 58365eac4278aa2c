"""From exceptions to a message, an exit code and, with ``--json``, an error document."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import typer
from typer.exceptions import TyperException

from weirlab.errors import WeirError

EXIT_CODES: Final = {
    0: "done",
    1: "unexpected error",
    2: "bad input: option, scenario, ruleset or file",
    3: "missing privilege, tool or kernel feature (see weir doctor)",
    4: "the test bed or the device under test does not work",
    5: "a trial failed or stayed invalid after every repetition",
    6: "the run store cannot be read or written, or has no such run",
    7: "the data do not determine the model, or the prediction extrapolates",
    130: "interrupted (Ctrl-C); 143: terminated",
}

REPEAT_S: Final = 2.0


@dataclass
class _Signals:
    number: int = signal.SIGINT
    at: float = float("-inf")


_last = _Signals()


def catch_signals() -> None:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does: test bed removed, finished trials kept.

    A signal must not cut the clean-up short that an earlier one began: shells and runners
    often deliver one Ctrl-C twice, and polars raises ``KeyboardInterrupt`` by itself before
    the handler runs. So signals are ignored within two seconds of another and as long as a
    ``KeyboardInterrupt`` is being handled.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    repeated = now - _last.at < REPEAT_S
    _last.number, _last.at = number, now
    if not repeated and not isinstance(sys.exception(), KeyboardInterrupt):
        raise KeyboardInterrupt


class Stopped(Exception):
    """Carries a ``KeyboardInterrupt`` past typer, which would swallow it."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        self.interrupt = interrupt


@dataclass(frozen=True)
class Failure:
    """What the user sees of an exception."""

    kind: str
    message: str
    exit_code: int
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        inner = {"kind": self.kind, "message": self.message, "exit_code": self.exit_code}
        return {"error": {**inner, **self.details}}


def explain(error: BaseException) -> Failure:
    """Kind, message and exit code of ``error``."""
    match error:
        case Stopped(interrupt=interrupt):
            from weirlab.jobs.progress import Interrupted

            if isinstance(interrupt, Interrupted):
                details = {"run_id": interrupt.run_id, "resume": interrupt.resume}
                return Failure("Interrupted", str(interrupt), 128 + _last.number, details)
            return Failure("Interrupted", "interrupted; nothing was kept", 128 + _last.number)
        case WeirError():
            return Failure(type(error).__name__, str(error), error.exit_code)
        case TyperException():
            return Failure("InputError", _usage(error), error.exit_code)
        case typer.Abort():
            return Failure("Interrupted", "aborted", 128 + signal.SIGINT)
        case MemoryError():
            return Failure("MemoryError", "out of memory; fewer flows or shorter trials need less", 1)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return Failure(type(error).__name__, f"{where}{error.strerror or error}", 1)
        case _:
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Failure(type(error).__name__, f"unexpected {what}", 1)


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Show ``error`` and return the exit code: always on stderr, and as JSON on stdout if wanted."""
    failure = explain(error)
    lines = [f"weir: {failure.message}"] if failure.message else []
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    elif failure.exit_code == 1:
        lines.append("weir: for the traceback repeat with: weir --debug ...; for the machine: weir doctor")
    if lines:
        print("\n".join(lines), file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(failure.to_json()), flush=True)
    return failure.exit_code


def debugging(argv: list[str]) -> bool:
    """Does the user want tracebacks?"""
    return "--debug" in argv or os.environ.get("WEIR_DEBUG", "") not in ("", "0")


def _usage(error: TyperException) -> str:
    """One line; empty where the help has just been shown."""
    if not error.format_message():
        return ""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "weir")
    return f"{error.format_message().rstrip('.')}. See: {command} --help"
