"""``tcpdump -w`` as a recorder: what it writes, and what it says when it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.wiring import mac_bytes
from weirlab.links.monitor.bed import wiring
from weirlab.links.monitor.bed.base import MonitorSettings, RecorderReport
from weirlab.links.monitor.bed.recording import count_frames

_PATIENCE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.02
_PUSHES: Final = 8

_ETHERTYPE: Final = 0x88B5
"""For experiments (IEEE 802): nothing on the link is taken for it."""
_PUSH_FRAMES: Final = 220
"""Of 1514 bytes: more than one block (256 KiB) of the buffer that libpcap shares with the kernel."""

_SAYS: Final = {
    "captured": re.compile(r"(\d+) packets? captured"),
    "received": re.compile(r"(\d+) packets? received by filter"),
    "dropped": re.compile(r"(\d+) packets? dropped by kernel"),
}


@dataclass(frozen=True)
class TcpdumpSummary:
    """What tcpdump says when it ends."""

    captured: int
    received: int
    dropped: int


def statement(text: str) -> TcpdumpSummary:
    """Read it from what tcpdump printed; raises ``LabError`` where it is not there."""
    found = {name: pattern.search(text) for name, pattern in _SAYS.items()}
    numbers = {name: int(match[1]) for name, match in found.items() if match is not None}
    if len(numbers) < len(_SAYS):
        raise LabError(
            "tcpdump ended without saying how many packets it captured, received and dropped; it "
            f"printed last: {_last_line(text)}"
        )
    return TcpdumpSummary(**numbers)


def check() -> None:
    """Raise ``MissingCapability`` where there is no tcpdump."""
    if programs.find("tcpdump") is None:
        raise MissingCapability("tcpdump is not installed: apt install tcpdump, or leave its methods out")


def version() -> str:
    """Its first line, as ``tcpdump version 4.99.3``."""
    done = programs.run(["tcpdump", "--version"], capture_output=True, text=True)
    return next(iter((done.stdout + done.stderr).splitlines()), "tcpdump")


class Tcpdump:
    """tcpdump on ``interface`` of ``namespace``, bound to ``cpu``, writing ``path`` as ``settings`` say.

    ``pusher`` is where frames can be sent that come by, see :meth:`end`.
    Raises ``LabError`` when it does not begin to listen.
    """

    def __init__(
        self,
        namespace: Namespace,
        interface: str,
        path: Path,
        pusher: Namespace,
        *,
        settings: MonitorSettings,
        cpu: int | None = None,
    ) -> None:
        self._path, self._pusher, self._keep = path, pusher, settings.keep
        self._notes = path.with_suffix(".stderr")
        # -Z: writing as another user would be refused in a folder of our own.
        command = [
            "tcpdump", "-n", "-i", interface, "-s", str(settings.snap_bytes), "-Z", "root", "-w", str(path),
        ]  # fmt: skip
        if settings.tcpdump_buffer_kib is not None:
            command += ["-B", str(settings.tcpdump_buffer_kib)]

        def start() -> programs.Program[bytes]:
            with self._notes.open("xb") as notes:
                return programs.start(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=notes,
                    # A capture is nobody else's business.
                    umask=0o077,
                )

        self._process = namespace.call(start)
        try:
            if cpu is not None:
                os.sched_setaffinity(self._process.pid, {cpu})
            self._await_listening()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> RecorderReport:
        """Let it finish what the kernel holds for it, end it, and count.

        The kernel hands frames over by blocks, an unfinished one only after a second or two, and
        tcpdump forgets it when it is ended. So frames of another kind follow until the block with the
        last frame of the trial is full; they are in the file, too, and told apart when counting.
        """
        self._await_idle()
        before = self._size()
        for _ in range(_PUSHES):
            self._pusher.call(_push)
            self._await_idle()
            if self._size() > before:
                break
        else:
            raise LabError(
                f"tcpdump wrote nothing of {_PUSHES * _PUSH_FRAMES} frames that should have filled its "
                f"buffer: its file {self._path} cannot be trusted"
            )
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f"tcpdump does not end within {_PATIENCE_S:g} s: its file {self._path} cannot be trusted; "
                "see whether the disk is slow or full"
            ) from error
        said = statement(self._notes.read_text(errors="replace"))
        frames = count_frames(self._path)
        self.close()
        return RecorderReport(
            logged=frames.ip,
            lost=said.dropped,
            # Both include the frames that came last.
            not_written=max(said.captured - frames.all, 0),
        )

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if not self._keep:
            for path in (self._path, self._notes):
                path.unlink(missing_ok=True)

    def _await_listening(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        while b"listening on" not in self._notes.read_bytes():
            if self._process.poll() is not None or time.monotonic() > end:
                words = self._notes.read_text(errors="replace")
                raise LabError(f"tcpdump does not begin to listen: {_last_line(words)}")
            time.sleep(_LOOK_EVERY_S)

    def _await_idle(self) -> None:
        """Wait until it sleeps and its file has not grown between two looks."""
        end = time.monotonic() + _PATIENCE_S
        last: tuple[str, int] | None = None
        while time.monotonic() < end:
            now = (self._state(), self._size())
            if now == last and now[0] == "S":
                return
            last = now
            time.sleep(_LOOK_EVERY_S)

    def _state(self) -> str:
        # The name in parentheses may hold anything; the state follows the last one.
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def _size(self) -> int:
        with suppress(FileNotFoundError):
            return self._path.stat().st_size
        return 0


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "none")


def _push() -> None:
    """Send frames of a kind of their own down the link, slowly enough for a ring of 256."""
    frame = mac_bytes(wiring.RX_MAC) + mac_bytes(wiring.TX_MAC) + _ETHERTYPE.to_bytes(2, "big") + bytes(1500)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((wiring.TX, 0))
        for number in range(_PUSH_FRAMES):
            sender.send(frame)
            if number % 40 == 39:
                time.sleep(0.001)
