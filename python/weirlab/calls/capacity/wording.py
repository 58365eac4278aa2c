"""What a run about capacity found, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, rules, words
from weirlab.records import device_in_words

if TYPE_CHECKING:
    from weirlab.calls.capacity.findings import CapacityConclusions, CapacityFindings
    from weirlab.calls.capacity.trials.losses import DropThreshold
    from weirlab.calls.capacity.trials.search import CallCapacity
    from weirlab.store import Run
    from weirlab.studies.contract import Outcome


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
