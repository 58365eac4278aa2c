"""Data beyond the limits is removed, oldest first, and says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from weirlab.store import Store
from weirlab.web.measurements import Measurement, Measurements, Removed
from weirlab.web.retention import Retention, told
from weirlab.web.settings import Settings

from .conftest import Serve, send, settled

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def made(root: Path, days: float, size: int = 1000, stage: str = "ready") -> Measurement:
    """A measurement of this age with so many bytes beside its state."""
    one = Measurements(root, lambda: NOW - timedelta(days=days)).create("capture", f"{days} days old")
    (one.path / "graphs").mkdir()
    (one.path / "graphs" / "data").write_bytes(bytes(size))
    one.change(stage=stage)
    return one


def swept(root: Path, **limits: int) -> Retention:
    retention = Retention(Settings(**limits), Measurements(root), lambda: NOW)
    retention.sweep()
    return retention


def stages(*ones: Measurement) -> list[str]:
    return [one.state.stage for one in ones]


def test_what_is_too_old_is_removed_and_its_id_says_why(tmp_path: Path) -> None:
    old, young = made(tmp_path, 31), made(tmp_path, 29)
    assert swept(tmp_path, most_days=30).removed == 1
    assert stages(old, young) == ["removed", "ready"]
    assert [path.name for path in old.path.iterdir()] == ["measurement.json"]
    with pytest.raises(Removed, match="removed on 2026-03-01: data is kept for 30 days here"):
        Measurements(tmp_path).open(old.data_id)
    assert swept(tmp_path, most_days=30).removed == 0


def test_beyond_the_total_the_oldest_goes_first(tmp_path: Path) -> None:
    ones = [made(tmp_path, days, 10_000) for days in (3, 1, 2)]
    assert swept(tmp_path, most_kept_bytes=32_000 + 3 * 500).removed == 0
    assert swept(tmp_path, most_kept_bytes=25_000).removed == 1
    assert stages(*ones) == ["removed", "ready", "ready"]
    assert "newer data needed the space, and at most 25.0 kB is kept here" in ones[0].state.message


def test_what_is_being_made_stays_whatever_its_age(tmp_path: Path) -> None:
    ones = [made(tmp_path, 99, 10_000, stage) for stage in ("receiving", "queued", "working")]
    assert swept(tmp_path, most_days=1, most_kept_bytes=1).removed == 0
    assert stages(*ones) == ["receiving", "queued", "working"]


def test_what_a_child_still_wrote_into_removed_data_goes_as_well(tmp_path: Path) -> None:
    old = made(tmp_path, 31)
    swept(tmp_path, most_days=30)
    (old.path / "late").write_bytes(b"x")
    swept(tmp_path, most_days=30)
    assert not (old.path / "late").exists()


def test_without_a_limit_nothing_is_removed(tmp_path: Path) -> None:
    assert swept(tmp_path, most_days=0).removed == 0
    old = made(tmp_path, 9999)
    assert swept(tmp_path, most_days=0).removed == 0
    assert stages(old) == ["ready"]


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
    assert sentence in told(Settings(**limits))
    client, _ = serve(**limits)
    assert client.get("/api/session").json()["kept"] == told(Settings(**limits))


def test_the_service_removes_and_answers_gone(serve: Serve, store: Store, capture: bytes) -> None:
    first, _ = serve()
    data_id = send(first, capture)
    settled(first, data_id)
    one = Measurements(store.root).open(data_id)
    graphs = f"/api/captures/{data_id}/connections/0/graphs"
    assert first.get(graphs, params={"side": "a", "from": 0, "to": 1}).status_code == 200
    assert data_id in Path("/proc/self/maps").read_text(), "its arrays are mapped"
    one.change(created="2020-01-01T00:00:00+00:00")
    second, made = serve(most_days=1)
    made.retention.close()
    for place in (f"measurements/{data_id}", f"captures/{data_id}", f"captures/{data_id}/file"):
        answer = second.get(f"/api/{place}")
        assert answer.status_code == 410
        assert "was removed on" in answer.json()["error"]["message"]
    assert data_id not in Path("/proc/self/maps").read_text(), "removed files take no room on the disk"
