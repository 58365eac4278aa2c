"""Weir's own recorder, in this process or, so that it can be stopped, in a child."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from weirlab import programs
from weirlab.errors import LabError
from weirlab.studies.monitor.bed.base import Recorded, RecorderLike, recorded_of
from weirlab.studies.monitor.bed.counting import Frames, count_frames

_PATIENCE_S: Final = 30.0
_RECORDING: Final = b"recording\n"

OpenRecorder = Callable[..., RecorderLike]


def open_recorder(path: str, **options: Any) -> RecorderLike:
    """``weirlab._engine.Recorder``, when it is needed."""
    try:
        from weirlab._engine import Recorder
    except ImportError as error:
        raise LabError(f"the engine is not built ({error}); make build builds it") from error
    return Recorder(path, **options)


class InProcess:
    """A recorder in a thread of this process."""

    def __init__(
        self,
        path: Path,
        options: dict[str, Any],
        *,
        keep: bool = False,
        opener: OpenRecorder = open_recorder,
        count: Callable[[Path], Frames] = count_frames,
    ) -> None:
        self._path, self._keep, self._count = path, keep, count
        self._recorder: RecorderLike | None = opener(str(path), **options)
        self._recorder.start()

    @property
    def pid(self) -> int:
        return os.getpid()

    def end(self) -> Recorded:
        assert self._recorder is not None
        recorder, self._recorder = self._recorder, None
        return counted(recorder.stop(), self._count, self._keep)

    def close(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.stop()
        if not self._keep:
            self._path.unlink(missing_ok=True)


class InChild:
    """A recorder in a process of its own, which inherits the descriptors of a ring."""

    def __init__(
        self,
        path: Path,
        options: dict[str, Any],
        *,
        keep: bool = False,
        count: Callable[[Path], Frames] = count_frames,
    ) -> None:
        self._path, self._keep, self._count = path, keep, count
        fds: Sequence[int] = options.get("ring_fds", ())
        for fd in fds:
            os.set_inheritable(fd, True)
        request = json.dumps({"path": str(path), "options": {**options, "ring_fds": list(fds)}})
        self._process: programs.Program[bytes] = programs.start(
            programs.own("weirlab.studies.monitor.bed.child", request),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(fds),
        )
        try:
            self._await_recording()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> Recorded:
        try:
            answer, said = self._process.communicate(b"stop\n", timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f"the recorder's process does not end within {_PATIENCE_S:g} s: its file {self._path} "
                "cannot be trusted; see whether the disk is slow or full"
            ) from error
        if self._process.returncode != 0:
            raise LabError(f"the recorder of {self._path} failed: {_last_line(said)}")
        return counted(json.loads(answer), self._count, self._keep)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        if not self._keep:
            self._path.unlink(missing_ok=True)

    def _await_recording(self) -> None:
        if first_line(self._process, _PATIENCE_S) == _RECORDING:
            return
        self._process.kill()
        _, said = self._process.communicate()
        raise LabError(f"the recorder of {self._path} does not begin: {_last_line(said)}")


def first_line(process: programs.Program[bytes], limit_s: float) -> bytes:
    """The first line that ``process`` says, as far as it came within ``limit_s``; then it may be silent."""
    assert process.stdout is not None
    said, end = b"", time.monotonic() + limit_s
    while not said.endswith(b"\n") and (left := end - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0]:
            # Byte for byte from the descriptor: what follows is for who reads on.
            more = os.read(process.stdout.fileno(), 1)
            if not more:
                break
            said += more
    return said


def counted(raw: dict[str, Any], count: Callable[[Path], Frames], keep: bool) -> Recorded:
    """What a recorder answered, and what its files hold; they are removed unless kept."""
    files = [Path(file["path"]) for file in raw["files"]]
    logged = sum(count(path).ip for path in files if path.exists())
    if not keep:
        for path in files:
            path.unlink(missing_ok=True)
    return recorded_of(raw, logged)


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"
