"""Documents as they have always been written: whoever reads runs and ``--json`` relies on it, byte by byte.

``documents.json`` holds what earlier versions wrote. Additions go there by hand; nothing in it changes.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from weirlab.base.documents import SPARSE, Array, Measured, Unlimited, plain, typed
from weirlab.base.errors import InputError
from weirlab.calls.capacity.trials.losses import CallLoss
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal
from weirlab.calls.failover.switches.compare import SwitchGroup as Switches
from weirlab.calls.failover.switches.load import CommonLoad
from weirlab.calls.failover.switches.plan import PairSpec
from weirlab.devices.search.rfc2544.bursts import BackToBackResult
from weirlab.devices.search.rfc2544.suite import LatencyResult, LossCurve, LossPoint, Result, Rfc2544Suite
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.links.monitor.campaign import MonitorLimit as Recorded
from weirlab.links.monitor.compare import Cost, MonitorGroup, StallEffect
from weirlab.measure.adaptive.design import AdaptivePlan
from weirlab.measure.calibrate import Calibration, CalibrationPoint
from weirlab.measure.plan.grid import Extras, quick
from weirlab.measure.scouting import ScoutPoint, ScoutResult
from weirlab.measure.search.goal import GoalResult, SearchGoal
from weirlab.measure.search.throughput import Point, Setting
from weirlab.measure.spread import Spread
from weirlab.model.base import DELAYS, ProfileRange
from weirlab.model.curves import QUANTITIES, ThresholdCurve
from weirlab.model.intervals.calibration import DelayRange, ScoreLimits
from weirlab.model.intervals.calibration import IntervalCalibration as Intervals
from weirlab.model.io import from_document
from weirlab.model.piecewise import OverloadDelay, OverloadLoss, PiecewiseModel, UnderloadDelay
from weirlab.model.queueing import QueueingModel
from weirlab.model.queueing.delay import DelayCurve
from weirlab.model.queueing.disturbance import DisturbanceLaw
from weirlab.model.queueing.jitter import JitterCurve
from weirlab.model.queueing.kriging import Kriging, ResidualField
from weirlab.model.queueing.leftover import ResidualModel
from weirlab.model.queueing.service import ServiceTime
from weirlab.model.score import ErrorRow, Statistics
from weirlab.model.spike import Spike
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.calls.spec import parse_calls
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant, PoissonSizes
from weirlab.traffic.spec import Flows, LoadStep, Rate, Traffic

nan: Final = math.nan
STORED: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "documents.json").read_text())

PLACES = ((1, 0.25), (99, 0.75))
GRID = quick(
    sizes=(SIMPLE_IMIX, Constant(64), PoissonSizes(64, 200, 120.5)),
    flows=Flows(5, "tcp", 6, "random", 7),
    extras=Extras(7, True, True, (PLACES,), ("poisson",), (0.5, 1.5), (1, 1000)),
)
SETTING = Setting(SIMPLE_IMIX, RuleSetup(400, stateful=True))
FOUND = GoalResult(SearchGoal(), 7e5, 6.9e5, None, 0.0, at_least=True)
POINT = Point(SETTING, 1.5e6, (FOUND, replace(FOUND, goal=SearchGoal("PDR", 0.005))), 12, 3.5, "spoiled")
STATISTICS = Statistics(1.0, -0.5, nan, nan, 2.0, -3.0)
RESIDUALS = Kriging(
    np.array([[1.0, 2.0], [3.0, 4.5]]),
    np.array([1.0, 0.5]),
    {"service": ResidualField(np.array([0.1, nan]), np.array([0.01, 0.02]), np.array([0.0, 0.5]), 0.2)},
)
PROFILED = ProfileRange(1e3, 1e6, 64.0, 1518.0, 0.0, 1000.0, 1.4, 0.0, 1.0)
INTERVALS = Intervals(
    {
        "loss_ratio": ScoreLimits(
            {50: (-0.1, 0.0, -0.2), 90: (-1.0, -2.0, -3.0)}, {50: (0.1,) * 3}, (4, 5, 6), False
        )
    },
    {"jitter_ns": DelayRange(10.0, 1e6, 0.0)},
)
QUEUEING = QueueingModel(
    service=ServiceTime(500.0, 1.5, stderr={"fixed_ns": 2.0}, deviation=RESIDUALS, settings=3),
    queue_packets=256.5,
    queue_stderr=nan,
    delays={name: DelayCurve(None if "mean" in name else 0.5, 1e4) for name in DELAYS},
    host=DisturbanceLaw(0.1, 2e5, 1.5, {"share": 0.01}),
    jitter=JitterCurve(nan, nan, nan, nan, nan, nan),
    leftover=ResidualModel(700.0, Kriging.none(4, ("loss_ratio",)), RESIDUALS),
    profiled=PROFILED,
)
PIECEWISE = PiecewiseModel(
    unit_position=1000.0,
    g=ThresholdCurve(1.0, 2.0, 3.0),
    loss=OverloadLoss(1.0, 2.0, 3.0, 4.0),
    highest=((0.0, 1e6), (400.0, 5e5)),
    small=dict.fromkeys(QUANTITIES, UnderloadDelay(1.0, 2.0, 3.0, 4.0)),
    large=dict.fromkeys(QUANTITIES, UnderloadDelay(1.0, nan, 3.0, 4.0)),
    above=dict.fromkeys(QUANTITIES, OverloadDelay(1.0, 2.0, 3.0)),
    profiled=PROFILED,
    calibration=INTERVALS,
    spike=Spike(0.05, 4e6, 0.001, 3),
)
POINTS = (
    CalibrationPoint("1kpps", 1e3, 999.5, -5e-4, 12.0, 80.0, 900.0, 2500.0, 1000, 0, 3, 1),
    CalibrationPoint("max", math.inf, 3e6, nan, nan, nan, nan, nan, 10, 10, 0, 3),
)

VALUES: Final[dict[str, Any]] = {
    "spec": TrialSpec(
        Traffic(
            Rate(40.0, "percent", 1e10),
            PoissonSizes(64, 200, 120.5),
            Flows(5, "tcp", 6, "random", 7),
            "poisson",
            (LoadStep(0.5, Rate(2e5)), LoadStep(1.0, position=7)),
            bin_ns=1_000_000,
        ),
        RuleSetup.mixed(PLACES, stateful=True),
        "load 0.5",
        cross_traffic=True,
    ),
    "spec of calls": TrialSpec(
        Traffic(Rate(0.0, "max"), SIMPLE_IMIX, calls=parse_calls(50, "g729:40ms/rtp:50,gsm/iax2-trunk*8:50")),
        RuleSetup(400, both_ways=True),
    ),
    "profile": GRID,
    "adaptive": AdaptivePlan(replace(GRID, extras=Extras()), 700, 0.1),
    "scouting": ScoutResult(
        (ScoutPoint(0, Constant(64), 1e6, 2e6), ScoutPoint(400, SIMPLE_IMIX, 1e5, 2e6)), set_rules_s=0.25
    ),
    "calibration": Calibration("id", "2026-01-01", "host", "6.1", "netns", "xdp", POINTS),
    "point": POINT,
    "suite": Rfc2544Suite(),
    "rfc2544": Result(
        SETTING,
        1.5e6,
        POINT,
        LatencyResult(SETTING, 5e5, False, 2, 1e4, 9e3, 1.1e4, nan, 2e4, 0.0),
        LossCurve(SETTING, 1.5e6, (LossPoint(1.0, 1.5e6, 1000, 900), LossPoint(0.9, 1.35e6, 900, 900))),
        BackToBackResult(SETTING, 1e6, 7e5, (100,), True),
        ("trial 7: spoiled",),
    ),
    "carried": CallCapacity(CallGoal("quality", 0.05, 3.6), 400, 50, None, at_least=True, pps=5e3),
    "losses of calls": CallLoss(400, 50, 3, sent=1000, lost=0, disturbed_sent=None, disturbed_lost=None),
    "load": CommonLoad(110, 90, 9e3, limited_by="ucarp 1 s", why="3 packets lost", carried=100),
    "pair": PairSpec(Keepalived(advert_s=0.1), nat=True),
    "another pair": PairSpec(Ucarp(), Conntrackd(mode="off"), name="slow"),
    "switches": Switches(
        "keepalived 0.1 s", "keepalived", 0.1, "direct", False, "hard", True, 2, 1, (0.26, 0.36),
        {name: Spread(3e8, 2e8, 4e8) for name in ("resumed_ns", "lost", "streams", "alive")},
    ),
    "monitored": MonitorGroup(
        "tap-ring", 10, 60, "max", 3, 0, 1e6, 9e5, None, 1.6e4, 0.1, nan, 0.0, (nan, 0.2), 0.9, {"ring": 0.1}
    ),
    "cost": Cost("tap-ring", 10, 3, 9e5, 1e6, 0.9, 1.0, 0.0, True),
    "stall": StallEffect("tap-mirror", 3, 1e5, 1e6, 0.0, nan, 10.0, 10.0, 1.5, 1.0),
    "search": Recorded("tap-ring", 64, None, 1e5, 7, lost_link=3),
    "queueing": QUEUEING,
    "piecewise": PIECEWISE,
    "errors": ErrorRow(
        "queueing", "loss", "%-points", "trial", False, 7, 3, STATISTICS, None, {50: 48.5, 90: 91.0}, 2
    ),
    "relative errors": ErrorRow("queueing", "jitter", "ns", "setting", True, 7, 3, STATISTICS, STATISTICS),
}  # fmt: skip

READ: Final = (
    "spec", "spec of calls", "profile", "adaptive", "scouting", "calibration", "load", "search", "errors",
    "relative errors",
)  # fmt: skip
"""What Weir reads again, beside models."""


@pytest.mark.parametrize("name", VALUES)
def test_documents_are_written_as_ever(name: str) -> None:
    assert json.dumps(plain(VALUES[name]), indent=1) == json.dumps(STORED[name], indent=1)


@pytest.mark.parametrize("name", READ)
def test_documents_of_before_are_read(name: str) -> None:
    kind: type[Any] = type(VALUES[name])
    # NaN equals nothing, but it prints alike. Numbers that were written as 1 come back as 1.0.
    assert _floats(typed(kind, STORED[name])) == _floats(VALUES[name])


def test_models_of_before_are_read() -> None:
    models = {name: STORED[name] for name in ("queueing", "piecewise")}
    file = {"format": "weir-model", "version": 2, "devices": [{"name": "any", "models": models}]}
    (device,) = from_document(file, "the test")
    assert plain(device.models) == models
    assert isinstance(device.models["queueing"], QueueingModel)
    assert device.models["queueing"].leftover.below.points.shape == (0, 4)


@dataclass(frozen=True)
class Inner:
    count: int = 0
    seen: Measured = nan


@dataclass(frozen=True)
class Outer:
    inner: Inner
    most: Unlimited = math.inf
    values: Array = field(default_factory=lambda: np.array([1.0, nan]))
    words: dict[int, tuple[str, ...]] = field(default_factory=dict, metadata=SPARSE)

    def __post_init__(self) -> None:
        if self.inner.count < 0:
            raise InputError("fewer than none")


def test_a_document_says_only_what_json_has_words_for() -> None:
    assert plain(Outer(Inner())) == {"inner": {"count": 0, "seen": None}, "most": None, "values": [1.0, None]}
    assert plain({Path("/a"): {3, 1}, 2: np.int64(7)}) == {"/a": [1, 3], "2": 7}


def test_what_is_missing_has_its_default_and_null_is_what_the_field_says() -> None:
    value = typed(Outer, {"inner": {"seen": None}, "most": None, "values": [None], "words": {"50": ["a"]}})
    assert value.inner.count == 0
    assert math.isnan(value.inner.seen)
    assert math.isinf(value.most)
    assert np.isnan(value.values).tolist() == [True]
    assert value.words == {50: ("a",)}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, "inner: "),
        ({"inner": {"count": "7"}}, "inner.count: .*not '7'"),
        ({"inner": {"count": 2.5}}, "inner.count: "),
        ({"inner": {"count": True}}, "inner.count: "),
        ({"inner": {"count": None}}, "inner.count: "),
        ({"inner": {"colour": 1}}, "inner.colour: "),
        ({"inner": {}, "values": ["a"]}, "values: "),
        ({"inner": {}, "values": {}}, "values: "),
        ([], "Outer: "),
    ],
)
def test_anything_else_is_refused_by_its_place(document: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        typed(Outer, document)


def test_what_a_dataclass_itself_refuses_is_told_in_its_own_words() -> None:
    with pytest.raises(InputError, match="fewer than none"):
        typed(Outer, {"inner": {"count": -1}})


def _floats(value: object) -> str:
    return re.sub(r"(?<![\w.'-])(\d+)\.0(?![\d])", r"\1", repr(value))
