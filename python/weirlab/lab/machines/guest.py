"""A running virtual machine: QEMU in a machine of the lab, and the agent inside the guest."""

from __future__ import annotations

import base64
import itertools
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines import qemu
from weirlab.lab.machines.machine import CRITICAL, Machine, quote
from weirlab.lab.machines.qemu import Accelerator, Boot, Nic

QEMU: Final = "qemu"
"""The daemon's name in its machine."""

BOOT_S: Final = 120.0
"""Time limit for an emulated guest to boot, which takes 10 s on a free CPU."""
KVM_BOOT_S: Final = 20.0
"""Time limit for a guest with KVM to boot, which takes one or two seconds."""
ANSWER_S: Final = 60.0
"""Time limit for the agent to carry out a request."""

PRELUDE: Final = 'ip() { /usr/bin/ip "$@"; }\ntc() { /usr/bin/tc "$@"; }\n'
"""Goes in front of every script: BusyBox's shell prefers its own programs to others of the same name."""

_LOOK_S: Final = 0.05
_CHUNK: Final = 1 << 16
_PANIC: Final = "Kernel panic"
_WORDS: Final = 6


class Guest:
    """A virtual machine from :meth:`switch_on` to :meth:`power_off`.

    Parameters
    ----------
    name, namespace, cpu
        Its name in messages, the network namespace of its taps, and the CPU that does all its work.
    boot
        What it boots from.
    nics
        Its interfaces, in order.
    """

    def __init__(
        self, name: str, namespace: Namespace, cpu: int | None, boot: Boot, nics: Sequence[Nic]
    ) -> None:
        self.name = name
        self.boot_s = float("nan")
        """How long it took to boot."""
        self.release = ""
        """Release of the guest's kernel, as it reports it."""
        self._boot, self._nics = boot, nics
        self._left = list(qemu.accelerators())
        self._fell_back = False
        self._numbers = itertools.count(1)
        self._line: socket.socket | None = None
        self._rest = bytearray()
        self.machine = Machine(name, namespace, cpu)

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that runs the guest."""
        return self._left[0]

    def switch_on(self) -> None:
        """Have QEMU start the guest; :meth:`wait` waits for it, so that two can boot in parallel.

        Raises ``LabError`` with QEMU's message if it does not start.
        """
        try:
            self._start()
        except LabError:
            if not self.starts_without_kvm():
                raise

    def wait(self) -> None:
        """Wait until the guest is up. If it does not boot with KVM, it is restarted without.

        Raises ``LabError`` with the console's last lines.
        """
        if not self._boot.has_agent:
            return
        while not self.release:
            patience_s = KVM_BOOT_S if self.accelerator == "kvm" else BOOT_S
            try:
                word, _, self.release = self._read_line(patience_s, "it does not come up").partition(" ")
            except LabError:
                if not self.starts_without_kvm():
                    raise
                continue
            if word != "ready":
                raise LabError(f"{self.name}: its agent reports {word!r} instead of ready")
            self.boot_s = time.monotonic() - self._begun_s
        self.is_up()

    def is_up(self) -> None:
        """Note that the guest is up; if that needed a start without KVM, later guests do not try KVM."""
        if self._fell_back:
            qemu.give_up_kvm()

    def starts_without_kvm(self) -> bool:
        """Restart it without KVM if it used KVM; False if it did not."""
        if self.accelerator != "kvm":
            return False
        line, self._line = self._line, None
        if line is not None:
            line.close()
        self._rest.clear()
        if QEMU in self.machine.running:
            self.machine.stop(QEMU, by=signal.SIGKILL)
        self.machine.path(qemu.AGENT).unlink(missing_ok=True)
        del self._left[0]
        self._fell_back = True
        self._start()
        return True

    def run(self, script: str, patience_s: float = ANSWER_S) -> tuple[int, str]:
        """Have the guest's shell run ``script``; returns its exit code and output."""
        number = str(next(self._numbers))
        assert self._line is not None
        request = f"{number} {base64.b64encode((PRELUDE + script).encode()).decode()}\n"
        self._line.settimeout(patience_s)
        with suppress(OSError):
            # If the connection is broken, the missing answer will show it.
            self._line.sendall(request.encode())
        while True:
            words = self._read_line(patience_s, f"its agent does not answer ({_first_line(script)})").split(
                " "
            )
            if words[0] == number:
                said = base64.b64decode(words[2]).decode(errors="replace") if len(words) > 2 else ""
                return int(words[1]), said

    def do(self, script: str, patience_s: float = ANSWER_S) -> str:
        """As :meth:`run`, for scripts that must succeed; ``LabError`` with the output if one fails."""
        code, said = self.run(script, patience_s)
        if code != 0:
            raise LabError(f"{self.name}: {_first_line(script)} fails: {quote(said.splitlines()[-_WORDS:])}")
        return said

    def check(self) -> None:
        """Raise ``LabError`` with the console's last lines if QEMU has ended."""
        # Its answer comes after the reports of all processes that ended before.
        self.machine.output(QEMU)
        if QEMU in self.machine.running:
            return
        # It may have ended since, with output that the first answer lacks.
        said = self.machine.output(QEMU)
        if panic := [line for line in said if _PANIC in line]:
            raise LabError(f"{self.name}: its kernel panicked: {panic[0].strip()}; {_told(said)}")
        raise LabError(f"{self.name}: QEMU has ended; {_told(said)}")

    def console(self) -> str:
        """The last lines of its console, for a message."""
        return _told(self.machine.output(QEMU))

    def power_off(self) -> None:
        """End it at once, and wait until it is gone. May be called twice."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
        self.machine.power_off()

    def _start(self) -> None:
        self._begun_s = time.monotonic()
        command = qemu.confined(self._boot, self._nics, self.accelerator)
        self.machine.start(QEMU, command, nice=CRITICAL)
        self._line = self._connected(self._begun_s + BOOT_S)

    def _connected(self, end_s: float) -> socket.socket:
        """Connect to the agent's port, which QEMU makes when it has read its options."""
        path = str(self.machine.path(qemu.AGENT))
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._until(lambda: _connects(line, path), end_s, "QEMU does not start")
        except BaseException:
            line.close()
            raise
        return line

    def _read_line(self, patience_s: float, otherwise: str) -> str:
        """The next line from the agent."""
        assert self._line is not None
        self._line.settimeout(_LOOK_S)
        found: list[str] = []

        def read() -> bool:
            assert self._line is not None
            if b"\n" not in self._rest:
                try:
                    chunk = self._line.recv(_CHUNK)
                except OSError:
                    return False
                if not chunk:
                    time.sleep(_LOOK_S)
                self._rest.extend(chunk)
            if b"\n" not in self._rest:
                return False
            line, _, rest = bytes(self._rest).partition(b"\n")
            self._rest[:] = rest
            found.append(line.decode(errors="replace"))
            return True

        self._until(read, time.monotonic() + patience_s, otherwise, pause_s=0.0)
        return found[0]

    @interruptible
    def _until(
        self, condition: Callable[[], bool], end_s: float, otherwise: str, pause_s: float = _LOOK_S
    ) -> None:
        begun_s = time.monotonic()
        while not condition():
            self.check()
            if (now_s := time.monotonic()) > end_s:
                waited = f"within {now_s - begun_s:.0f} s"
                raise LabError(f"{self.name}: {otherwise} {waited}; {self.console()}")
            time.sleep(pause_s)


def _connects(line: socket.socket, path: str) -> bool:
    try:
        line.connect(path)
    except OSError:
        return False
    return True


def _told(said: Sequence[str]) -> str:
    return f"the last lines of its console: {quote([line.strip() for line in said[-_WORDS:]])}"


def _first_line(script: str) -> str:
    """The name of a script in messages."""
    return script.strip().partition("\n")[0]
