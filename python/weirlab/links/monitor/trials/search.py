"""The greatest rate at which every frame is forwarded and recorded in most trials, by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from weirlab.links.monitor.bed.base import Method
from weirlab.links.monitor.trials.plan import MonitorPlan, payload_bytes
from weirlab.links.monitor.trials.rows import MonitorRow

Try = Callable[[MonitorPlan], MonitorRow]

STEPS: Final = 24
"""No search takes more, whatever the precision."""


@dataclass(frozen=True)
class MonitorGoal:
    """What is searched; rates in packets/s."""

    min_pps: float
    max_pps: float
    precision: float
    """Upper end over lower end, less 1, at which the search is over."""
    trial_s: float
    repetitions: int
    """Trials per rate, of which most must lose nothing; no more are made than it takes to know."""
    ring_bytes: int


@dataclass(frozen=True)
class MonitorLimit:
    """What a search found; rates as achieved by the sender."""

    method: Method
    frame_bytes: int
    """Without FCS."""
    greatest_pps: float | None
    """Greatest rate at which most trials lost nothing; None where not even the least rate passed."""
    least_lossy_pps: float | None
    """Least rate at which most trials lost frames; None where even the greatest rate passed."""
    trials: int
    lost_link: int = 0
    """Frames that the link lost at the least rate with loss."""
    lost_record: int = 0
    """Frames that are not in the record there, and came by."""


def search(method: Method, frame: int, goal: MonitorGoal, first_index: int, attempt: Try) -> MonitorLimit:
    """Try the greatest rate, then bisect on a log scale; ``attempt`` carries out one trial.

    The least rate is tried only where none above it passed.

    A rate passes if most of its trials lost nothing, on the link and in the record: a machine that is
    away for a millisecond, which not every counter tells, spoils single ones. A trial that the host
    spoiled in all its attempts counts as it came out.
    """
    low, high = math.log(goal.min_pps), math.log(goal.max_pps)
    passed: MonitorRow | None = None
    failed: MonitorRow | None = None
    trials = 0

    def lossy(pps: float) -> MonitorRow | None:
        """The last trial at that rate that lost something, if most did."""
        nonlocal trials, passed
        most = goal.repetitions // 2 + 1
        good: list[MonitorRow] = []
        bad: list[MonitorRow] = []
        for run in range(1, goal.repetitions + 1):
            planned = MonitorPlan(
                first_index + trials, "search", method, payload_bytes(frame), f"{pps:.0f}pps", run,
                goal.trial_s, goal.ring_bytes, frame=frame,
            )  # fmt: skip
            row = attempt(planned)
            trials += 1
            (good if row.lossless else bad).append(row)
            if len(good) == most:
                passed = row
                return None
            if len(bad) > goal.repetitions - most:
                break
        return bad[-1]

    bad = lossy(goal.max_pps)
    if bad is None:
        return MonitorLimit(method, frame, _rate(passed), None, trials)
    failed = bad
    for _ in range(STEPS):
        if high - low <= math.log1p(goal.precision):
            break
        middle = (low + high) / 2
        bad = lossy(math.exp(middle))
        if bad is None:
            low = middle
        else:
            high, failed = middle, bad
    if passed is None:
        # Down to the least rate, which the middle never reaches.
        bad = lossy(goal.min_pps)
        failed = bad or failed
    lost_link = failed.sent - failed.received
    recorded = failed.record_loss_ratio
    by_record = 0 if math.isnan(recorded) else round(recorded * (failed.entered or 0))
    return MonitorLimit(method, frame, _rate(passed), failed.achieved_pps, trials, lost_link, by_record)


def _rate(row: MonitorRow | None) -> float | None:
    return None if row is None else row.achieved_pps
