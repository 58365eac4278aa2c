from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weirlab.jobs import testbeds
from weirlab.jobs.progress import Left
from weirlab.scenario import Scenario, from_plain
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeClock, FakeDevice

DEVICE = FakeDevice(service_per_byte_ns=0.2)


class Told:
    """A ``Progress`` that remembers."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.advances: list[tuple[int, int]] = []
        self.notes: list[str] = []

    def stage(self, title: str) -> None:
        self.stages.append(title)

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        self.advances.append((done, total))

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store(tmp_path: Path, fitted_once: None) -> Store:
    clock = FakeClock()

    def later() -> Any:
        clock.advance(1)
        return clock.now()

    return Store(tmp_path / "store", now=later)


@pytest.fixture
def beds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeBed]]:
    """Every test bed that a job opens is a fake one; all of them must be closed in the end."""
    opened: list[FakeBed] = []

    def open_bed(*_: object, **__: object) -> FakeBed:
        opened.append(FakeBed(DEVICE))
        return opened[-1]

    monkeypatch.setattr(testbeds, "open_bed", open_bed)
    yield opened
    assert all(bed.closed for bed in opened)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeBed]:
    """Let the next job open this fake bed."""

    def use(*script: Any, **settings: Any) -> FakeBed:
        bed = FakeBed(DEVICE, script, **settings)
        monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: bed)
        return bed

    return use


@pytest.fixture
def scenario() -> Scenario:
    return small_scenario()


def small_scenario() -> Scenario:
    return from_plain(
        {
            "name": "small",
            "lab": {"kind": "sim"},
            "profile": {
                "positions": [0, 100, 1000],
                "sizes": ["64", "1518"],
                "load_shares": [0.05, 0.4, 0.7, 0.9, 1.2, 1.5],
                "repetitions": 1,
                "trial_s": 0.05,
                "warmup_s": 0.01,
            },
            "verify": [
                {"positions": [200], "draws": 3, "repetitions": 1, "trial_s": 0.05},
                {"positions": [0], "load_shares": [0.5], "repetitions": 1, "trial_s": 0.05, "seed": 3},
            ],
        },
        "the test",
    )
