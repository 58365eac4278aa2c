"""What searches and the tests of RFC 2544 found: tables, a sentence, and rows for other programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.cli.output import Table
from weirlab.cli.quantities import NOTHING, clock, count, duration, percent, plural, rate, rules, significant
from weirlab.records import device_in_words
from weirlab.traffic.sizes import describe, mean_bytes
from weirlab.units import bps_from_pps

if TYPE_CHECKING:
    from weirlab.measure.search import Found, Goal, Point, Setting
    from weirlab.studies.search.rfc2544 import Result
    from weirlab.studies.search.study import Rfc2544Outcome, SearchOutcome

_WHERE = ("rules", "frame, B")


def device(outcome: SearchOutcome | Rfc2544Outcome) -> str:
    """The device in words."""
    return device_in_words(outcome.conditions.dut, first=True)


def search_tables(outcome: SearchOutcome) -> list[Table]:
    """One row per setting and goal."""
    columns = (
        *_WHERE,
        "goal",
        "throughput, pps",
        "Mbit/s",
        "carries, pps",
        "too much, pps",
        "lost",
        "trials",
    )
    rows = [
        (*_where(point.setting), *_goal_cells(found, point), str(point.trials))
        for point in outcome.points
        for found in point.found
    ]
    if not rows:
        return []
    return [Table(columns, rows, title="throughput (RFC 9971)", right=(*_WHERE, *columns[3:]))]


def search_sentence(outcome: SearchOutcome) -> str:
    """The first goal of every setting, at most three of them."""
    parts = [
        f"{_told(point.setting, outcome.conditions.dut)}: {_carried(point.found[0])}"
        for point in outcome.points
        if point.found
    ]
    told = "; ".join(parts[:3]) + (f"; {len(parts) - 3} more in the table" if len(parts) > 3 else "")
    return (
        f"{device(outcome)}, {told or 'nothing was found'} "
        f"({plural(outcome.trials, 'trial')} in {clock(outcome.elapsed_s)}, run {outcome.run.run_id})."
    )


def rfc2544_tables(outcome: Rfc2544Outcome) -> list[Table]:
    """One table per test, in the RFC's order and form."""
    results = outcome.results
    makers = {"throughput": _throughput, "latency": _latency, "loss": _loss, "bursts": _bursts}
    return [table for test, make in makers.items() if test in outcome.suite.tests for table in make(results)]


def rfc2544_sentence(outcome: Rfc2544Outcome) -> str:
    """The first setting's results."""
    first = outcome.results[0]
    parts = []
    if first.found is not None:
        parts.append(_carried(first.found))
    if first.latency is not None:
        parts.append(f"latency there {duration(first.latency.mean_ns)}")
    if first.loss is not None:
        top = first.loss.points[0]
        parts.append(f"{percent(top.loss_ratio)} lost at {rate(top.offered_pps)}")
    if first.bursts is not None:
        more = "at least " if first.bursts.at_least else ""
        parts.append(f"bursts of up to {more}{count(first.bursts.mean_frames)} frames without loss")
    what = ", ".join(parts) or "nothing was found"
    return (
        f"{device(outcome)}, {_told(first.setting, outcome.conditions.dut)}: {what} "
        f"({plural(outcome.trials, 'trial')} in {clock(outcome.elapsed_s)}, run {outcome.run.run_id})."
    )


def search_lead(outcome: SearchOutcome) -> list[str]:
    """What a report says before its tables."""
    return [
        *_lead(outcome),
        *(f"Goal {_goal_in_words(goal)}." for goal in outcome.goals),
        *(f"Not found: {point.setting.text}: {point.problem}." for point in outcome.points if point.problem),
    ]


def rfc2544_lead(outcome: Rfc2544Outcome) -> list[str]:
    """What a report says before its tables: also where it is shorter than the RFC asks for."""
    suite = outcome.suite
    told = [
        f"Goal {_goal_in_words(suite.goal)}. RFC 2544: one trial of at least 60 s, no loss.",
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


def _throughput(results: Sequence[Result]) -> list[Table]:
    columns = (*_WHERE, "throughput, pps", "Mbit/s", "carries, pps", "too much, pps", "lost", "trials")
    rows = [
        (
            *_where(result.setting),
            *_goal_cells(result.found, result.throughput)[1:],
            str(result.throughput.trials),
        )
        for result in results
        if result.found is not None and result.throughput is not None
    ]
    return _table("throughput (RFC 2544 section 26.1)", columns, rows)


def _latency(results: Sequence[Result]) -> list[Table]:
    columns = (*_WHERE, "rate, pps", "latency, µs", "min", "max", "std", "p99", "trials")
    rows = [
        (
            *_where(result.setting),
            _bounded(found.rate_pps, found.at_least),
            *(_us(ns) for ns in (found.mean_ns, found.min_ns, found.max_ns, found.std_ns, found.p99_ns)),
            str(found.repetitions),
        )
        for result in results
        if (found := result.latency) is not None
    ]
    return _table("latency at the throughput (RFC 2544 section 26.2), one way", columns, rows)


def _loss(results: Sequence[Result]) -> list[Table]:
    """Loads downwards, settings across: the points of the RFC's curves."""
    curves = [result.loss for result in results if result.loss is not None]
    if not curves:
        return []
    several = len({curve.setting.rules for curve in curves}) > 1
    names = [
        f"{describe(curve.setting.sizes)} B" + (f", {rules(curve.setting.rules.position)}" if several else "")
        for curve in curves
    ]
    lost = [{point.share: point.loss_ratio for point in curve.points} for curve in curves]
    shares = sorted({share for points in lost for share in points}, reverse=True)
    rows = [
        (f"{share * 100:.4g} %", *(percent(points[share]) if share in points else NOTHING for points in lost))
        for share in shares
    ]
    top = ("100 % is, pps", *(count(curve.max_load_pps) for curve in curves))
    columns = ("load", *names)
    return _table("frame loss rate (RFC 2544 section 26.3)", columns, [top, *rows], right=columns[1:])


def _bursts(results: Sequence[Result]) -> list[Table]:
    columns = (
        *_WHERE,
        "rate, pps",
        "back-to-back, frames",
        "min",
        "max",
        "std",
        "corrected buffer, µs",
        "buffer, frames",
        "searches",
    )
    rows = [
        (
            *_where(result.setting),
            count(found.rate_pps),
            _bounded(found.mean_frames, found.at_least),
            count(min(found.frames)),
            count(max(found.frames)),
            significant(found.std_frames, 2),
            _us(found.corrected_buffer_s * 1e9),
            count(found.buffer_frames),
            str(len(found.frames)),
        )
        for result in results
        if (found := result.bursts) is not None
    ]
    return _table("back-to-back frames (RFC 2544 section 26.4, RFC 9004)", columns, rows)


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] | None = None
) -> list[Table]:
    return [Table(columns, rows, title=title, right=columns if right is None else right)] if rows else []


def _goal_cells(found: Found, point: Point) -> tuple[str, ...]:
    """Goal, throughput in two units, both bounds and the loss that was let pass."""
    throughput = found.conditional_throughput_pps
    if throughput is None:
        bits = lower = NOTHING
        shown = f"below {count(found.upper_pps or point.max_load_pps)}"
    else:
        shown = _bounded(throughput, found.at_least)
        lower = count(found.lower_pps or 0)
        bits = f"{bps_from_pps(throughput, mean_bytes(point.setting.sizes)) / 1e6:,.4g}"
    upper = NOTHING if found.upper_pps is None else count(found.upper_pps)
    lost = NOTHING if found.loss_ratio is None else percent(found.loss_ratio)
    return (found.goal.name, shown, bits, lower, upper, lost)


def _bounded(value: float, at_least: bool) -> str:
    return f"{'≥ ' if at_least else ''}{count(value)}"


def _us(ns: float) -> str:
    return significant(ns / 1e3, 4) if math.isfinite(ns) else NOTHING


def _where(setting: Setting) -> tuple[str, str]:
    stateful = " stateful" if setting.rules.stateful else ""
    return count(setting.rules.position) + stateful, describe(setting.sizes)


def _where_row(setting: Setting) -> dict[str, Any]:
    return {
        "rules": setting.rules.position,
        "stateful": setting.rules.stateful,
        "sizes": describe(setting.sizes),
        "frame_bytes": mean_bytes(setting.sizes),
    }


def _found_row(found: Found) -> dict[str, Any]:
    values = {name: value for name, value in vars(found).items() if name != "goal"}
    return {**{f"goal_{name}": value for name, value in vars(found.goal).items()}, **values}


def _told(setting: Setting, dut: str) -> str:
    sizes = describe(setting.sizes)
    frames = f"{sizes}-byte frames" if sizes.isdigit() else f"frames {sizes}"
    return frames if dut in ("ruleset", "none") else f"{rules(setting.rules.position)}, {frames}"


def _carried(found: Found) -> str:
    throughput = found.conditional_throughput_pps
    if throughput is None:
        return f"more lost than {found.goal.name} allows even at the lowest load"
    limit = ", the highest load offered" if found.at_least else ""
    return f"{found.goal.name} {'at least ' if found.at_least else ''}{rate(throughput)}{limit}"


def _goal_in_words(goal: Goal) -> str:
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
