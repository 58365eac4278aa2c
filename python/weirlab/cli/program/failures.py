"""Turns exceptions into a message, an exit code and, with ``--json``, an error document."""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import typer
from typer.exceptions import TyperException

from weirlab.base import interrupts
from weirlab.base.errors import NobodyReads, OutputError, WeirError
from weirlab.base.quoting import printable, shortened
from weirlab.cli.streams import tell

EXIT_CODES: Final = {
    0: "done",
    1: "unexpected error",
    2: "bad input: option, scenario, ruleset or file",
    3: "missing privilege, tool, library or kernel feature (see weir doctor)",
    4: "the test bed or the device does not work, or the host could not be put back as it was",
    5: "a trial failed, or every attempt at it was invalid",
    6: "the run store cannot be read or written, or has no such run",
    7: "undecided: a plan, a requirement or a comparison; or the data do not determine the model, or the "
    "prediction extrapolates",
    8: "standard output cannot be written: closed, or its disk is full",
    9: "no: a requirement is not met, a plan answers no, or a run is worse than the one before",
    130: "interrupted (Ctrl-C); 129: hung up; 143: terminated; 141: standard output has no reader (| head)",
}


class InterruptCarrier(Exception):
    """Carries a ``KeyboardInterrupt`` past Typer, which would swallow it."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        self.interrupt = interrupt


class OsErrorCarrier(Exception):
    """Carries an ``OSError`` past Typer, which exits silently with 1 for any broken pipe."""

    def __init__(self, error: OSError) -> None:
        self.error = error


@dataclass(frozen=True)
class Failure:
    """What the user sees of an exception."""

    kind: str
    message: str
    exit_code: int
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Shorten each line of the message, which may quote text from the user or a file."""
        object.__setattr__(self, "message", "\n".join(map(shortened, self.message.split("\n"))))

    def to_json(self) -> dict[str, Any]:
        inner = {"kind": self.kind, "message": self.message, "exit_code": self.exit_code}
        return {"error": {**inner, **self.details}}


def explain(error: BaseException) -> Failure:
    """Kind, message and exit code of ``error``."""
    match error:
        case InterruptCarrier(interrupt=interrupt):
            return _interrupted(interrupt)
        case OsErrorCarrier(error=inner):
            return explain(inner)
        case WeirError():
            details = getattr(error, "details", {})
            return Failure(type(error).__name__, str(error), error.exit_code, details)
        case TyperException():
            return Failure("InputError", _usage(error), error.exit_code)
        case typer.Abort():
            return Failure("Interrupted", "interrupted", interrupts.exit_code())
        case MemoryError():
            return Failure("MemoryError", "out of memory; fewer flows or shorter trials need less", 1)
        case PermissionError() if _is_named(error.filename):
            advice = "name another place, or run weir as a user who may open it"
            return Failure("InputError", f"{printable(error.filename)}: permission denied; {advice}", 2)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return Failure(type(error).__name__, f"{where}{error.strerror or error}", 1)
        case _:
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Failure(type(error).__name__, f"unexpected {what}", 1)


_KERNEL: Final = ("/proc/", "/sys/", "/dev/", "/run/")
"""Beginnings of paths that Weir opens by itself."""


def _is_named(path: Any) -> bool:
    """Whether ``path``, of an error, is one that a user named, wherever it was opened."""
    return isinstance(path, str) and not path.startswith(_KERNEL)


def _interrupted(interrupt: KeyboardInterrupt) -> Failure:
    """The failure for an interruption: what was kept, and how to continue."""
    code = interrupts.exit_code()
    progress = sys.modules.get("weirlab.jobs.progress")
    if progress is not None and isinstance(interrupt, progress.RunInterrupt):
        details = {"run_id": interrupt.run_id, "resume": interrupt.resume}
        return Failure("Interrupted", str(interrupt), code, details)
    if code == NobodyReads.exit_code:
        return Failure(NobodyReads.__name__, "", code)
    # A command that has not yet imported the jobs has not begun anything.
    if progress is None or not progress.completed:
        return Failure("Interrupted", "interrupted", code)
    *_, run_id = progress.completed
    details = {"run_id": run_id, "complete": True}
    return Failure("Interrupted", f"interrupted; run {run_id} is complete and kept", code, details)


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Show ``error`` on stderr, and as JSON on stdout if ``as_json``; return the exit code."""
    failure = explain(error)
    lines = [f"weir: {failure.message}"] if failure.message else []
    if debug:
        lines.insert(0, "".join(traceback.format_exception(error)).rstrip())
    elif failure.exit_code == 1:
        lines.append("weir: for the traceback repeat with: weir --debug ...; for the machine: weir doctor")
    if lines:
        tell("\n".join(lines), sys.stderr)
    if as_json:
        # The error on stderr is what matters, even if stdout cannot be written.
        with suppress(OutputError):
            tell(json.dumps(failure.to_json()))
    return failure.exit_code


def debugging(argv: list[str]) -> bool:
    """Whether the user wants tracebacks."""
    return "--debug" in argv or os.environ.get("WEIR_DEBUG", "") not in ("", "0")


def _usage(error: TyperException) -> str:
    """A usage error as one line; empty if the help has just been shown."""
    if not error.format_message():
        return ""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "weir")
    # Pydantic puts this before a validator's message.
    message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
    return f"{message}{'' if message.endswith('?') else '.'} See: {command} --help"
