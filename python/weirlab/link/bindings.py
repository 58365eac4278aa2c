"""What the link monitor needs from the engine, so that it can be tested without one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from weirlab.base import programs
from weirlab.base.extras import engine_needed
from weirlab.link.settings import RING_BYTES, SNAP_BYTES, RecorderSettings, TapSettings

COUNT_S: Final = 120.0
"""Time limit for counting the frames in the files of a recorder that died."""


class Tap(Protocol):
    """``weirlab._engine.Tap``."""

    @property
    def xdp_mode(self) -> str: ...

    @property
    def warnings(self) -> Sequence[str]: ...

    def counters(self) -> dict[str, Any]: ...

    def ring_fds(self) -> list[int]: ...

    def close(self) -> None: ...


class Recorder(Protocol):
    """``weirlab._engine.Recorder``."""

    def start(self) -> None: ...

    def name_connections(self, connections: Sequence[tuple[tuple[str, int], tuple[str, int]]]) -> None: ...

    def progress(self) -> dict[str, Any]: ...

    def stop(self) -> dict[str, Any]: ...


def open_tap(settings: TapSettings) -> Tap:
    """Open the XDP bridge that ``settings`` describe. Raises ``MissingCapability`` if XDP cannot run."""
    with engine_needed():
        from weirlab._engine import Tap as EngineTap
    recording = settings.recording
    filtered = recording is not None and bool(recording.filter)
    ring_bytes = recording.ring_bytes if recording is not None else RING_BYTES
    more: dict[str, Any] = {"ring_bytes": settings.ring_bytes or ring_bytes}
    if recording is not None:
        # A filter has to see whole frames; the recorder cuts what it keeps of them.
        more["snap_bytes"] = SNAP_BYTES if filtered else recording.snap_bytes
    return EngineTap(
        a=settings.a,
        b=settings.b,
        netns=settings.netns,
        ring=recording is not None,
        mirror=settings.mirror,
        logger_mac=settings.logger_mac,
        link_first=not (settings.whole or filtered),
        **more,
    )


def open_recorder(
    recording: RecorderSettings,
    *,
    path: str,
    ring_fds: Sequence[int] = (),
    interface: str | None = None,
    netns: str | None = None,
    comment: str = "",
) -> Recorder:
    """Open a recorder that writes to ``path`` from a ring or an interface."""
    with engine_needed():
        from weirlab._engine import Recorder as EngineRecorder
    return EngineRecorder(
        path,
        ring_fds=ring_fds,
        interface=interface,
        netns=netns,
        filter=recording.filter,
        tcp_port=recording.tcp_port,
        snap_bytes=recording.snap_bytes,
        rotate_bytes=recording.rotate_bytes,
        rotate_seconds=recording.rotate_seconds,
        most_bytes=recording.most_bytes,
        keep_files=recording.keep_files,
        compress="zstd" if recording.zstd else "",
        ring_bytes=recording.ring_bytes,
        cpu=recording.cpu,
        comment=comment,
    )


def recorded(path: str) -> dict[str, Any] | None:
    """``packets``, ``not_ip``, ``first_ns``, ``last_ns``, ``cut_short``, ``bytes`` of a capture, or None.

    A separate process of the lowest priority reads the file, which may be large. Also None if that takes
    longer than ``COUNT_S``.
    """
    try:
        size_bytes = Path(path).stat().st_size
        if size_bytes == 0:
            return {"packets": 0, "first_ns": 0, "last_ns": 0, "cut_short": True, "bytes": 0}
        done = programs.run(
            programs.own("weirlab.link.recording.child", "count", path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COUNT_S,
            check=True,
            start_new_session=True,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return {**found, "bytes": size_bytes} if isinstance(found, dict) else None
