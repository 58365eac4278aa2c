"""Starts the agent inside the device, has it sample, and reads its report."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab.inside.view import Sample
from weirlab.lab.isolation import partition
from weirlab.lab.linux.namespace import Namespace

PERIOD_NS: Final = 100_000_000
"""Interval between two samples."""

_PATIENCE_S: Final = 30.0
_AGENT: Final = Path(__file__).with_name("agent.py")


class Sampler:
    """The agent inside ``device``, on the CPU ``cpu``, from construction to :meth:`close`.

    ``interfaces`` are those whose counters it reads. Raises ``LabError`` if it cannot work.
    """

    def __init__(self, device: Namespace, cpu: int, interfaces: Sequence[str]) -> None:
        # Its own process group: Ctrl-C goes to the parent, which ends the program in good order. If the
        # parent is killed, the pipe to standard input breaks, and the program ends by itself.
        command = programs.script(_AGENT, str(cpu), str(PERIOD_NS), *interfaces)
        self._program: programs.Program[str] | None = device.call(
            partition.measuring(
                lambda: programs.start(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
        )
        try:
            self._expect("ready")
        except BaseException:
            self.close()
            raise

    def watch(self) -> None:
        """Start sampling, every ``PERIOD_NS`` from now on."""
        self._tell("watch")
        self._expect("watching")

    def report(self) -> list[Sample]:
        """Stop sampling; returns the samples taken since :meth:`watch`, in order."""
        self._tell("report")
        return [Sample.from_plain(value) for value in json.loads(self._hear())]

    def cpu_s(self) -> float:
        """CPU time in s that sampling has taken from the device's CPU so far."""
        self._tell("cpu")
        return int(self._hear()) / 1e9

    def close(self) -> None:
        """End the agent. May be called twice."""
        program, self._program = self._program, None
        if program is None:
            return
        with suppress(OSError):
            _pipe(program.stdin).close()
        try:
            program.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        _pipe(program.stdout).close()
        _pipe(program.stderr).close()

    def _running(self) -> programs.Program[str]:
        if self._program is None:
            raise LabError("the program inside the device has been ended")
        return self._program

    def _tell(self, word: str) -> None:
        stdin = _pipe(self._running().stdin)
        try:
            stdin.write(f"{word}\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _expect(self, word: str) -> None:
        if (heard := self._hear()) != word:
            raise LabError(f"the device cannot be sampled from inside: {heard!r} instead of {word!r}")

    def _hear(self) -> str:
        stdout = _pipe(self._running().stdout)
        if not select.select([stdout], [], [], _PATIENCE_S)[0]:
            raise LabError(
                f"the program inside the device does not answer within {_PATIENCE_S:g} s: something else has "
                f"CPU {os.sched_getaffinity(self._running().pid)}; give the machine some quiet"
            )
        line = stdout.readline()
        if not line:
            raise self._ended()
        return line.strip()

    def _ended(self) -> LabError:
        """The error for an agent that ended by itself, with its last output."""
        program = self._running()
        with suppress(OSError):
            _pipe(program.stdin).close()
        with suppress(subprocess.TimeoutExpired):
            program.wait(_PATIENCE_S)
        said = _pipe(program.stderr).read().strip().splitlines()[-1:] if program.poll() is not None else []
        self.close()
        return LabError(f"the program inside the device ended ({said[0] if said else 'no reason given'})")


def _pipe(stream: IO[str] | None) -> IO[str]:
    """``stream``, which exists because the program was started with pipes."""
    assert stream is not None
    return stream
