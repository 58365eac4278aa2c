"""Data beyond the limits is removed, oldest first, and says so; a clock that jumps removes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.store import Store
from weirlab.web.measurements.measurement import FOLDER, Measurement, Measurements, RemovedMeasurement
from weirlab.web.measurements.retention import FILE, ElapsedTime, Retention, boot_id, boot_s, limits_sentence
from weirlab.web.measurements.space import Space
from weirlab.web.settings import WebSettings

from .conftest import Serve, send, settled

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY_S = 86_400.0


@dataclass
class Machine:
    """A machine with services of one store, its clock, and the time since it was started."""

    root: Path
    clock: datetime = NOW
    up_s: float = 1000.0
    boot: int = 1
    measurements: Measurements = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin the next service."""
        self.elapsed = ElapsedTime(self.root / FOLDER, f"boot {self.boot}", lambda: self.up_s)
        self.measurements = Measurements(self.root, lambda: self.clock, self.elapsed.now_s)

    def restart(self) -> None:
        """Start the machine anew, some days later."""
        self.boot, self.up_s = self.boot + 1, 10.0
        self.pass_days(5, up=False)
        self.begin()

    def pass_days(self, days: float, *, up: bool = True) -> None:
        self.clock += timedelta(days=days)
        self.up_s += days * DAY_S if up else 0.0

    def make(self, size: int = 1000, stage: str = "ready") -> Measurement:
        """A measurement with so many bytes beside its state."""
        with self.measurements.created("capture", "made") as one:
            (one.path / "graphs").mkdir()
            (one.path / "graphs" / "data").write_bytes(bytes(size))
            one.change(stage=stage)
        return one

    def sweep(self, **limits: int) -> Retention:
        settings = WebSettings(**limits)
        space = Space(self.root, settings.most_kept_bytes)
        retention = Retention(settings, self.measurements, space, self.elapsed, now=lambda: self.clock)
        retention.sweep()
        self.elapsed.save()
        return retention


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def stages(*ones: Measurement) -> list[str]:
    return [one.state.stage for one in ones]


def test_what_is_too_old_is_removed_and_its_id_says_why(machine: Machine) -> None:
    old = machine.make()
    machine.pass_days(2)
    young = machine.make()
    machine.pass_days(29)
    removed_on = f"{machine.clock:%Y-%m-%d}"
    assert machine.sweep(most_days=30).removed == 1
    assert stages(old, young) == ["removed", "ready"]
    assert [path.name for path in old.path.iterdir()] == ["measurement.json"]
    with pytest.raises(RemovedMeasurement, match=f"removed on {removed_on}: data is kept for 30 days here"):
        Measurements(machine.root).open(old.data_id)
    assert machine.sweep(most_days=30).removed == 0


def test_beyond_the_total_the_oldest_goes_first(machine: Machine) -> None:
    ones = []
    for _ in range(3):
        ones.append(machine.make(10_000))
        machine.pass_days(1)
    assert machine.sweep(most_kept_bytes=32_000 + 3 * 500).removed == 0
    assert machine.sweep(most_kept_bytes=25_000).removed == 1
    assert stages(*ones) == ["removed", "ready", "ready"]
    assert "newer data needed the space, and at most 25.0 kB is kept here" in ones[0].state.message


def test_what_is_being_made_stays_whatever_its_age(machine: Machine) -> None:
    ones = [machine.make(10_000, stage) for stage in ("receiving", "queued", "working")]
    machine.pass_days(99)
    assert machine.sweep(most_days=1, most_kept_bytes=1).removed == 0
    assert stages(*ones) == ["receiving", "queued", "working"]


def test_what_a_child_still_wrote_into_removed_data_goes_as_well(machine: Machine) -> None:
    old = machine.make()
    machine.pass_days(31)
    machine.sweep(most_days=30)
    (old.path / "late").write_bytes(b"x")
    machine.sweep(most_days=30)
    assert not (old.path / "late").exists()


def test_without_a_limit_nothing_is_removed(machine: Machine) -> None:
    old = machine.make()
    machine.pass_days(9999)
    assert machine.sweep(most_days=0).removed == 0
    assert stages(old) == ["ready"]


def test_of_very_many_removed_ones_the_oldest_are_forgotten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.web.measurements.retention._MOST_REMOVED", 3)
    ones = []
    for _ in range(5):
        ones.append(machine.make())
        machine.pass_days(1)
    machine.pass_days(30)
    assert machine.sweep(most_days=30).removed == 5
    machine.sweep(most_days=30)
    assert [one.path.exists() for one in ones] == [False, False, True, True, True]


@pytest.mark.parametrize(
    "clock", [datetime(*day, tzinfo=UTC) for day in ((2106, 2, 7), (9999, 12, 20), (1969, 1, 1), (1, 1, 1))]
)
def test_a_clock_that_jumps_removes_nothing(machine: Machine, clock: datetime) -> None:
    one = machine.make()
    machine.clock = clock
    assert machine.sweep(most_days=30).removed == 0
    machine.begin()
    assert machine.sweep(most_days=30).removed == 0
    machine.restart()
    assert machine.sweep(most_days=30).removed == 0
    assert stages(one) == ["ready"]


@pytest.mark.parametrize("created", ["9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00"])
def test_a_date_in_a_file_removes_nothing(machine: Machine, created: str) -> None:
    one = machine.make()
    one.change(created=created)
    assert machine.sweep(most_days=1).removed == 0
    machine.pass_days(2)
    assert machine.sweep(most_days=1).removed == 1


def test_by_size_the_oldest_goes_whatever_the_clock_said(machine: Machine) -> None:
    machine.clock = datetime(2106, 2, 7, tzinfo=UTC)
    old = machine.make(10_000)
    machine.clock = NOW
    machine.pass_days(1)
    young = machine.make(10_000)
    machine.sweep(most_kept_bytes=15_000)
    assert stages(old, young) == ["removed", "ready"]


def test_ages_go_on_while_no_service_runs_but_not_while_the_machine_is_off(machine: Machine) -> None:
    one = machine.make()
    machine.sweep(most_days=30)
    machine.pass_days(20)
    machine.begin()
    assert machine.sweep(most_days=30).removed == 0
    machine.restart()
    machine.pass_days(9)
    assert machine.sweep(most_days=30).removed == 0
    machine.pass_days(2)
    assert machine.sweep(most_days=30).removed == 1
    assert stages(one) == ["removed"]


def test_a_store_on_a_machine_that_has_long_been_up_removes_nothing(machine: Machine) -> None:
    one = machine.make()
    machine.sweep(most_days=30)
    machine.boot, machine.up_s = 7, 400 * DAY_S
    machine.begin()
    assert machine.sweep(most_days=30).removed == 0
    assert stages(one) == ["ready"]


@pytest.mark.parametrize(
    "content", ["", "nonsense", "[]", '{"boot_id": "boot 1", "boot_s": NaN, "elapsed_s": Infinity}']
)
def test_the_time_counts_anew_if_it_was_lost(machine: Machine, content: str) -> None:
    machine.pass_days(50)
    one = machine.make()
    machine.sweep(most_days=30)
    (machine.root / FOLDER / FILE).write_text(content)
    machine.begin()
    assert machine.sweep(most_days=30).removed == 0
    machine.pass_days(29)
    assert machine.sweep(most_days=30).removed == 0
    machine.pass_days(2)
    assert machine.sweep(most_days=30).removed == 1
    assert stages(one) == ["removed"]


def test_data_of_earlier_versions_ages_from_when_it_is_first_seen(machine: Machine) -> None:
    one = machine.make()
    path = one.path / "measurement.json"
    kept = json.loads(path.read_text())
    del kept["born_s"]
    path.write_text(json.dumps({**kept, "created": "2020-01-01T00:00:00+00:00"}))
    assert machine.sweep(most_days=30).removed == 0
    machine.pass_days(31)
    assert machine.sweep(most_days=30).removed == 1


@given(st.lists(st.tuples(st.sampled_from(["up", "begin", "restart"]), st.floats(0, 1e10)), max_size=20))
def test_elapsed_time_never_exceeds_the_time_that_machines_were_up(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float]]
) -> None:
    folder = tmp_path_factory.mktemp("elapsed")
    (folder / FOLDER).mkdir()
    machine, passed_s, last_s = Machine(folder), 0.0, 0.0
    for what, value in steps:
        match what:
            case "up":
                machine.up_s += value
                passed_s += value
            case "begin":
                machine.elapsed.save()
                machine.begin()
            case "restart":
                machine.elapsed.save()
                machine.boot, machine.up_s = machine.boot + 1, value
                machine.begin()
        assert last_s - 1e-3 <= machine.elapsed.now_s() <= passed_s + 1e-3
        last_s = machine.elapsed.now_s()


def test_the_kernel_tells_the_boot_and_the_time_since_then() -> None:
    assert len(boot_id()) == 36
    assert boot_s() > 0


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({}, "until it is deleted"),
        ({"most_days": 1}, "for 1 day."),
        ({"most_kept_bytes": 10**11}, "up to 100 GB in all, the oldest removed first"),
        ({"most_days": 30, "most_kept_bytes": 10**11}, "for 30 days, and up to 100 GB in all"),
    ],
)
def test_the_limits_are_told(limits: dict[str, Any], sentence: str, serve: Serve) -> None:
    assert sentence in limits_sentence(WebSettings(**limits))
    client, _ = serve(**limits)
    assert client.get("/api/session").json()["kept"] == limits_sentence(WebSettings(**limits))


def test_the_service_removes_and_answers_gone(serve: Serve, store: Store, capture: bytes) -> None:
    first, _ = serve()
    data_id = send(first, capture)
    settled(first, data_id)
    one = Measurements(store.root).open(data_id)
    graphs = f"/api/captures/{data_id}/connections/0/graphs"
    assert first.get(graphs, params={"side": "a", "from": 0, "to": 1}).status_code == 200
    assert data_id in Path("/proc/self/maps").read_text(), "its arrays are mapped"
    one.change(born_s=-1e9)
    second, made = serve(most_days=1)
    made.retention.close()
    for place in (f"measurements/{data_id}", f"captures/{data_id}", f"captures/{data_id}/file"):
        answer = second.get(f"/api/{place}")
        assert answer.status_code == 410
        assert "was removed on" in answer.json()["error"]["message"]
    assert data_id not in Path("/proc/self/maps").read_text(), "removed files take no room on the disk"
