"""Calibration: what the tool adds by itself, measured over a plain cable.

The test bed is a pair of interfaces without a device in between. Delay there is the error
of every time stamp, loss there is false, and the difference of achieved and nominal load
is the error of pacing. A calibration is a separate run; results name the one in force.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.base.documents import Measured, Unlimited, document_of
from weirlab.base.errors import StoreError, TrialError
from weirlab.lab.base import TestBed
from weirlab.measure import sequence
from weirlab.measure.progress import OnProgress, ProgressMeter, trial_s
from weirlab.measure.scouting import MAX_RATE
from weirlab.measure.sequence import Part
from weirlab.measure.terms import SINGLE, TrialTerms
from weirlab.measure.trial import Hooks
from weirlab.records import TrialRecord, TrialSpec
from weirlab.store import RunWriter, Store
from weirlab.store.manifest import host as this_host
from weirlab.store.manifest import kernel as this_kernel
from weirlab.store.rows import rate_text
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

KIND: Final = "calibrate"
RESULT: Final = "calibration"
PLAN: Final = "plan"
UNPACED_PLAN: Final = "unpaced-plan"

RATES: Final = (Rate(1e3), Rate(1e4), Rate(1e5), Rate(1e6), MAX_RATE)


@dataclass(frozen=True)
class CalibrationPoint:
    """What the tool did at one load; medians over the valid trials unless said otherwise.

    Where no trial was valid, the values come from the invalid ones and ``valid`` is 0.
    """

    rate_text: str
    nominal_pps: Unlimited
    """Infinite for "as fast as possible"."""
    achieved_pps: Measured
    pacing_error_ratio: Measured
    """Achieved over nominal load, minus 1; NaN for "as fast as possible"."""
    late_mean_ns: Measured
    late_max_ns: Measured
    """Largest of all."""
    delay_p50_ns: Measured
    delay_p99_ns: Measured
    sent: int
    """Sum."""
    lost: int
    """Sum."""
    valid: int
    """Number of valid trials."""
    invalid: int
    """Number of attempts that the host spoiled."""


@dataclass(frozen=True)
class Calibration:
    """The tool's own error on one machine."""

    id: str
    """ID of the run that holds its trials."""
    when: str
    host: str
    kernel: str
    lab: str
    backend: str
    points: tuple[CalibrationPoint, ...]

    @property
    def pacing_error_ratio(self) -> float:
        """Largest deviation (absolute) of achieved from nominal load among the paced loads."""
        return max((abs(point.pacing_error_ratio) for point in self._paced), default=math.nan)

    @property
    def delay_p50_ns(self) -> float:
        """Time-stamp error: what the tool adds to half of the delays (median over the paced loads)."""
        known = [point.delay_p50_ns for point in self._paced if math.isfinite(point.delay_p50_ns)]
        return statistics.median(known) if known else math.nan

    @property
    def delay_p99_ns(self) -> float:
        """Time-stamp error: what the tool adds to 99 % of the delays at most (worst of the paced loads)."""
        return max((point.delay_p99_ns for point in self._paced), default=math.nan)

    @property
    def sent(self) -> int:
        """Packets at paced loads."""
        return sum(point.sent for point in self._paced)

    @property
    def lost(self) -> int:
        """Packets lost at paced loads, all of them falsely."""
        return sum(point.lost for point in self._paced)

    @property
    def false_loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else math.nan

    @property
    def max_pps(self) -> float:
        """The rate of the sender without pacing; NaN if that was not measured."""
        unpaced = [point.achieved_pps for point in self.points if math.isinf(point.nominal_pps)]
        return max(unpaced, default=math.nan)

    @property
    def paced_limit_pps(self) -> float:
        """Highest load that was paced within the limits; NaN if none was."""
        return max((point.nominal_pps for point in self._paced), default=math.nan)

    def nearest(self, rate_pps: float) -> CalibrationPoint | None:
        """The load that was paced, whose ratio to this one is closest to 1; None without one."""
        if not rate_pps > 0:
            return None
        return min(self._paced, key=lambda point: abs(math.log(point.achieved_pps / rate_pps)), default=None)

    @property
    def _paced(self) -> list[CalibrationPoint]:
        return [point for point in self.points if math.isfinite(point.nominal_pps) and point.valid]

    def to_json(self) -> dict[str, Any]:
        """The summary included."""
        names = ("pacing_error_ratio", "delay_p50_ns", "delay_p99_ns", "false_loss_ratio")
        summary = {
            name: getattr(self, name) for name in (*names, "sent", "lost", "max_pps", "paced_limit_pps")
        }
        return {**document_of(self), "summary": summary}


@dataclass(frozen=True)
class CalibrationPlan:
    """The trials of a calibration."""

    rates: Sequence[Rate] = RATES
    frame_bytes: int = 64
    repetitions: int = 3
    trial_s: float = 0.5
    warmup_s: float = 0.1

    def specs(self) -> list[TrialSpec]:
        """Every load once before any twice."""
        sizes = Constant(self.frame_bytes)
        loads = [Traffic(rate, sizes, warmup_s=self.warmup_s, duration_s=self.trial_s) for rate in self.rates]
        return [TrialSpec(load, label=KIND) for _ in range(self.repetitions) for load in loads]


USUAL_PLAN: Final = CalibrationPlan()


def calibrate(
    bed: TestBed,
    writer: RunWriter,
    on_progress: OnProgress | None = None,
    *,
    plan: CalibrationPlan = USUAL_PLAN,
    terms: TrialTerms = SINGLE,
) -> Calibration:
    """Measure the tool's own error over ``bed``, a plain pair of interfaces, into the run of ``writer``.

    The run keeps the trials and the calibration itself; the caller finishes the run.

    Raises
    ------
    TrialError
        Nothing arrived, or no paced load had a valid trial.
    """
    specs = plan.specs()
    paced = [spec for spec in specs if spec.traffic.rate.unit != "max"]
    unpaced = [spec for spec in specs if spec.traffic.rate.unit == "max"]
    meter = ProgressMeter(map(trial_s, specs), terms.clocks.seconds, on_progress)
    records: list[TrialRecord] = []
    # At full speed the receiver's own limit shows; that is no reason to repeat the trial.
    any_drops = replace(terms.limits, receiver_drops=sys.maxsize)
    for name, part, first, allowed in (
        (PLAN, paced, 0, terms.limits),
        (UNPACED_PLAN, unpaced, len(paced), any_drops),
    ):
        sequence.run(
            bed,
            part,
            writer,
            Part("calibrate", name, first),
            meter,
            terms=replace(terms, limits=allowed),
            hooks=Hooks(on_record=records.append),
        )
    manifest = writer.run.manifest
    calibration = Calibration(
        id=writer.run_id,
        when=manifest.created,
        host=manifest.host,
        kernel=manifest.kernel,
        lab=bed.lab,
        backend=bed.backend,
        points=tuple(
            _point([record for record in records if record.spec.traffic.rate == rate]) for rate in plan.rates
        ),
    )
    if math.isnan(calibration.paced_limit_pps):
        reasons = "; ".join(dict.fromkeys(reason for record in records for reason in record.invalid))
        raise TrialError(
            f"calibration {writer.run_id} failed, no paced trial was left undisturbed: {reasons}; "
            "stop other work on the machine and run 'weir calibrate' again"
        )
    writer.put_json(RESULT, calibration)
    return calibration


def current(
    store: Store,
    *,
    lab: str,
    backend: str,
    between: Sequence[str] = (),
    host: str | None = None,
    kernel: str | None = None,
) -> Calibration | None:
    """The newest calibration that holds for this host and kernel, this lab and back end; None without one.

    In the wired lab it holds for the ports ``between`` which it was made, in that order. One that cannot be
    read is skipped: measuring does not depend on it.
    """
    wanted = (host or this_host(), kernel or this_kernel(), lab, backend)
    for summary in store.runs():
        if summary.kind != KIND or summary.status != "complete":
            continue
        try:
            run = store.open(summary.run_id)
            found = run.get_json(RESULT, Calibration)
        except StoreError:
            continue
        if list(run.manifest.facts.get("between", ())) != list(between):
            continue
        if (found.host, found.kernel, found.lab, found.backend) == wanted:
            return found
    return None


def _point(records: list[TrialRecord]) -> CalibrationPoint:
    valid = [record for record in records if record.valid]
    results = [record.result for record in valid or records]
    first = records[0]
    achieved = statistics.median(result.achieved_pps for result in results)
    return CalibrationPoint(
        rate_text=rate_text(first.spec.traffic),
        nominal_pps=first.offered_pps,
        achieved_pps=achieved,
        pacing_error_ratio=achieved / first.offered_pps - 1 if math.isfinite(first.offered_pps) else math.nan,
        late_mean_ns=statistics.median(result.late_mean_ns for result in results),
        late_max_ns=float(max(result.late_max_ns for result in results)),
        delay_p50_ns=statistics.median(result.histogram.quantile_ns(0.5) for result in results),
        delay_p99_ns=statistics.median(result.histogram.quantile_ns(0.99) for result in results),
        sent=sum(result.sent for result in results),
        lost=sum(result.lost for result in results),
        valid=len(valid),
        invalid=len(records) - len(valid),
    )
