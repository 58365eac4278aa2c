"""The recorder's process: reads a ring or an interface, writes files, and reports progress.

Started by :mod:`weirlab.base.programs`, with its order as JSON. Writes lines of JSON to standard output:
``{"started": true}``, then ``{"at_ns": ..., "progress": {...}}`` four times a second, and at the end
``{"at_ns": ..., "stopped": {...}}``; and ``{"error": ..., "kind": ...}`` if it could not begin or its source
came to an end. The end of standard input, or SIGTERM, tells it to finish the file. So the file is finished
even if the parent process was killed, because the kernel then closes the other end of the pipe.

With ``count`` and a capture, it prints a line of JSON instead: how many packets it has, and when.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from weirlab.base.errors import LabError, WeirError
from weirlab.link import bindings
from weirlab.link.settings import RecorderSettings

PERIOD_S: Final = 0.25
_LOWEST: Final = 19


def main(order: str) -> int:
    """Record until told to stop."""
    # Ctrl-C goes to all processes of the terminal: the parent decides, and tells this one through the pipe.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ends, tell_end = os.pipe()

    def finish(number: int, frame: FrameType | None) -> None:
        os.write(tell_end, b"x")

    signal.signal(signal.SIGTERM, finish)
    say = _ReportWriter()
    try:
        run(json.loads(order), say, lambda: _told_to_stop(ends))
    except WeirError as error:
        say({"error": str(error), "kind": type(error).__name__})
        return error.exit_code
    except OSError as error:
        say({"error": str(error), "kind": "LabError"})
        return 4
    return 0


def run(order: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], stop: Callable[[], bool]) -> None:
    """Record as ``order`` says until ``stop``, which waits for a moment, returns true."""
    recording = RecorderSettings(**{**order["recording"], "path": Path(order["recording"]["path"])})
    recorder = bindings.open_recorder(
        recording,
        path=order["path"],
        ring_fds=order["ring_fds"],
        interface=order["interface"],
        netns=order["netns"],
        comment=order["comment"],
    )
    failure = ""
    try:
        recorder.start()
        say({"started": True})
        while not stop():
            progress = recorder.progress()
            say({"at_ns": time.time_ns(), "progress": progress})
            if progress.get("ended"):
                failure = str(progress.get("failure", "")) or "no more frames come from the source"
                break
    finally:
        outcome = _stopped(recorder, say)
    say({"at_ns": time.time_ns(), "stopped": outcome})
    if failure:
        raise LabError(failure)


def _stopped(recorder: bindings.Recorder, say: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    """Stop the recorder and return its result, reporting progress while it writes what is left."""
    with ThreadPoolExecutor(1, "weir-stop") as pool:
        try:
            stopping = pool.submit(recorder.stop)
        except RuntimeError:
            # No thread available: stop without reports.
            return recorder.stop()
        while not stopping.done():
            wait([stopping], PERIOD_S)
            if not stopping.done():
                say({"at_ns": time.time_ns(), "progress": recorder.progress()})
        return stopping.result()


class _ReportWriter:
    """Writes lines until the reader is gone; recording goes on regardless."""

    def __init__(self) -> None:
        self._heard = True

    def __call__(self, message: Mapping[str, Any]) -> None:
        if not self._heard:
            return
        try:
            print(json.dumps(message), flush=True)
        except OSError:
            self._heard = False
            # Else the interpreter complains about the pipe when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told_to_stop(ends: int) -> bool:
    ready, _, _ = select.select([sys.stdin, ends], [], [], PERIOD_S)
    return bool(ready)


def count(path: str) -> int:
    """Print what is in a capture, after everything else on this host has had its turn."""
    os.nice(_LOWEST)
    # If memory runs short, the kernel should kill this before the bridge or a recorder.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        print(json.dumps(counted(path)))
    except (WeirError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def counted(path: str) -> dict[str, Any]:
    """Count a file's frames, even if it ends inside one. Raises ``InputError`` if it is no capture."""
    from weirlab._engine import analyse

    found = analyse([path], keep=0)["capture"]
    return {name: found[name] for name in ("packets", "not_ip", "first_ns", "last_ns", "cut_short")}


if __name__ == "__main__":
    sys.exit(count(sys.argv[2]) if sys.argv[1] == "count" else main(sys.argv[1]))
