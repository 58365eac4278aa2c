"""Recorders that die, stand still or give up, without processes."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.link import bindings
from weirlab.link.account import RecorderCounts, added
from weirlab.link.recording import supervisor
from weirlab.link.recording.process import FrameSource
from weirlab.link.recording.supervisor import RecorderClocks, RecorderEnvironment, Supervisor
from weirlab.link.settings import RecorderSettings
from weirlab.testing.link import FakeChild, interface

END_NS = int(900e9)
"""When the session ends."""


@dataclass
class World:
    """Children as they are launched, a clock, and the files they left."""

    children: list[FakeChild] = field(default_factory=list)
    scripts: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    now_s: float = 100.0
    refusals: list[Exception] = field(default_factory=list)
    """Of the host, when a recorder is to be started; the first start is granted."""

    def wait(self, descriptors: Sequence[int], timeout_s: float) -> None:
        self.now_s += timeout_s

    def supervisor(
        self, source: FrameSource | None = None, look: supervisor.Look | None = None
    ) -> Supervisor:
        def launch(
            recording: RecorderSettings, path: Path, from_where: FrameSource, comment: str
        ) -> FakeChild:
            if self.children and self.refusals:
                raise self.refusals.pop(0)
            script = self.scripts.pop(0) if self.scripts else {}
            self.children.append(FakeChild(recording, path, from_where, **script))
            return self.children[-1]

        return Supervisor(
            RecorderSettings(Path("link.pcapng")),
            source or FrameSource(ring_fds=(3,)),
            self.told.append,
            means=RecorderEnvironment(
                launch,
                look or self.files.get,
                self.wait,
                RecorderClocks(lambda: int(self.now_s * 1e9), lambda: self.now_s),
            ),
        )


def recorded(supervisor: Supervisor) -> tuple[RecorderCounts, ...]:
    """By interface, all recorders together."""
    return added(part.recorded for part in supervisor.parts)


@pytest.fixture
def world() -> World:
    return World()


def test_a_recorder_that_refuses_to_begin_says_why_in_its_own_words(world: World) -> None:
    world.scripts = [
        {"said": [{"error": "filter 'upd': syntax error", "kind": "InputError"}], "returncode": 2}
    ]
    with pytest.raises(InputError, match="filter 'upd': syntax error"):
        world.supervisor().begin()
    world.scripts = [{"said": [], "returncode": 1, "errors": "ImportError: no engine"}]
    with pytest.raises(LabError, match="exit code 1 before it began: ImportError: no engine"):
        world.supervisor().begin()


def test_what_a_recorder_says_is_counted(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.children[0].progress(5, interface("a", 10, filtered=3), size=1000)
    recorder.tick()
    assert recorded(recorder) == (RecorderCounts("a", seen=10, filtered=3, written=7),)
    assert recorder.current() == ("link.pcapng", 1000)
    file = {"path": "link.pcapng", "frames": 12, "first_ns": 1, "last_ns": 8, "bytes": 9}
    world.children[0].will_stop(9, interface("a", 12), files=[file])
    recorder.finish()
    assert recorded(recorder) == (RecorderCounts("a", seen=12, written=12),)
    assert [file["frames"] for file in recorder.files()] == [12]
    assert not recorder.interrupted
    assert recorder.gaps(None, END_NS) == ()


def test_a_recorder_that_dies_is_followed_by_another_that_writes_elsewhere(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.children[0].progress(5, interface("a", 10))
    world.now_s += 60
    world.children[0].returncode = -9
    recorder.tick()
    assert [str(child.path) for child in world.children] == ["link.pcapng", "link.part2.pcapng"]
    assert world.told == [
        "the recorder was killed by SIGKILL; the link is not affected; another writes to link.part2.pcapng"
    ]
    assert recorder.interrupted
    recorder.close()


def test_the_gap_lies_between_the_last_frame_written_and_the_first_of_the_next_recorder(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.children[0].progress(5, interface("a", 10))
    world.files["link.pcapng"] = {"packets": 8, "first_ns": 1, "last_ns": 70, "cut_short": True}
    world.now_s = 200.0
    world.children[0].returncode = -9
    recorder.tick()
    world.children[1].will_stop(
        300, interface("a", 4), files=[{"path": "p2", "frames": 4, "first_ns": 90, "last_ns": 99, "bytes": 1}]
    )
    recorder.finish()
    (gap,) = recorder.gaps(3, END_NS)
    assert (gap.from_ns, gap.to_ns, gap.frames, gap.stage) == (70, 90, 3, "recorder")
    assert "killed by SIGKILL" in gap.reason
    # What is in the file counts, not what the recorder last said.
    assert sum(each.written for each in recorded(recorder)) == 8 + 4
    assert recorder.gaps(0, END_NS) == ()


def test_from_an_interface_everything_is_missing_until_the_next_recorder_listens(world: World) -> None:
    recorder = world.supervisor(FrameSource(interface="eth0"))
    recorder.begin()
    world.children[0].progress(5, interface("eth0", 10))
    world.files["link.pcapng"] = {"packets": 10, "first_ns": 1, "last_ns": 70, "cut_short": False}
    world.now_s = 200.0
    world.children[0].returncode = -11
    recorder.tick()
    world.now_s = 201.0
    recorder.tick()
    world.children[1].will_stop(int(300e9), interface("eth0", 4))
    recorder.finish()
    (gap,) = recorder.gaps(None, END_NS)
    assert (gap.from_ns, gap.to_ns, gap.frames) == (70, int(201e9), None)


def test_a_recorder_that_was_asked_to_end_by_somebody_else_is_followed_without_a_gap(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.children[0].will_stop(5, interface("a", 10))
    world.children[0].ask_to_finish()
    recorder.tick()
    assert len(world.children) == 2
    world.children[1].will_stop(9, interface("a", 5))
    recorder.finish()
    # The ring kept what came in between.
    assert recorder.interrupted
    assert recorder.gaps(0, END_NS) == ()


def test_recorders_that_die_young_are_started_again_a_few_times_with_growing_pauses(world: World) -> None:
    world.scripts = [{} for _ in range(20)]
    recorder = world.supervisor()
    recorder.begin()
    pauses = []
    for _ in range(supervisor.TRIES + 1):
        world.children[-1].returncode = 1
        recorder.tick()
        began_s, launched = world.now_s, len(world.children)
        if recorder.pid is None and not recorder.troubles()[0].startswith("no further recorder is started"):
            assert recorder.troubles() == ("no recorder is running just now",)
            while len(world.children) == launched:
                world.now_s += 0.25
                recorder.tick()
            pauses.append(world.now_s - began_s)
    assert pauses == [0.5, 1.0, 2.0, 4.0]
    assert len(world.children) == 1 + supervisor.TRIES
    assert world.told[-1] == f"{recorder.troubles()[0]}; the link is not affected"
    (trouble,) = recorder.troubles()
    assert trouble == (
        "no further recorder is started: 6 failed in a row, and the last one failed with exit code 1"
    )
    recorder.tick()
    recorder.finish()
    assert len(world.children) == 1 + supervisor.TRIES


def test_one_that_stands_still_is_named_with_its_process(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    assert recorder.troubles() == ()
    world.now_s += 3
    assert recorder.troubles() == ("the recorder has been silent for 3 s (process 4711)",)
    world.children[0].progress(5, interface("a", 1), failure="No space left on /data.")
    recorder.tick()
    assert recorder.troubles() == ("No space left on /data",)
    recorder.close()
    assert (world.children[0].returncode, world.children[0].killed) == (0, False)


def test_files_that_rotation_removed_meanwhile_still_count_as_written(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    child = world.children[0]
    child.progress(5, interface("a", 10))
    child.path = Path("second.pcapng")
    child.progress(6, interface("a", 20))
    world.files["second.pcapng"] = {"packets": 9, "first_ns": 50, "last_ns": 60, "cut_short": True}
    child.returncode = -9
    recorder.tick()
    recorder.finish()
    assert sum(each.written for each in recorded(recorder)) == 20


def test_a_host_without_room_for_another_recorder_is_asked_again_later(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.refusals = [
        OSError(errno.EAGAIN, "Resource temporarily unavailable"),
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
    ]
    world.now_s += 60
    world.children[0].returncode = -9
    for _ in range(40):
        recorder.tick()
        world.now_s += 0.25
    assert [str(child.path) for child in world.children] == ["link.pcapng", "link.part2.pcapng"]
    assert len(recorder.parts) == 2
    assert [told for told in world.told if "Too many open files" in told]
    recorder.close()


def test_a_host_that_never_has_room_again_does_not_end_the_bridge(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.refusals = [OSError(errno.ENOMEM, "Cannot allocate memory") for _ in range(50)]
    world.children[0].returncode = -9
    for _ in range(400):
        recorder.tick()
        world.now_s += 0.25
    (trouble,) = recorder.troubles()
    assert trouble.startswith("no further recorder is started: 6 failed in a row")
    recorder.finish()
    (gap,) = recorder.gaps(7, END_NS)
    assert (gap.frames, gap.to_ns) == (7, END_NS)


def test_words_of_a_recorder_that_make_no_sense_do_not_end_the_bridge(world: World) -> None:
    recorder = world.supervisor()
    recorder.begin()
    world.children[0].said += [{"at_ns": "x", "progress": {}}, {"at_ns": 1, "progress": 7}, {"stopped": None}]
    recorder.tick()
    world.children[0].progress(5, interface("a", 10))
    recorder.tick()
    assert recorded(recorder) == (RecorderCounts("a", seen=10, written=10),)
    recorder.close()


def test_one_that_writes_what_is_left_is_given_the_time_it_needs(world: World) -> None:
    world.scripts = [{"needs": 1000}]
    recorder = world.supervisor()
    recorder.begin()
    looks: list[float] = []
    recorder.finish(lambda: looks.append(world.now_s))
    assert looks[-1] - looks[0] > 2 * supervisor.PATIENCE_S
    assert not world.children[0].killed
    assert not recorder.interrupted


def test_one_that_gets_nothing_done_at_its_end_is_killed_after_a_while(world: World) -> None:
    world.scripts = [{"needs": 1000, "stuck": True}]
    recorder = world.supervisor()
    recorder.begin()
    recorder.finish()
    assert world.children[0].killed
    assert recorder.parts[0].died == "was killed by SIGKILL"


def test_a_source_that_came_to_an_end_is_a_gap_until_the_end_of_the_session(world: World) -> None:
    gone = {"said": [{"error": "eth0 is gone.", "kind": "LabError"}], "returncode": 4}
    world.scripts = [{}, *[gone for _ in range(20)]]
    recorder = world.supervisor(FrameSource(interface="eth0"))
    recorder.begin()
    file = {"path": "link.pcapng", "frames": 4, "first_ns": 1, "last_ns": 70, "bytes": 9}
    world.children[0].will_stop(80, interface("eth0", 4), files=[file])
    world.children[0].at_the_end.append({"error": "eth0 is gone.", "kind": "LabError"})
    world.children[0].ask_to_finish()
    world.children[0].returncode = 4
    for _ in range(100):
        recorder.tick()
        world.now_s += 0.25
    recorder.finish()
    (gap,) = recorder.gaps(None, END_NS)
    assert (gap.from_ns, gap.to_ns, gap.frames, gap.stage) == (70, END_NS, None, "recorder")
    assert recorder.failures == ("eth0 is gone",)
    assert {part.document()["failure"] for part in recorder.parts} == {"eth0 is gone"}


def test_a_source_that_ends_just_before_the_session_does_is_a_gap_too(world: World) -> None:
    recorder = world.supervisor(FrameSource(interface="eth0"))
    recorder.begin()
    world.children[0].will_stop(80, interface("eth0", 4), failure="eth0 is gone.", ended=True)
    recorder.finish()
    assert recorder.interrupted
    assert [(gap.to_ns, gap.frames) for gap in recorder.gaps(None, END_NS)] == [(END_NS, None)]


def test_a_logger_that_was_ended_by_somebody_else_leaves_a_gap(world: World) -> None:
    recorder = world.supervisor(FrameSource(interface="eth0"))
    recorder.begin()
    file = {"path": "link.pcapng", "frames": 4, "first_ns": 1, "last_ns": 70, "bytes": 9}
    world.children[0].will_stop(80, interface("eth0", 4), files=[file])
    world.children[0].ask_to_finish()
    world.now_s = 200.0
    recorder.tick()
    recorder.tick()
    world.children[1].will_stop(int(300e9), interface("eth0", 4))
    recorder.finish()
    (gap,) = recorder.gaps(None, END_NS)
    assert (gap.from_ns, gap.to_ns, gap.frames) == (70, int(200e9), None)


def test_of_one_that_died_every_file_is_found_and_what_it_could_not_write_is_kept(
    world: World, tmp_path: Path
) -> None:
    recorder = world.supervisor()
    recorder.begin()
    child = world.children[0]
    part = recorder.parts[0]
    part.path = tmp_path / "link.pcapng"
    names = [tmp_path / f"link-0000{n}-20260102T03040{n}.pcapng" for n in (1, 2, 3)]
    for n, path in enumerate(names):
        path.write_bytes(b"x")
        world.files[str(path)] = {
            "packets": 5, "first_ns": n * 10, "last_ns": n * 10 + 5, "cut_short": False, "bytes": 1
        }  # fmt: skip
    # Another session's, and another recorder's.
    os.utime(names[0], (1, 1))
    (tmp_path / "link.part2-00001-20260102T030405.pcapng").write_bytes(b"x")
    child.path = names[1]
    child.progress(5, interface("a", 20, filtered=2, not_written=3))
    child.returncode = -9
    recorder.tick()
    recorder.finish()
    assert [(file["path"], file["bytes"]) for file in part.files] == [(str(path), 1) for path in names[1:]]
    kept, counted = part.recorded
    assert (kept.filtered, kept.not_written, kept.written, counted.written) == (2, 3, 0, 10)
    assert (part.first_frame_ns, part.last_frame_ns) == (10, 25)
    assert not recorder.uncounted


def test_a_file_that_cannot_be_counted_is_told(world: World, tmp_path: Path) -> None:
    recorder = world.supervisor()
    recorder.begin()
    path = tmp_path / "link.pcapng"
    path.write_bytes(b"something else")
    world.children[0].path = path
    world.children[0].progress(5, interface("a", 20))
    world.children[0].returncode = -9
    recorder.tick()
    recorder.finish()
    assert recorder.uncounted
    assert recorded(recorder)[-1].written == 20


def test_a_file_that_takes_too_long_to_count_does_not_hold_up_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bindings, "COUNT_S", 0.0)
    counted = threading.Event()

    def look(name: str) -> Mapping[str, Any] | None:
        assert counted.wait(20.0)
        return None

    recorder = world.supervisor(look=look)
    recorder.begin()
    world.children[0].progress(5, interface("a", 20))
    world.children[0].returncode = -9
    recorder.tick()
    recorder.finish()
    counted.set()
    assert recorder.uncounted
    assert recorded(recorder) == (RecorderCounts("a", seen=20, written=20),)
