"""A fake tap and fake recorders, to test the link monitor without interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab.link.recording.process import FrameSource
from weirlab.link.settings import RecorderSettings


def side(
    received: int = 0, not_forwarded: int = 0, not_copied: int = 0, frame_bytes: int = 100
) -> dict[str, Any]:
    """Counters of one end; frames that are not lost were forwarded and copied."""
    return {
        "received": received,
        "forwarded": received - not_forwarded,
        "not_forwarded": not_forwarded,
        "copied": received - not_copied,
        "not_copied": not_copied,
        "cut": 0,
        "bytes": received * frame_bytes,
    }


@dataclass
class FakeTap:
    """A bridge whose counters a test sets, also after it was closed."""

    a: dict[str, Any] = field(default_factory=side)
    b: dict[str, Any] = field(default_factory=side)
    mirror: dict[str, int] = field(default_factory=lambda: {"sent": 0, "not_sent": 0, "waiting": 0})
    fds: tuple[int, ...] = (3,)
    xdp_mode: str = "native"
    warnings: tuple[str, ...] = ()
    closed: bool = False
    at_the_cut: dict[str, Any] | None = None
    """The counters of ``a`` once the bridge is removed: frames still cross until then."""
    assumed: bool = False

    def counters(self) -> dict[str, Any]:
        return {"a": dict(self.a), "b": dict(self.b), "mirror": dict(self.mirror), "assumed": self.assumed}

    def ring_fds(self) -> list[int]:
        return list(self.fds)

    def close(self) -> None:
        self.closed = True
        self.a = self.at_the_cut or self.a


def interface(
    name: str, seen: int, *, lost: int = 0, filtered: int = 0, not_written: int = 0
) -> dict[str, Any]:
    """A recorder's counters for one interface; frames neither filtered nor refused were written."""
    written = seen - filtered - not_written
    return {
        "name": name,
        "seen": seen,
        "lost": lost,
        "filtered": filtered,
        "written": written,
        "not_written": not_written,
    }


@dataclass
class FakeChild:
    """A recorder's process that reports and does what a test sets."""

    recording: RecorderSettings
    path: Path
    source: FrameSource
    pid: int = 4711
    said: list[dict[str, Any]] = field(default_factory=lambda: [{"started": True}])
    returncode: int | None = None
    at_the_end: list[dict[str, Any]] = field(default_factory=list)
    """What it reports when it is asked to finish; then it ends."""
    errors: str = ""
    killed: bool = False
    needs: int = 0
    """How often it must be polled after it was asked to finish until it has; it writes a frame in between."""
    stuck: bool = False
    """Whether it writes nothing during that time."""
    _asked: bool = False

    def progress(self, at_ns: int, *interfaces: dict[str, Any], failure: str = "", size: int = 0) -> None:
        """Let it report its progress."""
        self.said.append({"at_ns": at_ns, "progress": self._values(interfaces, failure, size)})

    def will_stop(
        self,
        at_ns: int,
        *interfaces: dict[str, Any],
        files: Sequence[dict[str, Any]] = (),
        gaps: Sequence[dict[str, Any]] = (),
        failure: str = "",
        ended: bool = False,
    ) -> None:
        """Set what it will report at its end."""
        values = {
            **self._values(interfaces, failure, 0),
            "ended": ended,
            "files": list(files),
            "gaps": list(gaps),
        }
        self.at_the_end = [{"at_ns": at_ns, "stopped": values}]

    def descriptors(self) -> Sequence[int]:
        return ()

    def hear(self) -> list[dict[str, Any]]:
        said, self.said = self.said, []
        return said

    def ended(self) -> int | None:
        if self._asked and self.returncode is None:
            self._go_on()
        return self.returncode

    def ask_to_finish(self) -> None:
        if not self.at_the_end:
            self.will_stop(0)
        self._asked = True
        self._go_on()

    def _go_on(self) -> None:
        if self.needs > 0:
            self.needs -= 1
            self.progress(self.needs, interface("a", 1000 if self.stuck else 1000 - self.needs))
            return
        self.said += self.at_the_end
        self.returncode = 0

    def kill(self) -> None:
        self.killed = True
        self.returncode = -9

    def last_words(self) -> str:
        return self.errors

    def close(self) -> None:
        pass

    def _values(self, interfaces: Sequence[dict[str, Any]], failure: str, size: int) -> dict[str, Any]:
        return {"interfaces": list(interfaces), "bytes": size, "file": str(self.path), "failure": failure}


@dataclass
class FakeWatcher:
    """Keeps everything that it was shown."""

    shown: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, snapshot: Any) -> None:
        self.shown.append(snapshot)

    def note(self, message: str) -> None:
        self.notes.append(message)
