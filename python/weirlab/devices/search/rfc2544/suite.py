"""The tests of RFC 2544 one after the other, and those of latency (26.2) and frame loss rate (26.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np

from weirlab.base.documents import Measured
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.devices.search.rfc2544.bursts import BackToBackResult, longest_bursts
from weirlab.measure.progress import OVERHEAD_S
from weirlab.measure.search.goal import GoalResult, SearchGoal
from weirlab.measure.search.throughput import (
    Point,
    SearchShape,
    Setting,
    expected_s,
    nothing_arrived,
    search_setting,
    sender_pps,
    whole,
)
from weirlab.measure.search.trials import SearchTrialRunner
from weirlab.measure.trial import FailedTrial

REPETITIONS: Final = 20
"""The RFC's least number of repetitions."""


@dataclass(frozen=True)
class LatencyResult:
    """One-way delay at one load, over several trials; every frame of a trial is time-stamped.

    The RFC tags one frame per trial and averages the trials. Here a trial's value is the
    mean delay of all its frames, and ``mean_ns`` the average of those.
    """

    setting: Setting
    rate_pps: float
    at_least: bool
    """The device carries more than ``rate_pps``, but the sender does not."""
    repetitions: int
    mean_ns: Measured
    min_ns: Measured
    """Smallest of the trials' means."""
    max_ns: Measured
    std_ns: Measured
    """Standard deviation of the trials' means; NaN for a single trial."""
    p99_ns: Measured
    """Average of the trials' 99th percentiles."""
    loss_ratio: float
    """Frames lost in all trials together."""

    def to_json(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if name != "setting"}
        return {**self.setting.to_json(), **values}


def latency(
    trials: SearchTrialRunner,
    setting: Setting,
    shape: SearchShape,
    rate_pps: float,
    *,
    repetitions: int = REPETITIONS,
    trial_s: float = 0.2,
    at_least: bool = False,
) -> LatencyResult:
    """Measure the delay at ``rate_pps`` in ``repetitions`` trials of ``trial_s`` recorded seconds.

    Raises ``FailedTrial`` when a trial stays invalid.
    """
    if repetitions < 1:
        raise InputError(f"{repetitions} repetitions of the latency test: at least one is needed")
    spec = shape.spec(setting, whole(rate_pps), trial_s, "latency")
    results = [trials.run(spec).result for _ in range(repetitions)]
    means = np.array([result.delay_mean_ns for result in results])
    return LatencyResult(
        setting=setting,
        rate_pps=spec.traffic.rate.value,
        at_least=at_least,
        repetitions=repetitions,
        mean_ns=float(means.mean()),
        min_ns=float(means.min()),
        max_ns=float(means.max()),
        std_ns=float(means.std(ddof=1)) if repetitions > 1 else float("nan"),
        p99_ns=float(np.mean([result.histogram.quantile_ns(0.99) for result in results])),
        loss_ratio=sum(max(result.lost, 0) for result in results) / sum(result.sent for result in results),
    )


COARSEST_STEP: Final = 0.1
"""The RFC allows finer steps, not coarser ones."""
QUIET_TRIALS: Final = 2
"""The test ends when so many trials in a row lost nothing."""


@dataclass(frozen=True)
class LossPoint:
    """One trial."""

    share: float
    """Offered load as a share of the maximum."""
    offered_pps: float
    sent: int
    received: int

    @property
    def loss_ratio(self) -> float:
        """``(sent - received) / sent``, the RFC's frame loss rate as a ratio."""
        return max(self.sent - self.received, 0) / self.sent

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "loss_ratio": self.loss_ratio}


@dataclass(frozen=True)
class LossCurve:
    """Frame loss at falling loads."""

    setting: Setting
    max_load_pps: float
    """100 %: the highest rate of these frames that could be offered."""
    points: tuple[LossPoint, ...]

    def to_json(self) -> dict[str, Any]:
        return {**self.setting.to_json(), "max_load_pps": self.max_load_pps, "points": self.points}


def steps(step: float) -> int:
    """Number of loads from 100 % down; raises ``InputError`` for a step that the RFC does not allow."""
    if not 0 < step <= COARSEST_STEP:
        raise InputError(
            f"steps of {step:.3g} of the maximum load: RFC 2544 asks for steps of 10 % or finer, e.g. 5 %"
        )
    return int(1 / step + 1e-9)


def loss_curve(
    trials: SearchTrialRunner,
    setting: Setting,
    shape: SearchShape,
    max_load_pps: float,
    *,
    step: float = COARSEST_STEP,
    trial_s: float = 0.2,
) -> LossCurve:
    """Offer 100 %, then ``step`` less each time, until two successive trials lose nothing.

    Raises ``FailedTrial`` when a trial stays invalid.
    """
    points: list[LossPoint] = []
    quiet = 0
    for i in range(steps(step)):
        share = round(1 - i * step, 9)
        record = trials.run(shape.spec(setting, whole(share * max_load_pps), trial_s, "loss"))
        result = record.result
        points.append(LossPoint(share, record.offered_pps, result.sent, result.received))
        quiet = quiet + 1 if result.lost <= 0 else 0
        if quiet == QUIET_TRIALS:
            break
    return LossCurve(setting, max_load_pps, tuple(points))


Test = Literal["throughput", "latency", "loss", "bursts"]
TESTS: Final[tuple[Test, ...]] = ("throughput", "latency", "loss", "bursts")

FRAME_BYTES: Final = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes for Ethernet, section 9.1."""

_BURSTS_PER_SEARCH: Final = 6
"""Trials of one repetition of the burst test, from experience; for the time left only."""

_THROUGHPUT: Final = SearchGoal("throughput")

T = TypeVar("T")


@dataclass(frozen=True)
class Rfc2544Suite:
    """Which tests, and how long. The defaults are short; :data:`STRICT` has the RFC's own times."""

    tests: tuple[Test, ...] = TESTS
    goal: SearchGoal = _THROUGHPUT
    latency_s: float = 0.2
    loss_s: float = 0.2
    repetitions: int = 20
    """Of the latency test, and of the burst test."""
    burst_repetitions: int | None = None
    """Of the burst test, where they differ."""
    loss_step: float = COARSEST_STEP
    longest_burst_s: float = 2.0

    def __post_init__(self) -> None:
        """Raises ``InputError`` for what the RFC does not know or allow."""
        if not self.tests:
            raise InputError(f"no test was named; choose from {', '.join(TESTS)}")
        for test in self.tests:
            if test not in TESTS:
                raise InputError(f"RFC 2544 test {quoted(test)} is not known; choose from {', '.join(TESTS)}")
        if self.repetitions < 1 or (self.burst_repetitions is not None and self.burst_repetitions < 1):
            raise InputError("every test needs at least one repetition")
        for seconds in (self.latency_s, self.loss_s, self.longest_burst_s):
            if not (math.isfinite(seconds) and seconds > 0):
                raise InputError(f"a trial of {seconds:g} s: it must be longer than 0 s")
        steps(self.loss_step)

    @property
    def bursts(self) -> int:
        """Repetitions of the burst test."""
        return self.repetitions if self.burst_repetitions is None else self.burst_repetitions

    @property
    def needs_throughput(self) -> bool:
        """Latency is measured at the throughput, and RFC 9004 corrects bursts by it."""
        return bool({"throughput", "latency", "bursts"} & set(self.tests))


STRICT: Final = Rfc2544Suite(
    goal=SearchGoal("throughput", trial_s=60.0, duration_sum_s=60.0, exceed_ratio=0.0),
    latency_s=120.0,
    loss_s=60.0,
    burst_repetitions=50,
)
"""What the RFC asks for: trials of 60 s (section 24), 120 s for latency, 50 bursts; hours per setting."""


@dataclass(frozen=True)
class Result:
    """What the tests found in one setting; None for a test that was not wanted or not possible."""

    setting: Setting
    max_load_pps: Measured
    throughput: Point | None = None
    latency: LatencyResult | None = None
    loss: LossCurve | None = None
    bursts: BackToBackResult | None = None
    problems: tuple[str, ...] = ()
    """Why a wanted test has no result."""

    @property
    def found(self) -> GoalResult | None:
        """The throughput, where its search came to an end."""
        return self.throughput.found[0] if self.throughput and self.throughput.found else None

    def to_json(self) -> dict[str, Any]:
        return {
            **self.setting.to_json(),
            "max_load_pps": self.max_load_pps,
            **{name: getattr(self, name) for name in TESTS},
            "problems": self.problems,
        }


def expected(suite: Rfc2544Suite, shape: SearchShape) -> list[float]:
    """Expected wall times in s of the trials of one setting."""

    def each(recorded_s: float, n: int, warmup_s: float = shape.warmup_s) -> list[float]:
        return [warmup_s + recorded_s + OVERHEAD_S] * n

    ahead = expected_s(shape, (suite.goal,)) if suite.needs_throughput else each(suite.loss_s, 1)
    if "latency" in suite.tests:
        ahead += each(suite.latency_s, suite.repetitions)
    if "loss" in suite.tests:
        ahead += each(suite.loss_s, steps(suite.loss_step))
    if "bursts" in suite.tests:
        ahead += each(0.0, suite.bursts * _BURSTS_PER_SEARCH, 0.0)
    return ahead


def run_suite(
    trials: SearchTrialRunner,
    settings: Sequence[Setting],
    shape: SearchShape,
    suite: Rfc2544Suite = Rfc2544Suite(),
) -> Iterator[Result]:
    """Do the tests of ``suite`` in each of ``settings``; gives each setting's result when it is complete.

    A test that cannot be done because a trial stayed invalid is told in ``problems``; the
    others go on.

    Raises ``FailedTrial`` when the device forwards nothing at all.
    """
    each_s = expected(suite, shape)
    for i, setting in enumerate(settings):
        trials.expect(each_s * (len(settings) - i))
        yield _one(trials, setting, shape, suite)


def _one(trials: SearchTrialRunner, setting: Setting, shape: SearchShape, suite: Rfc2544Suite) -> Result:
    problems: list[str] = []

    def tried(what: str, test: Callable[[], T]) -> T | None:
        try:
            return test()
        except FailedTrial as error:
            if nothing_arrived(error.records):
                raise
            problems.append(f"{what}: {error}")
            return None

    point: Point | None = None
    if suite.needs_throughput:
        point = search_setting(trials, setting, shape, (suite.goal,))
        problems += [f"throughput: {point.problem}"] if point.problem else []
        max_load_pps = point.max_load_pps
    else:
        measured = tried("sender", lambda: sender_pps(trials, setting, shape, suite.loss_s))
        max_load_pps = float("nan") if measured is None else measured
    found = point.found[0] if point and point.found else None
    slow = found is not None and found.lower_pps is None
    delays: LatencyResult | None = None
    losses: LossCurve | None = None
    bursts: BackToBackResult | None = None
    if "latency" in suite.tests and found is not None:
        rate_pps = found.lower_pps
        if rate_pps is None:
            problems.append(
                "latency: there is no throughput to measure it at, even the lowest load lost frames"
            )
        else:
            delays = tried(
                "latency",
                lambda: latency(
                    trials,
                    setting,
                    shape,
                    rate_pps,
                    repetitions=suite.repetitions,
                    trial_s=suite.latency_s,
                    at_least=found.at_least,
                ),
            )
    if "loss" in suite.tests and math.isfinite(max_load_pps):
        losses = tried(
            "loss",
            lambda: loss_curve(
                trials, setting, shape, max_load_pps, step=suite.loss_step, trial_s=suite.loss_s
            ),
        )
    if "bursts" in suite.tests and found is not None:
        throughput_pps = 0.0 if slow else found.conditional_throughput_pps or 0.0
        bursts = tried(
            "bursts",
            lambda: longest_bursts(
                trials,
                setting,
                shape,
                max_load_pps,
                throughput_pps,
                repetitions=suite.bursts,
                longest_s=suite.longest_burst_s,
            ),
        )
    return Result(setting, max_load_pps, point, delays, losses, bursts, tuple(problems))
