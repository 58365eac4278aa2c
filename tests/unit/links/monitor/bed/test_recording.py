"""Recorders in processes of their own that do not answer: an error that names the file, in time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.lab.linux.namespace import Namespace
from weirlab.link import bindings
from weirlab.link.recording.process import FrameSource
from weirlab.link.recording.supervisor import RecorderClocks, RecorderEnvironment, Supervisor
from weirlab.link.settings import RecorderSettings
from weirlab.links.monitor.bed import recording as tcpdump
from weirlab.links.monitor.bed.recording import FrameCounts, OwnRecorder, Tcpdump, count_frames
from weirlab.links.monitor.plan import MonitorGap, MonitorSettings
from weirlab.testing.link import FakeChild, interface


def child(monkeypatch: pytest.MonkeyPatch, code: str) -> list[subprocess.Popen[bytes]]:
    """Lets recorders run ``code`` instead; the processes, as they are started."""
    real, started = subprocess.Popen, []

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        started.append(real([sys.executable, "-c", code], **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(tcpdump.programs, "start", start)
    return started


@dataclass
class World:
    """The recorder's process as it is launched, and a clock."""

    script: dict[str, Any] = field(default_factory=dict)
    child: FakeChild | None = None
    now_s: float = 100.0

    def opened(self, path: Path, **more: Any) -> OwnRecorder:
        def launch(recording: RecorderSettings, path: Path, source: FrameSource, comment: str) -> FakeChild:
            path.touch()
            self.child = FakeChild(recording, path, source, **self.script)
            return self.child

        means = RecorderEnvironment(
            launch=launch, wait=self.wait, clocks=RecorderClocks(clock_s=lambda: self.now_s)
        )
        supervisor = partial(Supervisor, means=means)
        return OwnRecorder(
            RecorderSettings(path, cpu=2), FrameSource(ring_fds=(3,)), supervisor=supervisor, **more
        )

    def wait(self, descriptors: Sequence[int], timeout_s: float) -> None:
        self.now_s += timeout_s


def test_what_the_products_recorder_tells_is_what_was_recorded(tmp_path: Path) -> None:
    world, path = World(), tmp_path / "a.pcapng"
    recorder = world.opened(path, count=lambda path: FrameCounts(15, 14))
    assert world.child is not None
    world.child.will_stop(
        9,
        interface("a", 10, lost=1, not_written=1),
        interface("b", 5),
        files=[{"path": str(path), "frames": 14, "first_ns": 1, "last_ns": 8, "bytes": 9}],
        gaps=[{"from_ns": 1, "to_ns": 2, "interface": "a", "frames": 1, "stage": "ring"}],
    )
    assert recorder.pid == world.child.pid
    found = recorder.end()
    assert (found.logged, found.seen, found.lost, found.not_written) == (14, 15, 1, 1)
    assert found.gaps == (MonitorGap(1, 2, 1, "ring"),)
    recorder.close()
    assert not path.exists()


def test_a_record_that_is_to_be_kept_stays(tmp_path: Path) -> None:
    world = World()
    recorder = world.opened(tmp_path / "a.pcapng", keep=True)
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.pcapng"]


def test_what_a_recorder_says_when_it_fails_is_told_and_nothing_stays(tmp_path: Path) -> None:
    world = World({"said": [{"error": "no such ring", "kind": "LabError"}], "returncode": 4})
    with pytest.raises(LabError, match="no such ring"):
        world.opened(tmp_path / "a.pcapng")
    assert list(tmp_path.iterdir()) == []


def test_a_recorder_that_says_nothing_is_ended(tmp_path: Path) -> None:
    world = World({"said": []})
    with pytest.raises(LabError, match="did not begin within 60 s"):
        world.opened(tmp_path / "a.pcapng")
    assert world.child is not None
    assert world.child.killed


def test_the_file_of_a_recorder_that_does_not_end_cannot_be_trusted(tmp_path: Path) -> None:
    world = World({"needs": 1000, "stuck": True})
    recorder = world.opened(tmp_path / "a.pcapng")
    with pytest.raises(LabError, match=r"killed by SIGKILL.*: its file .*a\.pcapng cannot be trusted"):
        recorder.end()
    recorder.close()


def test_a_record_that_cannot_be_read_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bindings, "recorded", lambda path: None)
    with pytest.raises(LabError, match=r"a\.pcap cannot be read"):
        count_frames(tmp_path / "a.pcap")
    monkeypatch.setattr(bindings, "recorded", lambda path: {"packets": 7, "not_ip": 3})
    assert count_frames(tmp_path / "a.pcap") == FrameCounts(7, 4)


def test_a_tcpdump_that_does_not_end_is_an_error_that_names_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Here(Namespace):
        """This very namespace, where nothing is sent."""

        def __init__(self) -> None: ...

        def call(self, function):  # type: ignore[no-untyped-def]
            return function()

    code = (
        "import signal, sys, threading; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "print('listening on in0', file=sys.stderr, flush=True); threading.Event().wait()"
    )
    child(monkeypatch, code)
    monkeypatch.setattr(tcpdump, "_push", lambda: None)
    sizes = iter(range(100))
    monkeypatch.setattr(Tcpdump, "_size", lambda self: next(sizes))
    monkeypatch.setattr(Tcpdump, "_await_idle", lambda self: None)
    recorder = Tcpdump(Here(), "in0", tmp_path / "a.pcap", Here(), settings=MonitorSettings("tcpdump-bridge"))
    monkeypatch.setattr(tcpdump, "_PATIENCE_S", 0.1)
    try:
        with pytest.raises(LabError, match=r"tcpdump does not end within 0.1 s: its file .*a\.pcap"):
            recorder.end()
    finally:
        recorder.close()
