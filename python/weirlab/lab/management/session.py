"""Opens a management session with the device, accounts for its cost, and ends it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab import wiring
from weirlab.lab.cores import Cores
from weirlab.lab.isolation import partition
from weirlab.lab.linux.namespace import Namespace

PERIOD_S: Final = 0.1
"""Interval between two reports."""

PORT: Final = 830
"""The port of NETCONF over SSH (RFC 6242), which such sessions use."""

_PATIENCE_S: Final = 30.0
"""More than the 20 s for which a tool waits for the lock shared by all of them."""
_HERE: Final = Path(__file__).parent


class ManagementSession:
    """A management session, from construction to :meth:`close`.

    Parameters
    ----------
    device:
        Namespace of the device; the other end of its management cable is in ``station``.
    cores:
        The agent works on the device's CPU. So does the station if no other CPU is free.
    listing:
        Command that lists the rules with their counters; empty for none.

    Raises ``LabError`` if the session cannot be opened.
    """

    def __init__(self, device: Namespace, station: Namespace, cores: Cores, listing: Sequence[str]) -> None:
        self._programs: list[programs.Program[str]] = []
        address = wiring.MANAGED.address
        command = [*listing]
        if command:
            command[0] = programs.find(command[0]) or command[0]
        spare = sorted(os.sched_getaffinity(0) - {cores.sender, cores.dut})
        # A station elsewhere takes nothing from the device's CPU.
        self._on_device = 1 if spare else 2
        try:
            self._start(device, "agent", address, PORT, PERIOD_S, cores.dut, *command)
            self._expect(0, "listening")
            self._start(station, "station", address, PORT, spare[0] if spare else cores.dut)
            self._expect(1, "ready")
        except BaseException:
            self.close()
            raise

    def cpu_s(self) -> float:
        """CPU time in s that the session has taken from the device's CPU so far.

        Waits for a report in progress, so that it is included.
        """
        used_ns = 0
        for number in range(self._on_device):
            self._tell(number, "cpu")
            used_ns += int(self._hear(number))
        return used_ns / 1e9

    def close(self) -> None:
        """End both programs. May be called twice."""
        ending, self._programs = self._programs, []
        for program in ending:
            with suppress(OSError):
                _pipe(program.stdin).close()
        for program in ending:
            try:
                program.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                # Also kill the tool that it may be waiting for.
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
                program.wait()
            _pipe(program.stdout).close()
            _pipe(program.stderr).close()

    def _start(self, namespace: Namespace, name: str, *arguments: object) -> None:
        # Its own process group: Ctrl-C goes to the parent, which ends the program in good order. If the
        # parent is killed, the pipe to standard input breaks, and the program ends by itself.
        command = programs.script(_HERE / f"{name}.py", *map(str, arguments))

        def start() -> programs.Program[str]:
            return programs.start(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )

        program = namespace.call(partition.measuring(start) if name == "agent" else start)
        self._programs.append(program)

    def _expect(self, number: int, word: str) -> None:
        if (heard := self._hear(number)) != word:
            raise LabError(f"the management session cannot be opened: {heard!r} instead of {word!r}")

    def _tell(self, number: int, line: str) -> None:
        if number >= len(self._programs):
            raise LabError("the management session is closed")
        stdin = _pipe(self._programs[number].stdin)
        try:
            stdin.write(f"{line}\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _hear(self, number: int) -> str:
        stdout = _pipe(self._programs[number].stdout)
        if not select.select([stdout], [], [], _PATIENCE_S)[0]:
            raise LabError(
                f"the management session does not answer within {_PATIENCE_S:g} s: end other commands that "
                "change or list rules (they share a lock), or give the machine some quiet"
            )
        line = stdout.readline()
        if not line:
            raise self._ended()
        return line.strip()

    def _ended(self) -> LabError:
        """The error for a program that ended by itself, with its last output."""
        end_s = time.monotonic() + _PATIENCE_S
        said = []
        with ExitStack() as cleanup:
            cleanup.callback(self.close)
            for program in self._programs:
                if program.poll() is None and not _pipe(program.stdin).closed:
                    _pipe(program.stdin).close()
                with suppress(subprocess.TimeoutExpired):
                    program.wait(max(end_s - time.monotonic(), 0.1))
                    said += _pipe(program.stderr).read().strip().splitlines()[-1:]
        words = "; ".join(said) or "no reason given"
        return LabError(
            f"the management session with the device ended ({words}); "
            f"the device's rules must let TCP port {PORT} in on {wiring.MANAGED.name}"
        )


def _pipe(stream: IO[str] | None) -> IO[str]:
    """``stream``, which exists because the program was started with pipes."""
    assert stream is not None
    return stream
