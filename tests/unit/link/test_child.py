"""The recorder's process from inside, with a recorder made up."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.link import bindings
from weirlab.link.recording import child
from weirlab.link.recording.process import FrameSource, RecorderProcess, wait_for
from weirlab.link.recording.supervisor import how
from weirlab.link.settings import RecorderSettings

ORDER = {
    "recording": {"path": "a.pcapng", "filter": "udp", "keep_files": None},
    "path": "a.part2.pcapng",
    "ring_fds": [5],
    "interface": None,
    "netns": None,
    "comment": "c",
}


class FakeRecorder:
    """Remembers what was done with it."""

    def __init__(self, broken: bool = False, ends: bool = False) -> None:
        self.done: list[str] = []
        self.broken, self.ends = broken, ends
        self.told: threading.Event | None = None
        """Until it is set, the record is not at its end."""

    def start(self) -> None:
        self.done.append("start")

    def progress(self) -> dict[str, Any]:
        self.done.append("progress")
        if self.broken:
            raise InputError("gone")
        if self.told is not None and "stop" in self.done:
            self.told.set()
        return {"n": len(self.done), **({"ended": True, "failure": "eth0 is gone."} if self.ends else {})}

    def stop(self) -> dict[str, Any]:
        self.done.append("stop")
        if self.told is not None:
            assert self.told.wait(20.0)
        return {"files": []}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    monkeypatch.setattr(
        bindings, "open_recorder", lambda recording, **more: seen.append((recording, more)) or seen[0]
    )
    return seen


def test_it_tells_how_it_goes_until_it_is_told_to_stop_and_then_what_there_is(asked: list[Any]) -> None:
    recorder = FakeRecorder()
    asked.append(recorder)
    said: list[Mapping[str, Any]] = []
    rounds = iter([False, False, True])
    child.run(ORDER, said.append, lambda: next(rounds))
    assert [next(iter(set(message) - {"at_ns"})) for message in said] == [
        "started",
        "progress",
        "progress",
        "stopped",
    ]
    assert recorder.done == ["start", "progress", "progress", "stop"]
    recording, more = asked[1]
    assert (recording.filter, str(recording.path)) == ("udp", "a.pcapng")
    assert (more["path"], more["ring_fds"], more["interface"]) == ("a.part2.pcapng", [5], None)


def test_whatever_happens_the_file_is_closed(asked: list[Any]) -> None:
    recorder = FakeRecorder(broken=True)
    asked.append(recorder)
    with pytest.raises(InputError):
        child.run(ORDER, lambda message: None, lambda: False)
    assert recorder.done[-1] == "stop"


def test_while_it_writes_what_is_left_it_tells_how_it_goes(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "PERIOD_S", 0.001)
    recorder = FakeRecorder()
    recorder.told = threading.Event()
    asked.append(recorder)
    said: list[Mapping[str, Any]] = []
    child.run(ORDER, said.append, lambda: True)
    assert "progress" in said[1]
    assert "stopped" in said[-1]


def test_when_its_source_is_at_an_end_it_finishes_the_file_and_fails(asked: list[Any]) -> None:
    asked.append(FakeRecorder(ends=True))
    said: list[Mapping[str, Any]] = []
    with pytest.raises(LabError, match="eth0 is gone"):
        child.run(ORDER, said.append, lambda: False)
    assert "stopped" in said[-1]


def test_the_frames_of_a_file_are_counted_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    head = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    frames = b"".join(struct.pack("=IIII", at_s, 0, 60, 60) + bytes(60) for at_s in (1, 2))
    path.write_bytes(head + frames + frames[:40])
    found = bindings.recorded(str(path))
    assert found is not None
    assert (found["packets"], found["cut_short"], found["bytes"]) == (2, True, path.stat().st_size)
    assert (found["first_ns"], found["last_ns"]) == (1_000_000_000, 2_000_000_000)


def test_a_file_that_is_no_capture_is_not_counted_and_one_without_a_byte_has_none(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    assert bindings.recorded(str(path)) is None
    path.write_bytes(b"")
    assert (bindings.recorded(str(path)) or {})["packets"] == 0
    path.write_bytes(b"something else")
    assert bindings.recorded(str(path)) is None


def test_a_host_without_another_descriptor_is_left_without_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[int] = []

    def refuse(pid: int) -> int:
        watched.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("os.pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        RecorderProcess(RecorderSettings(tmp_path / "a.pcapng"), tmp_path / "a.pcapng", FrameSource(), "")
    # Waited for as well: not even its entry is left.
    assert not Path(f"/proc/{watched[0]}").exists()


def test_a_process_that_cannot_record_says_why_and_ends(tmp_path: Any) -> None:
    program = RecorderProcess(
        RecorderSettings(tmp_path / "a.pcapng"), tmp_path / "a.pcapng", FrameSource(), ""
    )
    try:
        said: list[dict[str, Any]] = []
        while program.ended() is None:
            wait_for(program.descriptors(), 20.0)
            said += program.hear()
        said += program.hear()
        # Neither a ring nor an interface was given, which the engine refuses in its own way.
        assert program.ended() != 0
        assert program.last_words() or said
        assert not any("started" in message for message in said)
    finally:
        if program.ended() is None:
            program.kill()
        program.close()
        program.close()


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (0, "ended by itself"),
        (4, "failed with exit code 4"),
        (-9, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
    ],
)
def test_how_a_process_ended_is_said_in_words(returncode: int, words: str) -> None:
    assert how(returncode) == words
