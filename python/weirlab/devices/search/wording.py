"""What searches and the tests of RFC 2544 found: a sentence, tables, and rows for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weirlab.base.tables import Table
from weirlab.cli.quantities import clock, percent, plural
from weirlab.devices.search import tables
from weirlab.devices.search.findings import rfc2544_finding, search_finding
from weirlab.records import device_in_words

if TYPE_CHECKING:
    from weirlab.devices.search.rfc2544.suite import Result
    from weirlab.devices.search.study import Rfc2544Outcome, SearchOutcome
    from weirlab.measure.search.goal import GoalResult, SearchGoal
    from weirlab.measure.search.throughput import Setting


def device(outcome: SearchOutcome | Rfc2544Outcome) -> str:
    """The device in words."""
    return device_in_words(outcome.conditions.dut, first=True)


def search_tables(outcome: SearchOutcome) -> list[Table]:
    """One row per setting and goal."""
    return [*tables.bounds(outcome.points)]


def search_sentence(outcome: SearchOutcome) -> str:
    """What was found, in how many trials and how long."""
    return f"{search_finding(outcome.points, outcome.conditions.dut)} {_work(outcome)}.{_against(outcome)}"


def rfc2544_tables(outcome: Rfc2544Outcome) -> list[Table]:
    """One table per test, in the RFC's order and form."""
    return tables.rfc2544(outcome.results, outcome.suite.tests, outcome.run.manifest.facts)


def rfc2544_sentence(outcome: Rfc2544Outcome) -> str:
    """What was found in the first setting, in how many trials and how long."""
    finding = rfc2544_finding(outcome.results[0], outcome.conditions.dut)
    return f"{finding} {_work(outcome)}.{_against(outcome)}"


def _against(outcome: SearchOutcome | Rfc2544Outcome) -> str:
    """What counters of the user's own rules say against what was expected, as a further sentence."""
    from weirlab.jobs.trials import contradicted

    against = contradicted(outcome.run.trials())
    return f" {against}" if against else ""


def _work(outcome: SearchOutcome | Rfc2544Outcome) -> str:
    trials = plural(outcome.trials, "trial")
    return f"({trials} in {clock(outcome.elapsed_s)}, run {outcome.run.run_id})"


def search_lead(outcome: SearchOutcome) -> list[str]:
    """What a report says before its tables."""
    return [
        *_lead(outcome),
        *(f"Goal {goal_in_words(goal)}." for goal in outcome.goals),
        *(f"Not found: {point.setting.text}: {point.problem}." for point in outcome.points if point.problem),
    ]


def rfc2544_lead(outcome: Rfc2544Outcome) -> list[str]:
    """What a report says before its tables, including where the tests are shorter than in the RFC."""
    suite = outcome.suite
    told = [
        f"Goal {goal_in_words(suite.goal)}. RFC 2544: one trial of at least 60 s, no loss.",
        f"Latency: {suite.repetitions} trials of {suite.latency_s:g} s, every frame time-stamped at "
        "departure and arrival. RFC 2544: 20 trials of at least 120 s, one tagged frame each.",
        f"Frame loss rate: one trial of {suite.loss_s:g} s per load. RFC 2544: 60 s.",
        f"Back-to-back frames: {suite.bursts} searches. RFC 2544: 50.",
    ]
    tests = ("throughput", "latency", "loss", "bursts")
    problems = [f"{result.setting.text}: {text}" for result in outcome.results for text in result.problems]
    return [
        *_lead(outcome),
        *(text for test, text in zip(tests, told, strict=True) if test in suite.tests),
        *(f"Not found: {text}." for text in problems),
    ]


def search_rows(outcome: SearchOutcome) -> list[dict[str, Any]]:
    """One row per setting and goal, numbers without units."""
    return [
        {**_where_row(point.setting), "max_load_pps": point.max_load_pps, **_found_row(found)}
        for point in outcome.points
        for found in point.found
    ]


def rfc2544_rows(outcome: Rfc2544Outcome) -> list[dict[str, Any]]:
    """One row per setting, test and quantity: ``at`` is the load's share of the maximum, for loss."""
    rows: list[dict[str, Any]] = []
    for result in outcome.results:
        for test, at, quantity, value in _quantities(result):
            if test in outcome.suite.tests:
                where = _where_row(result.setting)
                rows.append({**where, "test": test, "at": at, "quantity": quantity, "value": value})
    return rows


def _quantities(result: Result) -> Iterator[tuple[str, float | None, str, Any]]:
    if result.found is not None:
        for name in ("lower_pps", "upper_pps", "conditional_throughput_pps", "loss_ratio", "at_least"):
            yield "throughput", None, name, getattr(result.found, name)
    if result.latency is not None:
        for name in (
            "rate_pps",
            "mean_ns",
            "min_ns",
            "max_ns",
            "std_ns",
            "p99_ns",
            "loss_ratio",
            "repetitions",
        ):
            yield "latency", None, name, getattr(result.latency, name)
    for point in result.loss.points if result.loss is not None else ():
        yield "loss", point.share, "offered_pps", point.offered_pps
        yield "loss", point.share, "loss_ratio", point.loss_ratio
    if result.bursts is not None:
        bursts = result.bursts
        for i, frames in enumerate(bursts.frames, 1):
            yield "bursts", None, f"frames_{i}", frames
        for name in (
            "mean_frames",
            "std_frames",
            "rate_pps",
            "corrected_buffer_s",
            "buffer_frames",
            "at_least",
        ):
            yield "bursts", None, name, getattr(bursts, name)


def _where_row(setting: Setting) -> dict[str, Any]:
    return {
        "rules": setting.rules.position,
        "stateful": setting.rules.stateful,
        "sizes": setting.sizes_text,
        "frame_bytes": setting.frame_bytes,
    }


def _found_row(found: GoalResult) -> dict[str, Any]:
    values = {name: value for name, value in vars(found).items() if name != "goal"}
    return {**{f"goal_{name}": value for name, value in vars(found.goal).items()}, **values}


def goal_in_words(goal: SearchGoal) -> str:
    """How a goal judges trials and loads."""
    return (
        f"{goal.name}: trials of {goal.trial_s:g} s with at most {percent(goal.loss_ratio)} lost; a load "
        f"is carried when at most {percent(goal.exceed_ratio)} of {goal.duration_sum_s:g} s are worse; "
        f"bounds within {percent(goal.relative_width)}"
    )


def _lead(outcome: SearchOutcome | Rfc2544Outcome) -> list[str]:
    has = outcome.conditions
    return [
        f"Device {has.dut} in the lab {has.lab} ({has.backend}), run {outcome.run.run_id}, calibration "
        f"{has.calibration or 'none'}. Frame sizes include the FCS; Mbit/s count preamble and gap.",
        "Where a value is marked ≥, no higher load could be offered: the device may carry more.",
    ]
