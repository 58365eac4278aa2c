"""Trial after trial, each kept as soon as it is over; and the search for the greatest rate without loss.

Trials of one run and method share a link.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from weirlab.base.errors import LabError
from weirlab.lab.base import TestBed
from weirlab.links.monitor.plan import (
    LAB_S,
    OVERHEAD_S,
    Method,
    MonitorPlan,
    MonitorSettings,
    Stages,
    payload_bytes,
)
from weirlab.links.monitor.rows import TRIALS, MonitorRow, row_of
from weirlab.measure.progress import OnProgress, ProgressMeter
from weirlab.measure.terms import SINGLE
from weirlab.measure.trial import Hooks, TrialEntry, run_trial
from weirlab.measure.validity import ValidityLimits, judge
from weirlab.records import TrialRecord, TrialSpec
from weirlab.store import RunWriter
from weirlab.store.frames import frame_of

MAX_ATTEMPTS: Final = 3

LIMITS: Final = ValidityLimits()


class MonitorLab(TestBed, Protocol):
    """What is used of :class:`weirlab.links.monitor.bed.LinkLab`."""

    @property
    def stages(self) -> Stages | None: ...

    @property
    def stalled_ns(self) -> tuple[int, int] | None: ...

    @property
    def facts(self) -> Mapping[str, object]: ...


OpenLab = Callable[[MonitorSettings], AbstractContextManager[MonitorLab]]


class MonitorTrialRunner:
    """Carries out trials on links that are there; ``rows`` has every attempt of the run."""

    def __init__(self, writer: RunWriter, max_attempts: int = MAX_ATTEMPTS) -> None:
        self.writer, self._max_attempts = writer, max_attempts
        self.rows = writer.run.rows(MonitorRow, TRIALS)

    def carry(self, lab: MonitorLab, planned: MonitorPlan) -> TrialRecord:
        """The last attempt: the first valid one, or the last allowed. Its row is the last of ``rows``."""

        def keep(record: TrialRecord) -> None:
            if lab.stages is None:
                raise LabError(f"{planned.text}: the link did not say what became of its frames")
            row = row_of(planned, record, lab.stages, lab.stalled_ns)
            self.writer.add(replace(record, tables={TRIALS: frame_of(MonitorRow, [row])}))
            self.rows.append(row)

        return run_trial(
            lab,
            TrialSpec(planned.traffic(), label=planned.text),
            TrialEntry(
                self.writer.run_id,
                planned.index,
                "search" if planned.part == "search" else "single",
                self.writer.attempts.get(planned.index, 0) + 1,
            ),
            terms=replace(SINGLE, max_attempts=self._max_attempts),
            hooks=Hooks(completed=judged, on_record=keep),
            set_rules=False,
        )[-1]


def judged(record: TrialRecord) -> TrialRecord:
    """``record`` judged as a trial of a link.

    Who records may share the bridge's CPU, and losing frames in overload is what the trial is about:
    waiting and drops are no disturbance here. A CPU that the host took away is, and a sender that
    fell behind.
    """
    host = replace(record.host, dut_wait_s=None, softnet_dropped=0, handover_ns=None, handover_change=1.0)
    return replace(record, host=host, invalid=judge(record.result, host, record.offered_pps, LIMITS))


def measure(
    open_lab: OpenLab,
    trials: Sequence[MonitorPlan],
    common: MonitorSettings,
    carrier: MonitorTrialRunner,
    on_progress: OnProgress | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Carry out ``trials`` in order, leaving out those with a valid attempt in the run.

    Raises
    ------
    LabError
        A link cannot be built, or its recorder failed; finished trials are kept.
    FailedTrial
        Nothing arrived.
    """
    done = carrier.writer.done
    meter = ProgressMeter(_expected_s(trials), clock, on_progress)
    for _, group in itertools.groupby(trials, key=lambda planned: planned.lab):
        together = list(group)
        left = [planned for planned in together if planned.index not in done]
        for _ in range(len(together) - len(left)):
            meter.skip()
        if not left:
            continue
        meter.tell(left[0].text)
        with open_lab(left[0].settings(common)) as lab:
            for planned in left:
                meter.tell(planned.text)
                meter.count(planned.text, carrier.carry(lab, planned))


def _expected_s(trials: Sequence[MonitorPlan]) -> list[float]:
    found = []
    last: object = None
    for planned in trials:
        found.append(planned.duration_s + OVERHEAD_S + (LAB_S if planned.lab != last else 0.0))
        last = planned.lab
    return found


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
