"""Recorders at work for one trial: the one of ``weir tap`` and ``weir log``, and ``tcpdump -w``."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.wiring import mac_bytes
from weirlab.link import account, bindings
from weirlab.link.recording.process import FrameSource, RecorderRun
from weirlab.link.recording.supervisor import Supervisor
from weirlab.link.settings import RecorderSettings
from weirlab.links.monitor.bed import wiring
from weirlab.links.monitor.plan import MonitorGap, MonitorSettings, RecorderReport


@dataclass(frozen=True)
class FrameCounts:
    """``ip`` are those of a trial; ``all`` includes what is not IP."""

    all: int
    ip: int


def count_frames(path: Path) -> FrameCounts:
    """Read a capture to its end, by Weir's own reader; raises ``LabError`` where that fails."""
    found = bindings.recorded(str(path))
    if found is None:
        raise LabError(f"the record {path} cannot be read: its frames cannot be counted")
    frames = int(found["packets"])
    # An empty file has frames of no kind.
    return FrameCounts(frames, frames - int(found.get("not_ip", 0)))


class OwnRecorder:
    """Weir's recorder in its own process, from when it is made until :meth:`end`.

    Raises what keeps it from beginning.
    """

    def __init__(
        self,
        recording: RecorderSettings,
        source: FrameSource,
        *,
        keep: bool = False,
        supervisor: Callable[..., Supervisor] = Supervisor,
        count: Callable[[Path], FrameCounts] = count_frames,
    ) -> None:
        self._path, self._keep, self._count = recording.path, keep, count
        self._told: list[str] = []
        self._supervisor = supervisor(recording, source, self._told.append)
        try:
            self._supervisor.begin()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        pid = self._supervisor.pid
        assert pid is not None
        return pid

    def end(self) -> RecorderReport:
        """Let it write what is there, and count that; raises ``LabError`` if it did not end in good order."""
        self._supervisor.finish()
        if self._supervisor.interrupted:
            why = "; ".join(self._told) or "the recorder ended before its time"
            raise LabError(f"{why}: its file {self._path} cannot be trusted")
        paths = [Path(file["path"]) for file in self._supervisor.files()]
        logged = sum(self._count(path).ip for path in paths if path.exists())
        return recorded_of(
            self._supervisor.parts, self._supervisor.gaps(0, 0), self._supervisor.failures, logged
        )

    def close(self) -> None:
        self._supervisor.close()
        if not self._keep:
            for part in self._supervisor.parts:
                for path in (part.path, *map(Path, part.names)):
                    path.unlink(missing_ok=True)


def recorded_of(
    parts: Sequence[RecorderRun], gaps: Sequence[account.RecordGap], failures: Sequence[str], logged: int
) -> RecorderReport:
    """What the product tells of a record, over all its interfaces."""
    interfaces = [each for part in parts for each in part.recorded]
    return RecorderReport(
        logged=logged,
        seen=sum(interface.seen for interface in interfaces),
        lost=sum(interface.lost for interface in interfaces),
        not_written=sum(interface.not_written for interface in interfaces),
        gaps=tuple(MonitorGap(gap.from_ns, gap.to_ns, gap.frames or 0, gap.stage) for gap in gaps),
        failure="; ".join(failures),
    )


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
