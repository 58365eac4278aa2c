"""Starts the programs that monitor the device, asks them, accounts for their cost, and ends them."""

from __future__ import annotations

import json
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
from weirlab.lab.monitoring.view import Sample

PERIOD_NS: Final = 100_000_000
"""Interval between two samples, and between two reports."""

PORT: Final = 830
"""The port of NETCONF over SSH (RFC 6242), which management sessions use."""

_PATIENCE_S: Final = 30.0
"""More than the 20 s for which a tool waits for the lock shared by all of them."""
_AGENT: Final = Path(__file__).with_name("agent.py")


class MonitoringPrograms:
    """Programs in namespaces, each of which answers a line with a line, until :meth:`close`."""

    _name: str
    _busy: str
    """What to do if one does not answer."""
    _advice = ""
    """What to do if one has ended, after the reason."""

    def __init__(self) -> None:
        self._programs: list[programs.Program[str]] = []

    def close(self) -> None:
        """End the programs. May be called twice."""
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

    def _start(self, namespace: Namespace, role: str, first: str, *arguments: object) -> None:
        """Start a program, whose ``first`` line says that it works. A station does no work of the device."""
        # Its own process group: Ctrl-C goes to the parent, which ends the program in good order. If the
        # parent is killed, the pipe to standard input breaks, and the program ends by itself.
        command = programs.script(_AGENT, role, *map(str, arguments))

        def start() -> programs.Program[str]:
            return programs.start(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )

        self._programs.append(namespace.call(start if role == "receive" else partition.measuring(start)))
        self._expect(len(self._programs) - 1, first)

    def _expect(self, number: int, word: str) -> None:
        if (heard := self._hear(number)) != word:
            raise LabError(f"{self._name} cannot be opened: {heard!r} instead of {word!r}")

    def _asked(self, number: int, line: str) -> str:
        """The answer to ``line``."""
        if number >= len(self._programs):
            raise LabError(f"{self._name} is closed")
        stdin = _pipe(self._programs[number].stdin)
        try:
            stdin.write(f"{line}\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._hear(number)

    def _hear(self, number: int) -> str:
        stdout = _pipe(self._programs[number].stdout)
        if not select.select([stdout], [], [], _PATIENCE_S)[0]:
            raise LabError(f"{self._name} does not answer within {_PATIENCE_S:g} s: {self._busy}")
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
                    with suppress(OSError):
                        _pipe(program.stdin).close()
                with suppress(subprocess.TimeoutExpired):
                    program.wait(max(end_s - time.monotonic(), 0.1))
                    said += _pipe(program.stderr).read().strip().splitlines()[-1:]
        return LabError(f"{self._name} ended ({'; '.join(said) or 'no reason given'}){self._advice}")


class Sampler(MonitoringPrograms):
    """The sampling program inside ``device``, on the CPU ``cpu``, from construction to :meth:`close`.

    ``interfaces`` are those whose counters it reads. Raises ``LabError`` if it cannot work.
    """

    _name = "the program inside the device"

    def __init__(self, device: Namespace, cpu: int, interfaces: Sequence[str]) -> None:
        super().__init__()
        self._busy = f"something else has CPU {cpu}; give the machine some quiet"
        try:
            self._start(device, "sample", "ready", cpu, PERIOD_NS, *interfaces)
        except BaseException:
            self.close()
            raise

    def watch(self) -> None:
        """Start sampling, every ``PERIOD_NS`` from now on."""
        self._asked(0, "watch")

    def report(self) -> list[Sample]:
        """Stop sampling; returns the samples taken since :meth:`watch`, in order."""
        return [Sample.from_plain(value) for value in json.loads(self._asked(0, "report"))]

    def cpu_s(self) -> float:
        """CPU time in s that sampling has taken from the device's CPU so far."""
        return int(self._asked(0, "cpu")) / 1e9


class ManagementSession(MonitoringPrograms):
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

    _name = "the management session with the device"
    _busy = "end other commands that change or list rules (they share a lock), or give the machine some quiet"

    def __init__(self, device: Namespace, station: Namespace, cores: Cores, listing: Sequence[str]) -> None:
        super().__init__()
        address = wiring.MANAGED.address
        self._advice = f"; the device's rules must let TCP port {PORT} in on {wiring.MANAGED.name}"
        command = [*listing]
        if command:
            command[0] = programs.find(command[0]) or command[0]
        spare = sorted(os.sched_getaffinity(0) - {cores.sender, cores.dut})
        # A station elsewhere takes nothing from the device's CPU.
        self._on_device = 1 if spare else 2
        try:
            self._start(device, "report", "listening", address, PORT, PERIOD_NS / 1e9, cores.dut, *command)
            self._start(station, "receive", "ready", address, PORT, spare[0] if spare else cores.dut)
        except BaseException:
            self.close()
            raise

    def cpu_s(self) -> float:
        """CPU time in s that the session has taken from the device's CPU so far.

        Waits for a report in progress, so that it is included.
        """
        return sum(int(self._asked(number, "cpu")) for number in range(self._on_device)) / 1e9


def _pipe(stream: IO[str] | None) -> IO[str]:
    """``stream``, which exists because the program was started with pipes."""
    assert stream is not None
    return stream
