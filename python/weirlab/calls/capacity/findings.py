"""What a run about capacity finds, as it is stored and in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weirlab.base.documents import document_of
from weirlab.base.errors import TrialError
from weirlab.calls.capacity.prediction import CapacityPrediction
from weirlab.calls.capacity.trials.losses import CallLoss, DropThreshold
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, rules, words
from weirlab.jobs.calibrations import CalibrationOutcome
from weirlab.records import device_in_words
from weirlab.store import Run

if TYPE_CHECKING:
    from weirlab.studies.contract import Outcome


@dataclass(frozen=True)
class CounterAgreement:
    """In how many valid trials the device's own counters could be compared with Weir's, and agreed."""

    compared: int = 0
    agreed: int = 0


@dataclass(frozen=True)
class CapacityConclusions:
    """How many calls are carried, by sweep, search and model; each empty if not requested."""

    sweep: tuple[DropThreshold, ...] = ()
    """Where the sweep showed loss, per position."""
    search: tuple[CallCapacity, ...] = ()
    """What the search found, per position and goal."""
    model: str = ""
    """Where the model came from."""
    predicted: tuple[CapacityPrediction, ...] = ()
    """What the model says, per position and goal."""
    counters: CounterAgreement = CounterAgreement()
    losses: tuple[CallLoss, ...] = ()
    """Packets sent and lost per position and number of calls, and how many while the host disturbed."""

    def measured(self, position: int, goal: CallGoal) -> int | None:
        """Most calls at ``position``, by the search or else (without loss) by the sweep.

        None if it is unknown or only a lower bound.
        """
        for found in self.search:
            if (found.position, found.goal) == (position, goal):
                return None if found.at_least else found.calls
        swept = [one.carried for one in self.sweep if one.position == position and goal.mos is None]
        return swept[0] if swept else None

    @property
    def first_losses(self) -> tuple[CallLoss, ...]:
        """The losses that bound "without loss", per position: at the most calls that were carried, where they
        are the host's, and at the fewest that were too many."""
        lossless = [one for one in self.search if one.goal.mos is None]
        bounds = {(one.position, calls) for one in lossless for calls in (one.calls, one.too_many)}
        searched = {position for position, calls in bounds if calls}
        bounds |= {
            (one.position, calls)
            for one in self.sweep
            if one.position not in searched
            for calls in (one.carried, one.dropped)
        }
        return tuple(one for one in self.losses if (one.position, one.calls) in bounds and one.lost)

    def to_json(self) -> dict[str, Any]:
        return document_of(self) | {
            "predicted": [
                {**vars(one), "ratio_to_measured": one.ratio(self.measured(one.position, one.goal))}
                for one in self.predicted
            ]
        }


@dataclass(frozen=True)
class CapacityFindings:
    """What a run about capacity found."""

    calibration: CalibrationOutcome | None
    results: CapacityConclusions

    def document(self) -> dict[str, Any]:
        calibration = None if self.calibration is None else self.calibration.document()
        return {"calibration": calibration, **self.results.to_json()}

    def problem(self, run: Run) -> TrialError | None:
        """The error to report if the host spoiled a search."""
        told = [
            f"{one.goal.name} at position {one.position}: {one.problem}"
            for one in self.results.search
            if one.problem
        ]
        if not told:
            return None
        return TrialError(f"not everything was found: {'; '.join(told)} (run {run.run_id})")


def conclusion(outcome: Outcome[CapacityFindings]) -> str:
    """The results, one per line, then the report and the run."""
    lines = headlines(outcome.run, outcome.found.results)
    if outcome.report is not None:
        lines.append(f"Report: {outcome.report.path}")
    return "\n".join([*lines, f"Run {outcome.run.run_id} is complete."])


def headlines(run: Run, found: CapacityConclusions) -> list[str]:
    """What was found, a sentence each."""
    lines = [
        *_carried_lines(run, found),
        *_host_lines(found),
        *_predicted_lines(found),
        *_inside_line(run),
    ]
    counters = found.counters
    if counters.compared:
        lines.append(
            f"The device's own counters and Weir's agree in {counters.agreed:,} of "
            f"{plural(counters.compared, 'trial')}."
        )
    return lines


def _carried_lines(run: Run, found: CapacityConclusions) -> Iterator[str]:
    device = device_in_words(str(run.manifest.facts.get("dut", "the device")), first=True)
    by_position: dict[int, list[CallCapacity]] = {}
    for one in found.search:
        by_position.setdefault(one.position, []).append(one)
    for position, ones in by_position.items():
        yield f"{device}, {rules(position)}: {words([_carried(one) for one in ones])}."
    if not by_position:
        for swept in found.sweep:
            yield f"{device}, {rules(swept.position)}: {_swept(swept)}."


def _host_lines(found: CapacityConclusions) -> Iterator[str]:
    """How many of the packets in the first losses may be the host's fault."""
    for one in found.first_losses:
        where = f"{plural(one.calls, 'call')} ({rules(one.position)})"
        if one.disturbed_lost is None:
            yield f"It is not known whether the host contributed to the loss at {where}."
            continue
        yield (
            f"Of the {plural(one.lost, 'packet')} lost at {where}, {_share(one.disturbed_share)} were sent "
            "while the host disturbed device or sender; of the packets sent at other times "
            f"{percent(one.rest_ratio)} were lost."
        )


def _carried(one: CallCapacity) -> str:
    if one.problem and one.calls is None:
        return f"{one.goal.name} was not found ({one.problem})"
    if one.calls is None:
        return f"not even {count(one.too_many or math.nan)} calls {one.goal.name}"
    load = "" if one.pps is None else f" ({rate(one.pps)})"
    return f"{'at least ' if one.at_least else ''}{count(one.calls)} calls{load} {one.goal.name}"


def _swept(one: DropThreshold) -> str:
    if one.dropped is None:
        return f"carries all {count(one.most)} calls without loss, the most that were tried"
    begins = f"drops from {count(one.dropped)} calls on ({rate(one.dropped_pps or math.nan)})"
    return begins if one.carried is None else f"carries {count(one.carried)} calls without loss, {begins}"


def off(ratio: float) -> str:
    """How far a prediction is off: ``-2.9 %``."""
    return f"{100 * ratio:+.1f} %" if math.isfinite(ratio) else NOTHING


def _predicted_lines(found: CapacityConclusions) -> Iterator[str]:
    told = []
    for one in found.predicted:
        ratio = one.ratio(found.measured(one.position, one.goal))
        if ratio is not None and one.calls is not None:
            apart = off(ratio)
            if one.least_calls is not None and one.most_calls is not None:
                apart += f", 90 % interval {count(one.least_calls)} to {count(one.most_calls)}"
            least = "at least " if one.at_least else ""
            told.append(
                f"{least}{count(one.calls)} calls {one.goal.name} with {rules(one.position)} ({apart})"
            )
    if told:
        yield f"The model of the profile (run {found.model}) predicts {words(told)}."
    for one in found.predicted:
        # The excess that a deep queue absorbs may be less than a call.
        lasting = one.lasting_calls
        if one.trial_s is not None and lasting is not None and lasting != (one.calls or 0):
            yield (
                f"{_first(one.goal.name)} with {rules(one.position)}: the prediction is for a trial of "
                f"{duration(one.trial_s * 1e9)}, warm-up included, in which a deep queue absorbs the "
                f"excess. In the long run the device carries {count(lasting)} calls."
            )
        for why in one.why_extrapolated:
            yield f"Its prediction for {rules(one.position)} is extrapolated: {why}."
    yield from unchecked_lines(found)


def unchecked_lines(found: CapacityConclusions) -> Iterator[str]:
    """What the intervals of the predictions do not cover."""
    for text in dict.fromkeys(one.unchecked for one in found.predicted if one.unchecked):
        yield f"{_first(text)}."


def _inside_line(run: Run) -> Iterator[str]:
    from weirlab.calls.capacity.trials import rows

    valid = [row for row in rows.kept(run) if row.valid]
    looked = [(row.samples_due, row.samples_taken or 0) for row in valid if row.samples_due is not None]
    if not looked:
        return
    due, taken = (sum(numbers) for numbers in zip(*looked, strict=True))
    latest = max(row.sample_late_max_s for row in valid if row.samples_due is not None)
    starved = sum(taken < due for due, taken in looked)
    told = f"; in {plural(starved, 'trial')} the device was too busy to be sampled in time" if starved else ""
    yield (
        f"Inside the device, {taken:,} of {due:,} samples were taken while calls were up, "
        f"the latest {duration(latest * 1e9)} late{told}."
    )


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _share(ratio: float) -> str:
    """A share in whole percent, but never 100 % if something is missing."""
    if not math.isfinite(ratio):
        return NOTHING
    return f"{math.floor(ratio * 1000) / 10:.1f} %" if 0.99 <= ratio < 1 else f"{ratio * 100:.0f} %"
