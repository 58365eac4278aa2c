"""What is held never exceeds the limit by more than a step, whatever the order of things."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from weirlab.store import Store
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.measurements.retention import ElapsedTime, Retention
from weirlab.web.measurements.space import NOTE_BYTES, Growth, NoRoom, Space, TooLarge
from weirlab.web.settings import WebSettings

from .conftest import Serve, send, settled

LIMIT = 200_000
PLENTY = (10**12, 10**12)


def held(root: Path) -> int:
    """Bytes of all data, without the states of what was removed."""
    found = 0
    for folder in (root / "web").glob("*"):
        for path in folder.rglob("*") if folder.is_dir() else ():
            found += path.stat().st_size if path.is_file() else 0
    return found


class Places:
    """Measurements, their room, and the sweep, without a service."""

    def __init__(self, root: Path, limit: int = LIMIT, disk: tuple[int, int] = PLENTY) -> None:
        self.root = root
        self.now_s = 0.0
        self.disk = disk
        self.space = Space(root, limit, disk=lambda folder: self.disk, now_s=lambda: self.now_s)
        self.measurements = Measurements(root, elapsed_s=lambda: self.now_s)
        self.retention = Retention(
            WebSettings(most_kept_bytes=limit, most_days=30),
            self.measurements,
            self.space,
            ElapsedTime(root / "web", "boot", lambda: self.now_s),
        )

    def sweep(self) -> None:
        self.retention.sweep()

    def make(self, size: int, stage: str = "ready") -> Measurement:
        self.now_s += 1
        with self.measurements.created("capture", "made") as one:
            (one.path / "capture").write_bytes(bytes(size))
            one.change(stage=stage)
        self.space.note(one)
        return one


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


class Uploading:
    """An upload that arrives part by part."""

    def __init__(self, places: Places, announced: int | None) -> None:
        self.places = places
        self.written = 0
        self.claim = places.space.claim((announced or 0) + NOTE_BYTES)
        self.stack = ExitStack()
        self.one = self.stack.enter_context(places.measurements.created("capture", "upload"))
        self.claim.cover(self.one)

    def write(self, number: int) -> None:
        self.claim.need(self.written + number + NOTE_BYTES)
        self.claim.use(self.written + number + NOTE_BYTES)
        with (self.one.path / "capture").open("ab") as file:
            file.write(bytes(number))
        self.written += number

    def finish(self) -> None:
        self.one.change(stage="queued")
        self.stack.close()
        self.claim.release()

    def abort(self) -> None:
        self.places.measurements.discard(self.one)
        self.claim.release()


class Keeping(RuleBasedStateMachine):
    """Uploads, analyses, downloads and sweeps in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.places = Places(Path(self.folder.name))
        self.uploads: list[Uploading] = []
        self.queued: list[Measurement] = []
        self.working: list[tuple[ExitStack, Growth]] = []
        self.downloads: list[BinaryIO] = []
        self.finished: list[Measurement] = []

    def teardown(self) -> None:
        for stack, _ in self.working:
            stack.close()
        for file in self.downloads:
            file.close()
        self.folder.cleanup()

    @rule(announced=st.none() | st.integers(0, 2 * LIMIT))
    def begin_upload(self, announced: int | None) -> None:
        with suppress(NoRoom, TooLarge):
            self.uploads.append(Uploading(self.places, announced))

    @precondition(lambda self: self.uploads)
    @rule(data=st.data(), number=st.integers(1, 60_000))
    def write_upload(self, data: st.DataObject, number: int) -> None:
        upload = data.draw(st.sampled_from(self.uploads))
        try:
            upload.write(number)
        except (NoRoom, TooLarge):
            upload.abort()
            self.uploads.remove(upload)

    @precondition(lambda self: self.uploads)
    @rule(data=st.data(), whole=st.booleans())
    def end_upload(self, data: st.DataObject, whole: bool) -> None:
        upload = data.draw(st.sampled_from(self.uploads))
        self.uploads.remove(upload)
        if whole:
            upload.finish()
            self.queued.append(upload.one)
        else:
            upload.abort()

    @precondition(lambda self: self.queued)
    @rule()
    def begin_analysis(self) -> None:
        one = self.queued.pop(0)
        stack = ExitStack()
        try:
            growth = stack.enter_context(self.places.space.growing(one))
            self.working.append((stack, growth))
        except NoRoom:
            self._end(one)

    @precondition(lambda self: self.finished)
    @rule(data=st.data())
    def begin_drawing(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.finished))
        stack = ExitStack()
        if one.state.stage != "removed":
            with suppress(NoRoom):
                self.working.append((stack, stack.enter_context(self.places.space.growing(one))))

    @precondition(lambda self: self.working)
    @rule(data=st.data(), share=st.floats(0, 1))
    def write_derived(self, data: st.DataObject, share: float) -> None:
        stack, growth = data.draw(st.sampled_from(self.working))
        with (growth.one.path / "series").open("ab") as file:
            file.write(bytes(int(share * self.places.space.step)))
        try:
            growth.check()
        except NoRoom:
            self._stop(stack, growth, "failed")

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def end_work(self, data: st.DataObject) -> None:
        stack, growth = data.draw(st.sampled_from(self.working))
        self._stop(stack, growth, "ready")

    def _stop(self, stack: ExitStack, growth: Growth, stage: str) -> None:
        self.working.remove((stack, growth))
        if stage == "failed":
            (growth.one.path / "series").unlink(missing_ok=True)
        stack.close()
        if not any(each.one is growth.one for _, each in self.working):
            self._end(growth.one, stage)

    def _end(self, one: Measurement, stage: str = "failed") -> None:
        one.change(stage=stage)
        self.places.space.note(one)
        self.finished.append(one)

    @precondition(lambda self: self.finished)
    @rule(data=st.data(), part=st.integers(1, 3000))
    def download(self, data: st.DataObject, part: int) -> None:
        one = data.draw(st.sampled_from(self.finished))
        if one.state.stage == "removed":
            return
        if part % 2:
            self.downloads.append(self.places.space.opened(one, one.path / "measurement.json"))
            return
        with suppress(NoRoom), self.places.space.growing(one):
            (one.path / "part").write_bytes(bytes(part))
            self.downloads.append(self.places.space.taken(one.path / "part"))

    @precondition(lambda self: self.downloads)
    @rule()
    def end_download(self) -> None:
        self.downloads.pop(0).close()

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.places.now_s += seconds

    @rule(days=st.integers(0, 40))
    def sweep(self, days: int) -> None:
        self.places.now_s += days * 86_400
        self.places.sweep()

    @invariant()
    def the_limit_holds(self) -> None:
        most = LIMIT + (len(self.working) + 1) * self.places.space.step
        removed = sum(one.state.stage == "removed" for one in self.finished) * 1000
        assert held(self.places.root) <= most + removed
        assert self.places.space.total <= most + removed


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_an_upload_that_can_never_fit_is_refused_at_once(places: Places) -> None:
    with pytest.raises(TooLarge, match=r"larger than the 200 kB that may be kept here in all"):
        Uploading(places, LIMIT + 1)
    assert held(places.root) == 0


def test_an_upload_of_unknown_size_ends_at_the_limit(places: Places) -> None:
    upload = Uploading(places, None)
    for _ in range(19):
        upload.write(10_000)
    with pytest.raises(TooLarge):
        upload.write(10_000)
    assert held(places.root) <= LIMIT


def test_announced_bytes_are_reserved(places: Places) -> None:
    first = Uploading(places, 150_000)
    with pytest.raises(NoRoom, match="what is in use takes 154 kB"):
        Uploading(places, 60_000)
    first.abort()
    Uploading(places, 60_000)


def test_an_upload_that_pauses_keeps_nobody_out(places: Places) -> None:
    first = Uploading(places, 190_000)
    first.write(20_000)
    places.now_s += 4
    with pytest.raises(NoRoom):
        Uploading(places, 150_000)
    places.now_s += 2
    second = Uploading(places, 150_000)
    second.write(150_000)
    with pytest.raises(NoRoom):
        first.write(50_000)
    first.write(5_000)


def test_finished_data_makes_room_only_when_the_bytes_come(places: Places) -> None:
    old, young = places.make(60_000), places.make(60_000)
    upload = Uploading(places, 150_000)
    assert [one.state.stage for one in (old, young)] == ["ready", "ready"]
    upload.write(90_000)
    assert [one.state.stage for one in (old, young)] == ["removed", "ready"]
    upload.write(60_000)
    assert [one.state.stage for one in (old, young)] == ["removed", "removed"]


def test_what_waits_for_its_analysis_makes_no_room(places: Places) -> None:
    for _ in range(3):
        places.make(60_000, "queued")
    with pytest.raises(NoRoom):
        Uploading(places, 30_000)


def test_what_is_sent_just_now_makes_no_room(places: Places) -> None:
    one = places.make(150_000)
    upload = Uploading(places, 100_000)
    with places.space.opened(one, one.path / "capture") as file, pytest.raises(NoRoom):
        upload.write(60_000)
    assert file.closed
    upload.write(60_000)
    assert one.state.stage == "removed"


def test_a_small_capture_that_unpacks_to_much_does_not_remove_everything_else(places: Places) -> None:
    others = [places.make(45_000) for _ in range(4)]
    bomb = places.make(1_000, "queued")

    def unpack() -> None:
        with places.space.growing(bomb) as growth, (bomb.path / "series").open("ab", 0) as file:
            while True:
                file.write(bytes(1_000))
                growth.check()

    with pytest.raises(NoRoom):
        unpack()
    assert bomb.held_bytes() <= LIMIT // 2 + places.space.step
    assert [one.state.stage for one in others].count("ready") >= 2


def test_a_file_that_is_being_sent_counts_until_it_is_closed(places: Places) -> None:
    one = places.make(1_000)
    before = places.space.total
    with places.space.growing(one):
        (one.path / "part").write_bytes(bytes(50_000))
        file = places.space.taken(one.path / "part")
    assert not (one.path / "part").exists()
    assert places.space.total == before + 50_000
    assert len(file.read()) == 50_000
    file.close()
    file.close()
    assert places.space.total == before


def test_a_nearly_full_disk_takes_nothing_more(tmp_path: Path) -> None:
    places = Places(tmp_path, limit=0, disk=(50_000_000, 1_000_000_000))
    with pytest.raises(NoRoom, match="disk of this service is nearly full"):
        Uploading(places, 40_000_000)
    upload = Uploading(places, 20_000_000)
    with pytest.raises(NoRoom):
        Uploading(places, 20_000_000)
    upload.abort()
    places.disk = (21_000_000, 1_000_000_000)
    one = places.make(1_000)
    with pytest.raises(NoRoom), places.space.growing(one):
        pass


async def parts(content: bytes, number: int) -> AsyncIterator[bytes]:
    for _ in range(number):
        yield content


def test_the_service_refuses_what_has_no_room_with_a_sentence(
    serve: Serve, store: Store, capture: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, made = serve(most_kept_bytes=1_000_000, children=1)
    answer = client.post("/api/captures", content=bytes(1_000_001))
    assert answer.status_code == 413
    assert "larger than the 1.00 MB that may be kept here in all" in answer.json()["error"]["message"]

    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield bytes(100_000)

    answer = client.post("/api/captures", content=chunks())
    assert answer.status_code == 413
    assert held(store.root) == 0
    # Nothing is analysed any more.
    monkeypatch.setattr(made.children, "submit", lambda *_, **__: None)
    for _ in range(3):
        assert client.post("/api/captures", content=bytes(300_000)).status_code == 201
    answer = client.post("/api/captures", content=bytes(300_000))
    assert answer.status_code == 507
    assert "There is no room for it now" in answer.json()["error"]["message"]
    assert len([path for path in (store.root / "web").iterdir() if path.is_dir()]) == 3
    assert held(store.root) <= 1_000_000
    assert made.space.total == held(store.root)


def test_what_a_capture_unpacks_to_is_bounded_by_the_limit(
    serve: Serve, store: Store, capture: bytes
) -> None:
    client, made = serve(most_kept_bytes=2 * len(capture))
    found = settled(client, send(client, capture))
    assert found["stage"] == "failed"
    assert held(store.root) <= 2 * len(capture) + made.space.step
    assert not list((store.root / "web").rglob("*.parquet"))


def test_a_download_counts_while_it_is_sent(serve: Serve, store: Store, capture: bytes) -> None:
    client, made = serve(most_kept_bytes=100_000_000)
    data_id = send(client, capture)
    settled(client, data_id)
    before = held(store.root)
    answer = client.get(f"/api/captures/{data_id}/part.pcapng", params={"from": 0, "to": 10})
    assert answer.status_code == 200
    assert made.space.total == before == held(store.root)
