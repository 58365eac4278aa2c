from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from weirlab.base.errors import StoreError
from weirlab.store import Store, default_root, how_recent
from weirlab.testing import FakeClock, make_record


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Store:
    return Store(tmp_path / "weir", now=clock.now)


def make_run(store: Store, kind: str = "profile", **scenario: object) -> str:
    with store.create(kind, scenario, {}) as writer:
        pass
    return writer.run_id


def test_a_run_id_tells_when_and_what(store: Store) -> None:
    assert re.fullmatch(r"20261121-072500-profile-[0-9a-f]{4}", make_run(store))


def test_runs_of_the_same_second_get_different_ids(store: Store) -> None:
    assert len({make_run(store) for _ in range(20)}) == 20


def test_the_manifest_tells_where_and_how(store: Store) -> None:
    scenario = {"name": "rules", "positions": (0, 50)}
    with store.create("profile", scenario, {"path": Path("/x"), "mtu": 1500}, calibration="cal-1") as writer:
        assert writer.run.manifest.status == "running"
    manifest = store.open(writer.run_id).manifest
    assert (manifest.kind, manifest.status, manifest.calibration) == ("profile", "complete", "cal-1")
    assert manifest.scenario == {"name": "rules", "positions": [0, 50]}
    assert manifest.facts == {"path": "/x", "mtu": 1500}
    assert manifest.created == manifest.finished == "2026-11-21T07:25:00.000+00:00"
    assert manifest.host
    assert manifest.kernel
    assert {"weirlab", "python", "polars"} <= manifest.versions.keys()


def test_a_prefix_is_enough_when_it_fits_one_run(store: Store, clock: FakeClock) -> None:
    first = make_run(store)
    clock.advance(60)
    second = make_run(store)
    assert store.open(first[:15]).run_id == first
    assert store.open(second).run_id == second


def test_a_prefix_of_several_runs_is_refused_with_their_ids(store: Store, clock: FakeClock) -> None:
    first = make_run(store)
    clock.advance(60)
    second = make_run(store)
    with pytest.raises(StoreError, match="matches 2 runs") as caught:
        store.open("20261121")
    assert first in str(caught.value)
    assert second in str(caught.value)


def test_last_is_the_newest_also_within_one_second(store: Store, clock: FakeClock) -> None:
    for _ in range(5):
        clock.advance(0.1)
        newest = make_run(store)
        assert store.open("last").run_id == newest


def test_last_can_be_asked_for_by_kind(store: Store, clock: FakeClock) -> None:
    profile = make_run(store, "profile")
    clock.advance(60)
    make_run(store, "calibrate")
    assert store.open("last", kind="profile").run_id == profile
    with pytest.raises(StoreError, match="no verify run"):
        store.open("last", kind="verify")


def test_a_number_behind_last_counts_back(store: Store, clock: FakeClock) -> None:
    ids = []
    for kind in ("profile", "verify", "profile"):
        ids.append(make_run(store, kind))
        clock.advance(60)
    assert [store.open(f"last~{back}").run_id for back in (0, 1, 2)] == ids[::-1]
    assert store.open("last~1", kind="profile").run_id == ids[0]
    assert [how_recent(name) for name in ("last", "last~3", "last~", "lastly", ids[0])] == [
        0,
        3,
        None,
        None,
        None,
    ]
    with pytest.raises(StoreError, match="no run 'last~3'"):
        store.open("last~3")


@pytest.mark.parametrize("name", ["last", "2031", ""])
def test_a_run_that_is_not_there_is_named_with_the_way_out(store: Store, name: str) -> None:
    make_run(store) if name != "last" else None
    with pytest.raises(StoreError, match=r"weir runs|weir trial"):
        store.open(name)


def test_a_store_that_does_not_exist_holds_no_runs(tmp_path: Path) -> None:
    assert Store(tmp_path / "nothing").runs() == []


def test_folders_that_are_no_runs_are_left_out(store: Store) -> None:
    run_id = make_run(store)
    (store.root / "notes").mkdir()
    (store.root / "a.txt").write_text("x")
    assert [run.run_id for run in store.runs()] == [run_id]


def test_runs_are_listed_newest_first_with_what_they_hold(store: Store, clock: FakeClock) -> None:
    make_run(store, "calibrate")
    clock.advance(60)
    with store.create("profile", {"name": "my rules"}, {}) as writer:
        writer.add(make_record(run_id=writer.run_id, invalid=("steal",)))
        writer.add(make_record(run_id=writer.run_id, attempt=2))
    newest, oldest = store.runs()
    assert (newest.kind, newest.name, newest.trials, newest.invalid) == ("profile", "my rules", 2, 1)
    assert (oldest.kind, oldest.status, oldest.trials) == ("calibrate", "complete", 0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "not the manifest"),
        (b'{"format": "weir-run", "version": 99}', "version 99"),
        (b'{"format": "weir-run", "version": 1}', "without run_id"),
    ],
)
def test_a_damaged_manifest_is_named_and_the_other_runs_stay_usable(
    store: Store, clock: FakeClock, content: bytes, told: str
) -> None:
    good = make_run(store)
    clock.advance(60)
    bad = make_run(store)
    (store.root / bad / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=told) as caught:
        store.open("last")
    assert "manifest.json" in str(caught.value)
    assert [(run.run_id, run.status) for run in store.runs()] == [(bad, "corrupt"), (good, "complete")]
    assert told in store.runs()[0].problem
    assert store.open(good).manifest.kind == "profile"


def test_a_missing_manifest_makes_a_run_corrupt(store: Store) -> None:
    run_id = make_run(store)
    (store.root / run_id / "manifest.json").unlink()
    assert store.runs()[0].status == "corrupt"


def test_an_unknown_status_is_damage(store: Store) -> None:
    run_id = make_run(store)
    path = store.root / run_id / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "excellent"}))
    with pytest.raises(StoreError, match="excellent"):
        store.open(run_id)


def test_the_default_root_follows_the_xdg_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_root() == Path("/data/weir")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/x")
    assert default_root() == Path("/home/x/.local/share/weir")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert Store().root == Path("/home/x/.local/share/weir")


def test_an_empty_store_says_how_the_first_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no run yet in .*; 'weir trial' or 'weir run' makes the first"):
        Store(tmp_path).open("last", kind=("profile", "search", "calls"))
