"""A running machine: its programs, and their output."""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab.cores import descendants
from weirlab.lab.isolation import partition
from weirlab.lab.linux.namespace import Namespace

_INIT: Final = Path(__file__).parent / "init.py"
_PATIENCE_S: Final = 30.0
_TERMINATE: Final = signal.SIGTERM
_SHOWN_LINES: Final = 8

NEWS: Final = "/run/news"
"""Pipe for lines to be reported to the lab."""

CRITICAL: Final = -20
"""Nice value of daemons that must not wait: that of the receiving kernel threads."""


def _unheard(line: str) -> None:
    """Discard a line."""


class Machine:
    """The programs of one machine, from switching on to :meth:`power_off`; see ``init.py``.

    Parameters
    ----------
    name, namespace:
        Its name in messages, and its network namespace.
    cpu:
        The CPU for its programs; None for any.
    news:
        Called, from the machine's own thread, with every line that daemons and scripts report.
    others:
        Further network namespaces in which its programs may run.
    """

    def __init__(
        self,
        name: str,
        namespace: Namespace,
        cpu: int | None = None,
        news: Callable[[str], None] = _unheard,
        *,
        others: Sequence[Namespace] = (),
    ) -> None:
        self.name = name
        self._news = news
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._stopping: set[str] = set()
        self._running: set[str] = set()
        self._deaths: list[str] = []
        self._program: programs.Program[bytes] = namespace.call(
            partition.measuring(
                lambda: programs.start(
                    programs.script(
                        _INIT, "" if cpu is None else str(cpu), *(str(other.path) for other in others)
                    ),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # Ctrl-C is for the lab's owner, who switches the machine off in good order.
                    start_new_session=True,
                )
            )
        )
        assert self._program.stdout is not None
        line = self._program.stdout.readline()
        if not line:
            raise self._off()
        self._first = int(json.loads(line)["first"])
        self._reader = threading.Thread(target=self._read, name=f"weir {name}", daemon=True)
        self._reader.start()

    @property
    def running(self) -> frozenset[str]:
        """Names of the daemons that were started and have not ended."""
        return frozenset(self._running)

    @property
    def processes(self) -> list[int]:
        """Process IDs, as seen from outside, of everything that runs in it."""
        return descendants(self._first)

    def path(self, path: str) -> Path:
        """The path outside the machine of what its programs see at ``path``."""
        return Path(f"/proc/{self._first}/root{path}")

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Write a file that only this machine sees; ``path`` is below /run."""
        self._ask(write=path, text=text, mode=0o755 if executable else 0o644)

    def show(self, source: Path, target: str) -> None:
        """Make the file or folder ``source`` appear as ``target`` to this machine's programs."""
        self._ask(show=str(source), at=target)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        nice: int = 0,
        inside: Namespace | None = None,
        log: Path | None = None,
        ends_by_itself: bool = False,
    ) -> None:
        """Start a daemon that stays in the foreground.

        It runs ``inside`` one of the other namespaces if one is given, and appends its output to ``log``.
        With ``ends_by_itself``, it may end at any time.
        """
        with self._lock:
            self._running.add(name)
            if ends_by_itself:
                self._stopping.add(name)
            else:
                self._stopping.discard(name)
        self._ask(
            start=name,
            command=programs.located(command),
            nice=nice,
            inside=None if inside is None else str(inside.path),
            log=None if log is None else str(log),
        )

    def run(self, command: Sequence[str]) -> tuple[int, list[str]]:
        """Run a command to its end; returns its exit code and its last output."""
        answer = self._ask(run=programs.located(command))
        return int(answer["code"]), [str(line) for line in answer["said"]]

    def succeeds(self, command: Sequence[str]) -> bool:
        """Run a command to its end; returns whether its exit code was 0."""
        return self.run(command)[0] == 0

    def read(self, path: str) -> list[str]:
        """The last lines of a file that only this machine sees; none if there is no such file."""
        return self.run(["tail", "-qn", "8", path])[1]

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a daemon."""
        self._ask(signal=int(number), to=name)

    def stop(self, name: str, deadline_s: float = _PATIENCE_S, *, by: int = _TERMINATE) -> None:
        """Have a daemon end, by default in good order, and wait for it."""
        with self._lock:
            self._stopping.add(name)
        self.signal(name, by)
        end_s = time.monotonic() + deadline_s
        while name in self._running:
            if time.monotonic() > end_s:
                raise LabError(f"{self.called(name)} did not end: {quote(self.output(name))}")
            time.sleep(0.001)

    def output(self, name: str) -> list[str]:
        """A daemon's last output. Afterwards, every end before this call is known."""
        return [str(line) for line in self._ask(said=name)["said"]]

    def check(self) -> None:
        """Raise ``LabError`` with its last output if a daemon has ended by itself."""
        with self._lock:
            deaths = [*self._deaths]
        if deaths:
            raise LabError("; ".join(deaths))

    def called(self, daemon: str) -> str:
        """The name of one of its daemons in messages."""
        return f"{daemon} on {self.name}"

    def freeze(self) -> None:
        """Stop all programs where they are; only :meth:`power_off` is possible from then on.

        Faster than killing them: a process that ends releases its sockets and holds kernel locks meanwhile.
        """
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)

    def power_off(self) -> None:
        """Have the kernel end all programs at once, and wait until they are gone. May be called twice."""
        with self._lock:
            self._stopping |= self._running
        # The kernel ends everything in a PID namespace with its first process.
        if self._program.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)
        # Returns when the last of them is gone: zap_pid_ns_processes in kernel/pid_namespace.c.
        self._program.wait()
        self._reader.join()
        for pipe in (self._program.stdin, self._program.stdout, self._program.stderr):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _ask(self, **request: object) -> dict[str, Any]:
        number = next(self._numbers)
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._answers[number] = answers
        line = json.dumps({"id": number, **request}).encode() + b"\n"
        stdin = self._program.stdin
        assert stdin is not None
        try:
            with self._lock:
                stdin.write(line)
                stdin.flush()
            answer = answers.get(timeout=_PATIENCE_S)
        except (BrokenPipeError, ValueError):
            raise self._off() from None
        except queue.Empty:
            what = next(iter(request.items()))
            raise LabError(
                f"{self.name} does not answer within {_PATIENCE_S:g} s ({what[0]} {what[1]})"
            ) from None
        finally:
            del self._answers[number]
        if "off" in answer:
            raise self._off()
        if "error" in answer:
            raise LabError(f"{self.name}: {answer['error']}")
        return answer

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            words = json.loads(line)
            if "news" in words:
                self._news(words["news"])
            elif "ended" in words:
                self._note_end(words["ended"], words["code"], words["said"])
            elif (answers := self._answers.get(words["id"])) is not None:
                answers.put(words)
        for answers in [*self._answers.values()]:
            answers.put({"off": True})

    def _note_end(self, name: str, code: int, said: list[str]) -> None:
        with self._lock:
            self._running.discard(name)
            if name in self._stopping:
                self._stopping.discard(name)
                return
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._deaths.append(
                f"{self.called(name)} ended by itself ({how}); its last output: {quote(said)}"
            )

    def _off(self) -> LabError:
        """The error for a machine that went off unexpectedly."""
        said = b""
        with suppress(subprocess.TimeoutExpired, ValueError, OSError):
            self._program.wait(_PATIENCE_S)
            if self._program.stderr is not None:
                said = self._program.stderr.read()
        words = said.decode(errors="replace").strip().splitlines()
        return LabError(f"{self.name} is switched off: {quote(words)}")


def quote(said: Sequence[str]) -> str:
    """The last lines of a program's output, joined into one."""
    kept = [line for line in said if line][-_SHOWN_LINES:]
    return " | ".join(kept) or "nothing"
