"""The recorder that ``weir tap`` and ``weir log`` start, at work for one trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weirlab.base.errors import LabError
from weirlab.link import account, bindings
from weirlab.link.recording.part import RecorderRun
from weirlab.link.recording.process import FrameSource
from weirlab.link.recording.supervisor import Supervisor
from weirlab.link.settings import RecorderSettings
from weirlab.links.monitor.bed.base import MonitorGap, RecorderReport


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
