"""The recorder's process: started, its reports read without waiting, and what is known about it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol

from weirlab.base import programs
from weirlab.link.account import RecorderCounts, RecordGap
from weirlab.link.settings import RecorderSettings, bare_name

_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class FrameSource:
    """Where the recorder's frames come from: the tap's ring, or an interface."""

    ring_fds: tuple[int, ...] = ()
    interface: str | None = None
    netns: str | None = None


class Child(Protocol):
    """A recorder's process."""

    @property
    def pid(self) -> int: ...

    def descriptors(self) -> Sequence[int]:
        """Descriptors that become readable when it has reported something, or died."""

    def hear(self) -> list[dict[str, Any]]:
        """Its messages since the last call, without waiting."""

    def ended(self) -> int | None:
        """None while it runs; else how it ended, as ``subprocess.Popen.returncode``."""

    def ask_to_finish(self) -> None:
        """Tell it to write what is left and end; continues it if it was stopped."""

    def kill(self) -> None:
        """End it at once."""

    def last_words(self) -> str:
        """The last line it wrote to standard error, once it has ended."""

    def close(self) -> None:
        """Close its pipes, once it has ended."""


class RecorderProcess:
    """The program of :mod:`weirlab.link.recording.child`.

    It runs in its own session: a signal to this process's group does not reach it, and one that reaches it
    does not reach the bridge. It inherits the ring's descriptors and nothing that belongs to the bridge.
    Raises ``OSError`` if the host has no process or descriptor left for it.
    """

    def __init__(self, recording: RecorderSettings, path: Path, source: FrameSource, comment: str) -> None:
        order = {
            "recording": {**asdict(recording), "path": str(recording.path)},
            "path": str(path),
            "ring_fds": list(source.ring_fds),
            "interface": source.interface,
            "netns": source.netns,
            "comment": comment,
        }
        self._program: programs.Program[bytes] = programs.start(
            programs.own("weirlab.link.recording.child", json.dumps(order)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=source.ring_fds,
            start_new_session=True,
        )
        self._said = b""
        self._errors = b""
        self._life = -1
        try:
            for stream in (self._program.stdout, self._program.stderr):
                os.set_blocking(_pipe(stream).fileno(), False)
            self._life = os.pidfd_open(self._program.pid)
        except OSError:
            # Nothing could read its reports.
            self.kill()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._program.pid

    def descriptors(self) -> Sequence[int]:
        """Its standard output and its pidfd."""
        return (_pipe(self._program.stdout).fileno(), self._life)

    def hear(self) -> list[dict[str, Any]]:
        """Whole lines only; a line that its death cut off is dropped."""
        self._errors = (self._errors + _drain(_pipe(self._program.stderr)))[-_READ_BYTES:]
        self._said += _drain(_pipe(self._program.stdout))
        *lines, self._said = self._said.split(b"\n")
        messages: list[dict[str, Any]] = []
        for line in lines:
            # Anything else printed on standard output is not a message.
            with suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    messages.append(message)
        return messages

    def ended(self) -> int | None:
        """How it ended, if it has."""
        return self._program.poll()

    def ask_to_finish(self) -> None:
        """Close its standard input, which tells it to end."""
        with suppress(OSError):
            _pipe(self._program.stdin).close()
        # A stopped process (SIGSTOP) would never finish.
        if self.ended() is None and _is_stopped(self.pid):
            self._program.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait for the process, which takes the kernel little time."""
        self._program.kill()
        self._program.wait()

    def last_words(self) -> str:
        """The last line on standard error: of a failed interpreter, the exception."""
        self.hear()
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """May be called twice."""
        for stream in (self._program.stdin, self._program.stdout, self._program.stderr):
            with suppress(OSError):
                _pipe(stream).close()
        life, self._life = self._life, -1
        if life >= 0:
            os.close(life)


def wait_for(descriptors: Sequence[int], timeout_s: float) -> None:
    """Wait until one of ``descriptors`` can be read, or the time is over."""
    select.select(descriptors, [], [], max(timeout_s, 0.0))


def _drain(stream: IO[bytes]) -> bytes:
    taken = b""
    if stream.closed:
        return taken
    while chunk := _read(stream.fileno()):
        taken += chunk
    return taken


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return b""


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """``stream``, which exists because the program was started with pipes."""
    assert stream is not None
    return stream


@dataclass
class RecorderRun:
    """One recorder, the ``number``-th of its session from 0."""

    number: int
    path: Path
    started_ns: int
    launched_ns: int = 0
    ended_ns: int | None = None
    died: str = ""
    """How, if it did not end in good order."""
    early: bool = False
    """It or its source ended in good order, but unasked."""
    started: bool = False
    """Whether it began to record."""
    uncounted: bool = False
    """It died, and its files could not be counted."""
    last_report_ns: int = 0
    recorded: tuple[RecorderCounts, ...] = ()
    failure: str = ""
    """What it currently reports as failing, e.g. a full disk."""
    complaint: str = ""
    """The last failure it reported."""
    file: str = ""
    bytes: int = 0
    names: list[str] = field(default_factory=list)
    """Files it was seen to write."""
    files: tuple[dict[str, Any], ...] = ()
    gaps: tuple[RecordGap, ...] = ()
    first_frame_ns: int | None = None
    last_frame_ns: int | None = None

    def hear(self, at_ns: int, values: Mapping[str, Any]) -> None:
        """Take in a recorder's ``progress``, or what its ``stop`` returned."""
        self.last_report_ns = at_ns
        self.recorded = tuple(RecorderCounts.of(each) for each in values["interfaces"])
        self.failure = str(values["failure"]).rstrip(".")
        self.complaint = self.failure or self.complaint
        self.early = self.early or bool(values.get("ended"))
        self.bytes = int(values["bytes"])
        self.file = str(values["file"]) or self.file
        if self.file and self.file not in self.names:
            self.names.append(self.file)
        if "files" in values:
            self.files = tuple(dict(each) for each in values["files"])
            self.gaps = tuple(RecordGap.of(each) for each in values["gaps"])
            with_frames = [file for file in self.files if file["frames"]]
            if with_frames:
                self.first_frame_ns = int(with_frames[0]["first_ns"])
                self.last_frame_ns = int(with_frames[-1]["last_ns"])

    def wrote(self, name: str) -> bool:
        """Whether a file of this name is one of its files, judging by the names that rotation gives."""
        stem, endings = bare_name(self.path)
        rotated = rf"{re.escape(stem)}-\d{{5,}}-\d{{8}}T\d{{6}}{re.escape(endings)}"
        return name == self.path.name or re.fullmatch(rotated, name) is not None

    def salvage(self, found: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Replace the last report of a recorder that died by what its files really contain.

        It may have written more since, or less, because its last frames were not on their way to the disk
        yet. ``found`` has each file's name and, if it can be read, ``packets``, ``first_ns``, ``last_ns``.
        """
        told = sum(each.written for each in self.recorded)
        readable = {name: values for name, values in found if values is not None}
        # Files that rotation has since removed had still been written.
        kept = len(readable) == len(found)
        frames = sum(int(values["packets"]) for values in readable.values()) if kept else told
        left = tuple(
            replace(each, seen=each.filtered + each.not_written, written=0) for each in self.recorded
        )
        self.recorded = (
            *left,
            RecorderCounts(f"part {self.number + 1}, whose recorder died", seen=frames, written=frames),
        )
        self.files = tuple(
            {
                "path": name,
                "frames": int(values["packets"]),
                "bytes": int(values.get("bytes", 0)),
                "first_ns": int(values["first_ns"] or 0),
                "last_ns": int(values["last_ns"] or 0),
                "cut_short": bool(values["cut_short"]),
            }
            for name, values in readable.items()
        )
        with_frames = [file for file in self.files if file["frames"]]
        if with_frames:
            self.first_frame_ns = min(with_frame["first_ns"] for with_frame in with_frames)
            self.last_frame_ns = max(with_frame["last_ns"] for with_frame in with_frames)

    def document(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "part": self.number + 1,
            "path": str(self.path),
            "started_ns": self.started_ns,
            "ended_ns": self.ended_ns,
            "died": self.died,
            "ended_early": self.early,
            "uncounted": self.uncounted,
            "failure": self.complaint,
        }


def gap_behind(
    part: RecorderRun, following: RecorderRun | None, frames: int | None, *, ring: bool, end_ns: int
) -> RecordGap:
    """The gap left by the recorder of ``part``, which ended before the session did, at ``end_ns``.

    With a ring, the next recorder continues where this one stopped reading, so nothing that came after its
    death is missing. With an interface, everything is missing until the next one listens.
    """
    ended_ns = part.ended_ns or part.last_report_ns
    if following is None:
        to_ns = end_ns
    elif not ring:
        to_ns = following.started_ns
    elif following.first_frame_ns is not None:
        to_ns = min(ended_ns, following.first_frame_ns)
    else:
        to_ns = ended_ns
    from_ns = part.last_frame_ns or part.started_ns
    ended = part.died or "ended before its time" + (f": {part.complaint}" if part.complaint else "")
    return RecordGap(
        from_ns=min(from_ns, to_ns),
        to_ns=to_ns,
        stage="recorder",
        frames=frames,
        reason=f"the recorder of {part.path.name} {ended}",
    )
