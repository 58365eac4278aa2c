"""Deep queues, against devices whose queues are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.model import QueueingModel
from weirlab.model.backlog import Backlog, DeviceQueue, backlog
from weirlab.model.io import load, save
from weirlab.model.piecewise import PiecewiseModel
from weirlab.model.tunnelled import tunnelled
from weirlab.records import Observation
from weirlab.testing import queue

SHALLOW = queue.QueueDevice(fixed_ns=2000.0, per_rule_ns=20.0)
DEEP = queue.QueueDevice(fixed_ns=20_000.0, per_rule_ns=0.0, queue_packets=3000)
FRAME = 64.0
THRESHOLD_PPS = 50_000


@pytest.fixture(scope="module")
def profiled() -> list[Observation]:
    return queue.profile(DEEP, (0,), packets=500)


@pytest.fixture(scope="module")
def deep(profiled: list[Observation]) -> QueueingModel:
    return QueueingModel.fit(profiled)


@pytest.fixture(scope="module")
def ordinary() -> list[Observation]:
    return queue.profile(SHALLOW, packets=500)


@pytest.fixture(scope="module")
def shallow(ordinary: list[Observation]) -> QueueingModel:
    return QueueingModel.fit(ordinary)


def test_what_passes_without_loss_depends_on_the_length_of_a_trial(deep: QueueingModel) -> None:
    found = backlog(deep, 0, FRAME)
    assert found is not None
    (one,) = found.queues
    assert one.packets == pytest.approx(3000, rel=0.02)
    assert found.threshold_pps == pytest.approx(THRESHOLD_PPS, rel=0.01)
    assert one.drains_s == pytest.approx(0.06, rel=0.03)
    assert found.lossless_pps(1.0) == pytest.approx(THRESHOLD_PPS + 3000, rel=0.01)
    assert found.lossless_pps(10.0) == pytest.approx(THRESHOLD_PPS + 300, rel=0.01)
    assert found.is_deep(1.0)
    assert not found.is_deep(10.0)
    assert not one.endless


def test_a_queue_that_was_never_full_holds_more_than_was_seen(
    profiled: list[Observation], tmp_path: Path
) -> None:
    never_lost = [replace(one, loss_ratio=0.0) for one in profiled]
    model = QueueingModel.fit(never_lost)
    save({"queueing": model}, tmp_path / "model.json")
    found = backlog(load(tmp_path / "model.json")["queueing"], 0, FRAME)
    assert found is not None
    assert found.first(1.0).endless
    assert model.threshold_pps(0, FRAME) == pytest.approx(THRESHOLD_PPS, rel=0.01)


def test_a_flood_that_loses_packets_before_the_queue_does_not_say_how_much_it_holds(
    profiled: list[Observation],
) -> None:
    most_pps = max(one.rate_pps for one in profiled)
    flooded = [one if one.rate_pps == most_pps else replace(one, loss_ratio=0.0) for one in profiled]
    assert any(one.loss_ratio > 0.1 for one in flooded)
    found = backlog(QueueingModel.fit(flooded), 0, FRAME)
    assert found is not None
    assert found.first(1.0).endless
    # However long a trial is: that queue takes in what is too much.
    assert found.is_deep(1000.0)


def test_an_ordinary_queue_is_not_deep(shallow: QueueingModel) -> None:
    found = backlog(shallow, 0, FRAME)
    assert found is not None
    assert not found.is_deep(1.0)


def test_of_queues_in_tandem_the_one_counts_that_loses_first(
    shallow: QueueingModel, deep: QueueingModel
) -> None:
    for position, threshold_pps in ((0, THRESHOLD_PPS), (1000, 1e9 / SHALLOW.service_ns(1000))):
        found = backlog(tunnelled(shallow, deep, cpus=2), position, FRAME)
        assert found is not None
        assert len(found.queues) == 2
        assert found.threshold_pps == pytest.approx(threshold_pps, rel=0.02)
    both = backlog(tunnelled(shallow, deep), 0, FRAME)
    assert both is not None
    (one,) = both.queues
    assert one.packets == pytest.approx(3000, rel=0.02)


def test_which_queue_of_a_tandem_loses_first_depends_on_the_length_of_a_trial() -> None:
    rules, tunnel = DeviceQueue(5000, 60_000, endless=False), DeviceQueue(20_000, 50_000, endless=False)
    both = Backlog((rules, tunnel))
    assert [both.lossless_pps(lasts_s) for lasts_s in (1.0, 10.0)] == [65_000, 52_000]
    assert [both.first(lasts_s) for lasts_s in (1.0, 10.0)] == [rules, tunnel]
    assert both.threshold_pps == 50_000
    assert both.is_deep(1.0)


def test_a_deep_queue_behind_a_shallow_one_that_is_faster_counts() -> None:
    both = Backlog((DeviceQueue(256, 57_000, endless=False), DeviceQueue(9_000, 50_000, endless=False)))
    assert both.lossless_pps(1.0) == 57_256
    assert both.threshold_pps == 50_000
    assert both.is_deep(1.0)
    assert not both.is_deep(10.0)


def test_a_model_without_a_queue_has_no_backlog(ordinary: list[Observation]) -> None:
    assert backlog(PiecewiseModel.fit(ordinary), 0, FRAME) is None
