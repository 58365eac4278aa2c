"""The targets for the models, and whether they are met."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring import RunScores, Score, Speed, coverage, medians, repeatability
from simulated import Recovery
from weirlab.cli.quantities import significant
from weirlab.model import LohmillerModel, PiecewiseModel, QueueingModel

REPEATABILITY_FACTOR = 1.5
"""An error counts as unavoidable up to this multiple of the difference between repetitions."""

ERRORS = (
    ("threshold", "threshold", 4.0, False),
    ("mean delay below", "delay_mean_below", 8.0, True),
    ("p99 below", "delay_p99_below", 20.0, True),
    ("delay in overload", "delay_mean_overload", 5.0, False),
)
"""Name, quantity, limit in percent, and whether the repeatability may raise it."""

LOSS_LIMIT = 1.0
COVERED = (90, 88.0, 92.0)
COVERED_SIMULATED = (90, 88.0, 92.0)
RECOVERED_PERCENT = 1.0
FIT_S = 2.0
PREDICT_S = 0.005
PREDICT_MANY_S = 1.0


@dataclass(frozen=True)
class Verdict:
    """One target: whether it is met, or by how much it is missed. ``met`` is None if nothing was measured."""

    what: str
    found: str
    limit: str
    met: bool | None
    missed_by: str = ""

    def __str__(self) -> str:
        if self.met is None:
            return "not measured"
        return "met" if self.met else f"missed by {self.missed_by}"


def of_device(runs: Sequence[RunScores]) -> list[Verdict]:
    """All targets that the runs of one device can decide, by the medians of the runs."""
    scores = medians(runs)
    verdicts = [
        _at_most(what, _error(scores, quantity), _limit(scores, quantity, limit, raised), "%")
        for what, quantity, limit, raised in ERRORS
    ]
    loss = scores.get((QueueingModel.name, "loss"))
    verdicts.append(_at_most("loss", loss.error if loss else math.nan, LOSS_LIMIT, " points"))
    alarms = loss.false_alarms if loss else None
    verdicts.append(_at_most("false alarms", math.nan if alarms is None else float(alarms), 0.0, ""))
    level, low, high = COVERED
    per_run = [coverage([run], level) for run in runs]
    verdicts.append(_within(f"coverage of {level} %", statistics.median(per_run), low, high))
    return [*verdicts, *_better(scores), *of_speed([run.speed for run in runs])]


def of_speed(speeds: Sequence[Speed]) -> list[Verdict]:
    """Targets for the time of a fit and of predictions."""
    return [
        _faster("fit", [each.fit_s for each in speeds], FIT_S),
        _faster("one prediction", [each.predict_s for each in speeds], PREDICT_S),
        _faster("10,000 predictions", [each.predict_many_s for each in speeds], PREDICT_MANY_S),
    ]


def of_recovery(found: Recovery) -> list[Verdict]:
    """Targets in the simulated lab, where the truth is known."""
    level, low, high = COVERED_SIMULATED
    return [
        *(
            _at_most(f"{name} recovered", each.median_percent, RECOVERED_PERCENT, "%")
            for name, each in found.parameters.items()
        ),
        _within(f"coverage of {level} %", found.coverage_percent.get(level, math.nan), low, high),
    ]


def _better(scores: Mapping[tuple[str, str], Score]) -> list[Verdict]:
    """Compare the queueing model with the published model, and our variant of it, on the same trials."""
    verdicts = []
    quantities = [*((what, quantity) for what, quantity, _, _ in ERRORS), ("loss", "loss")]
    for (what, quantity), other in itertools.product(quantities, (LohmillerModel.name, PiecewiseModel.name)):
        ours, theirs = _error(scores, quantity), _error(scores, quantity, other)
        known = math.isfinite(ours) and math.isfinite(theirs)
        verdicts.append(
            Verdict(
                f"{what}: better than {other}",
                f"{ours:.2f}",
                f"< {theirs:.2f}",
                ours < theirs if known else None,
                f"{ours - theirs:.2f}",
            )
        )
    return verdicts


def _error(scores: Mapping[tuple[str, str], Score], quantity: str, model: str = QueueingModel.name) -> float:
    found = scores.get((model, quantity))
    return found.error if found else math.nan


def _limit(scores: Mapping[tuple[str, str], Score], quantity: str, limit: float, raised: bool) -> float:
    unavoidable = REPEATABILITY_FACTOR * repeatability(scores, quantity) if raised else math.nan
    return max(limit, unavoidable) if math.isfinite(unavoidable) else limit


def _at_most(what: str, found: float, limit: float, unit: str) -> Verdict:
    met = found <= limit if math.isfinite(found) else None
    digits = ".0f" if unit == "" else ".2f"
    return Verdict(
        what,
        f"{found:{digits}}{unit}",
        f"<= {limit:{digits}}{unit}",
        met,
        f"{found - limit:{digits}}{' points' if unit == '%' else unit}",
    )


def _within(what: str, found: float, low: float, high: float) -> Verdict:
    met = low <= found <= high if math.isfinite(found) else None
    off = max(low - found, found - high)
    return Verdict(what, f"{found:.1f}%", f"{low:g} to {high:g}%", met, f"{off:.1f} points")


def _faster(what: str, seconds: Sequence[float], limit: float) -> Verdict:
    found = statistics.median(seconds)
    return Verdict(
        what,
        f"{significant(1000 * found)} ms",
        f"< {1000 * limit:g} ms",
        found < limit,
        f"{significant(1000 * (found - limit))} ms",
    )
