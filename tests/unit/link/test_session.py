"""A tap watched from start to end, with counters made up."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from weirlab.link.recording.process import FrameSource
from weirlab.link.recording.supervisor import RecorderClocks, RecorderEnvironment, Supervisor
from weirlab.link.session import FORMAT, MANIFEST_EVERY_S, LinkSession, SessionPlan, write_manifest
from weirlab.link.settings import RecorderSettings
from weirlab.testing.link import FakeChild, FakeTap, FakeWatcher, interface, side


@dataclass
class Clockwork:
    """Time passes while the session waits; after ``rounds`` of that its end is asked for."""

    rounds: int
    at_each: Callable[[int], None] = lambda done: None
    now_s: float = 0.0
    done: int = 0
    waited: list[float] = field(default_factory=list)

    @property
    def requested(self) -> bool:
        return self.done >= self.rounds

    def wait(self, descriptors: Sequence[int], timeout_s: float) -> None:
        self.done += 1
        self.now_s += timeout_s
        self.waited.append(timeout_s)
        self.at_each(self.done)


@dataclass
class Scene:
    """A session with everything around it made up."""

    path: Path
    tap: FakeTap = field(default_factory=FakeTap)
    watcher: FakeWatcher = field(default_factory=FakeWatcher)
    children: list[FakeChild] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def start(
        self,
        clockwork: Clockwork,
        duration_s: float | None = None,
        source: FrameSource | None = None,
        notes: list[str] | None = None,
    ) -> LinkSession:
        def launch(recording: RecorderSettings, path: Path, source: FrameSource, comment: str) -> FakeChild:
            self.children.append(FakeChild(recording, path, source))
            return self.children[-1]

        clocks = RecorderClocks(lambda: int(clockwork.now_s * 1e9), lambda: clockwork.now_s)
        self.recorder = Supervisor(
            RecorderSettings(Path("link.pcapng")),
            source or FrameSource(ring_fds=(3,)),
            self.watcher.note,
            means=RecorderEnvironment(launch, self.files.get, lambda descriptors, timeout_s: None, clocks),
        )
        self.recorder.begin()
        plan = SessionPlan("tap", "weir tap ...", {"bridge": "xdp"}, duration_s, self.path, "eth1", "eth2")
        return LinkSession(
            plan, self.watcher, tap=self.tap, recorder=self.recorder, notes=notes, clocks=clocks
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "link.pcapng.json")


def read(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text())
    assert isinstance(content, dict)
    return content


def test_the_manifest_of_a_good_run_says_that_every_sum_holds(scene: Scene) -> None:
    clockwork = Clockwork(rounds=8)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.tap.a, scene.tap.b = side(10), side(5)
    scene.children[0].will_stop(9, interface("eth1", 10), interface("eth2", 5))
    outcome = session.finish()
    assert scene.tap.closed
    assert outcome.last.sentence == (
        "The link is unharmed: 15 frames forwarded, none lost; the record is complete."
    )
    kept = read(scene.path)
    assert kept == json.loads(json.dumps(outcome.document))
    assert (kept["state"], kept["complete"], kept["sums_hold"], kept["gaps"]) == ("finished", True, True, [])
    assert kept["format"] == FORMAT


def test_the_manifest_is_there_from_the_start_and_refreshed_every_few_seconds(scene: Scene) -> None:
    seen: list[tuple[float, str]] = []
    clockwork = Clockwork(rounds=40)
    clockwork.at_each = lambda done: seen.append(
        (read(scene.path)["end_ns"] / 1e9, read(scene.path)["state"])
    )
    scene.start(clockwork).run(clockwork)
    assert {state for _, state in seen} == {"running"}
    assert sorted({at_s for at_s, _ in seen}) == [
        0.0,
        MANIFEST_EVERY_S,
        2 * MANIFEST_EVERY_S,
        3 * MANIFEST_EVERY_S,
    ]
    scene.recorder.close()


def test_a_session_ends_when_its_time_is_over(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1000)
    scene.start(clockwork, duration_s=1.1).run(clockwork)
    assert clockwork.now_s == pytest.approx(1.1)
    assert scene.watcher.shown[-1].left_s == 0
    scene.recorder.close()


def test_rates_are_those_of_the_last_moment(scene: Scene) -> None:
    def more(done: int) -> None:
        scene.tap.a = side(100 * done, frame_bytes=50)

    clockwork = Clockwork(rounds=3, at_each=more)
    scene.start(clockwork).run(clockwork)
    rates = scene.watcher.shown[-1].rates
    assert rates["eth1"].frames_per_s == pytest.approx(400)
    assert rates["eth1"].bits_per_s == pytest.approx(400 * 50 * 8)
    assert rates["eth2"].frames_per_s == 0
    scene.recorder.close()


def test_a_killed_recorder_is_a_gap_with_number_and_times_and_the_link_is_unharmed(scene: Scene) -> None:
    def act(done: int) -> None:
        if done == 1:
            scene.children[0].progress(int(0.25e9), interface("eth1", 6), interface("eth2", 0))
            scene.files["link.pcapng"] = {"packets": 4, "first_ns": 1, "last_ns": 1234, "cut_short": True}
            scene.children[0].returncode = -9

    clockwork = Clockwork(rounds=4, at_each=act)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.tap.a, scene.tap.b = side(10), side(5)
    # It had taken seven frames from the ring; four of them are in its file.
    scene.children[1].will_stop(int(1e9), interface("eth1", 4), interface("eth2", 4))
    document = session.finish().document
    assert document["lost_with_recorder"] == document["missing"] == 3
    assert document["sums_hold"]
    assert not document["complete"]
    (gap,) = document["gaps"]
    assert (gap["stage"], gap["frames"], gap["from_ns"], gap["to_ns"]) == ("recorder", 3, 1234, int(0.25e9))
    assert document["conclusion"] == (
        "The link is unharmed: 15 frames forwarded, none lost; the record is missing 3 frames: 3 with a "
        "recorder that died."
    )
    assert any("killed by SIGKILL" in note for note in scene.watcher.notes)


def test_frames_that_cross_while_the_tap_is_taken_away_are_counted(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.tap.a, scene.tap.at_the_cut = side(10), side(12)
    scene.children[0].will_stop(9, interface("eth1", 12))
    document = session.finish().document
    assert document["link"][0]["received"] == 12
    assert (document["complete"], document["missing"], document["sums_hold"]) == (True, 0, True)


def test_a_record_with_more_frames_than_the_tap_copied_is_not_called_complete(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.tap.a = side(10)
    scene.children[0].will_stop(9, interface("eth1", 12))
    outcome = session.finish()
    assert (outcome.document["complete"], outcome.document["sums_hold"]) == (False, False)
    assert "counters disagree" in outcome.last.sentence


def test_a_running_manifest_does_not_say_whether_the_record_is_complete(scene: Scene) -> None:
    def act(done: int) -> None:
        if done == 20:
            scene.children[0].returncode = -9

    clockwork = Clockwork(rounds=40, at_each=act)
    session = scene.start(clockwork)
    session.look()
    assert read(scene.path)["complete"] is None
    session.run(clockwork)
    kept = read(scene.path)
    assert kept["complete"] is None
    assert [part["died"] for part in kept["parts"]] == ["was killed by SIGKILL", ""]
    assert "complete" not in kept["conclusion"]
    scene.recorder.close()


def test_a_logger_whose_recorder_was_killed_never_claims_a_complete_record(scene: Scene) -> None:
    def act(done: int) -> None:
        if done == 1:
            scene.children[0].returncode = -9

    scene.tap.fds = ()
    clockwork = Clockwork(rounds=4, at_each=act)
    session = scene.start(clockwork, source=FrameSource(interface="eth1"))
    session.run(clockwork)
    scene.children[1].will_stop(int(1e9), interface("eth1", 4))
    outcome = session.finish()
    assert (outcome.document["complete"], outcome.document["missing_unknown"]) == (False, True)
    (gap,) = outcome.document["gaps"]
    assert (gap["stage"], gap["frames"]) == ("recorder", None)
    assert "the record is missing an unknown number of frames" in outcome.last.sentence


def test_what_the_recorder_complained_of_last_is_in_the_manifest_and_in_the_sentence(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.children[0].will_stop(9, failure="no more frames come from the source.")
    outcome = session.finish()
    assert outcome.document["complete"] is False
    assert outcome.document["parts"][0]["failure"] == "no more frames come from the source"
    assert outcome.last.sentence.endswith("may lack frames; no more frames come from the source.")


def test_copies_that_were_cut_keep_the_record_from_being_complete(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.tap.a = {**side(10), "cut": 3}
    scene.children[0].will_stop(9, interface("eth1", 10))
    document = session.finish().document
    assert (document["cut"], document["complete"], document["missing"]) == (3, False, 0)


def test_what_could_not_be_put_back_is_in_the_manifest(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1)
    notes: list[str] = []
    session = scene.start(clockwork, notes=notes)
    session.run(clockwork)
    scene.children[0].will_stop(9)

    def restore() -> tuple[str, ...]:
        notes.append("eth1 could not be put back")
        return tuple(notes)

    outcome = session.finish(restore)
    assert read(scene.path)["notes"] == ["eth1 could not be put back"]
    problem = outcome.problem()
    assert problem is not None
    assert problem.exit_code != 0
    assert "eth1 could not be put back" in str(problem)


def test_while_the_ring_is_written_that_is_shown(scene: Scene) -> None:
    clockwork = Clockwork(rounds=1)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.children[0].needs = 3
    session.finish()
    assert any("writing what is in the ring" in shown.sentence for shown in scene.watcher.shown)
    assert "writing" not in scene.watcher.shown[-1].sentence


def test_a_full_ring_is_located_by_the_recorder_or_from_outside_where_it_died(scene: Scene) -> None:
    def fill(done: int) -> None:
        scene.tap.a = side(10, not_copied=min(done, 4))

    clockwork = Clockwork(rounds=8, at_each=fill)
    session = scene.start(clockwork)
    session.run(clockwork)
    fine = {"from_ns": 3, "to_ns": 5, "interface": "eth1", "frames": 4, "stage": "ring"}
    scene.children[0].will_stop(9, interface("eth1", 6, lost=4), gaps=[fine])
    (gap,) = session.finish().document["gaps"]
    assert (gap["from_ns"], gap["to_ns"], gap["frames"]) == (3, 5, 4)

    scene.children.clear()
    clockwork = Clockwork(rounds=8, at_each=fill)
    scene.tap.a = side(0)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.children[0].will_stop(9, interface("eth1", 6, lost=4))
    (gap,) = session.finish().document["gaps"]
    assert (gap["from_ns"], gap["to_ns"], gap["frames"]) == (0, int(1e9), 4)


def test_a_manifest_that_the_disk_refuses_is_said_once_and_stops_nothing(scene: Scene) -> None:
    scene.path = scene.path.parent / "gone" / "link.json"
    clockwork = Clockwork(rounds=40)
    session = scene.start(clockwork)
    session.run(clockwork)
    scene.children[0].will_stop(9)
    session.finish()
    assert len([note for note in scene.watcher.notes if "cannot write" in note]) == 1


def test_the_last_manifest_is_forced_to_the_disk_with_its_name(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    monkeypatch.setattr("os.fsync", lambda fd: forced.append(os.readlink(f"/proc/self/fd/{fd}")))
    clockwork = Clockwork(rounds=40)
    session = scene.start(clockwork)
    session.run(clockwork)
    assert forced == []
    scene.children[0].will_stop(9)
    session.finish()
    file, folder = forced
    assert Path(file).parent == Path(folder) == scene.path.parent


def test_a_file_name_that_is_no_text_does_not_end_the_session(tmp_path: Path) -> None:
    write_manifest(tmp_path / "m.json", {"file": "link-\udcff.pcapng"})
    assert read(tmp_path / "m.json") == {"file": "link-\udcff.pcapng"}


def test_a_manifest_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_manifest(path, {"n": 1})
    write_manifest(path, {"n": 2})
    assert read(path) == {"n": 2}
    assert list(tmp_path.iterdir()) == [path]
