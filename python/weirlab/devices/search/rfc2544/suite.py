"""The tests of RFC 2544 one after the other, in each setting of a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from weirlab.base.documents import Measured
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.devices.search.rfc2544.bursts import BackToBackResult, longest_bursts
from weirlab.devices.search.rfc2544.latency import LatencyResult, latency
from weirlab.devices.search.rfc2544.loss import COARSEST_STEP, LossCurve, loss_curve, steps
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
)
from weirlab.measure.search.trials import SearchTrialRunner
from weirlab.measure.trial import FailedTrial

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
