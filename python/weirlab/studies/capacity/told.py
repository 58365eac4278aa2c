"""What a run about capacity found, in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from weirlab.cli.output import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, rules, significant, words
from weirlab.records import device_in_words

if TYPE_CHECKING:
    from weirlab.studies.capacity.study import CapacityFindings
    from weirlab.studies.capacity.trials import Carried, Dropping, Loss
    from weirlab.studies.contract import Outcome

Row = dict[str, Any]

_SHOWN = 8
"""Numbers of calls per position in the table of the sweep; the run has all."""

_BUSY = ("user", "system", "irq", "softirq")


def conclusion(outcome: Outcome[CapacityFindings]) -> str:
    """What came of it, a line for each thing that the reader came for."""
    found = outcome.found
    lines = [
        *_carried_lines(found),
        *_host_lines(found),
        *_predicted_lines(found),
        *_inside_line(found),
    ]
    if found.checked:
        lines.append(
            f"The device's own counters and Weir's agree in {found.agreed:,} of "
            f"{plural(found.checked, 'trial')}."
        )
    if outcome.report is not None:
        lines.append(f"Report: {outcome.report.path}")
    return "\n".join([*lines, f"Run {outcome.run.run_id} is complete."])


def tables(found: CapacityFindings) -> list[Table]:
    """The numbers."""
    return [*_capacity_table(found), *_dropping_table(found), *_sweep_table(found)]


def _carried_lines(found: CapacityFindings) -> Iterator[str]:
    device = device_in_words(str(found.run.manifest.facts.get("dut", "the device")), first=True)
    by_position: dict[int, list[Carried]] = {}
    for one in found.carried:
        by_position.setdefault(one.position, []).append(one)
    for position, ones in by_position.items():
        yield f"{device}, {rules(position)}: {words([_carried(one) for one in ones])}."
    if not by_position:
        for swept in found.dropping:
            yield f"{device}, {rules(swept.position)}: {_swept(swept)}."


def _host_lines(found: CapacityFindings) -> Iterator[str]:
    """Where packets begin to be lost, by how many of them the host's doing may be."""
    for one in found.first_losses:
        where = f"{plural(one.calls, 'call')} ({rules(one.position)})"
        if one.disturbed_lost is None:
            yield f"Whether the host had a part in the loss at {where} is not known."
            continue
        yield (
            f"Of the {plural(one.lost, 'packet')} lost at {where}, {_share(one.disturbed_share)} were sent "
            "while the host disturbed device or sender; of the packets sent at other times "
            f"{percent(one.rest_ratio)} were lost."
        )


def _carried(one: Carried) -> str:
    if one.problem and one.calls is None:
        return f"{one.goal.name} was not found ({one.problem})"
    if one.calls is None:
        return f"not even {count(one.too_many or math.nan)} calls {one.goal.name}"
    load = "" if one.pps is None else f" ({rate(one.pps)})"
    return f"{'at least ' if one.at_least else ''}{count(one.calls)} calls{load} {one.goal.name}"


def _swept(one: Dropping) -> str:
    if one.dropped is None:
        return f"carries all {count(one.most)} calls that were tried without loss"
    begins = f"drops from {count(one.dropped)} calls on ({rate(one.dropped_pps or math.nan)})"
    return begins if one.carried is None else f"carries {count(one.carried)} calls without loss, {begins}"


def _predicted_lines(found: CapacityFindings) -> Iterator[str]:
    told = []
    for one in found.foretold:
        ratio = one.ratio(found.measured(one.position, one.goal))
        if ratio is not None and one.calls is not None:
            apart = f"{ratio * 100:+.0f} %"
            told.append(f"{count(one.calls)} calls {one.goal.name} with {rules(one.position)} ({apart})")
    if told:
        yield f"The model of the profile (run {found.model}) predicts {words(told)}."
    for one in found.foretold:
        for why in one.why_extrapolated:
            yield f"Its prediction for {rules(one.position)} is extrapolated: {why}."


def _inside_line(found: CapacityFindings) -> Iterator[str]:
    lines = [row for row in _rows(found) if row["samples_due"] is not None]
    if not lines:
        return
    due, taken = (sum(row[f"samples_{what}"] for row in lines) for what in ("due", "taken"))
    latest = max(row["sample_late_max_s"] for row in lines)
    starved = sum(row["samples_taken"] < row["samples_due"] for row in lines)
    told = (
        f"; in {plural(starved, 'trial')} the device was too busy to be looked at in time" if starved else ""
    )
    yield (
        f"From inside, {taken:,} of {due:,} samples were taken while calls stood, "
        f"the latest {duration(latest * 1e9)} late{told}."
    )


def _capacity_table(found: CapacityFindings) -> list[Table]:
    columns = ("rules", "goal", "calls", "offered", "too many", "predicted", "difference")
    predicted = {(one.position, one.goal): one for one in found.foretold}
    carried = {(one.position, one.goal): one for one in found.carried}
    rows = []
    for position, goal in dict.fromkeys([*carried, *predicted]):
        one, model = carried.get((position, goal)), predicted.get((position, goal))
        measured = found.measured(position, goal)
        ratio = None if model is None else model.ratio(measured)
        rows.append(
            (
                count(position),
                goal.name,
                _measured(measured, at_least=one is not None and one.at_least),
                NOTHING if one is None or one.pps is None else rate(one.pps),
                NOTHING if one is None or one.too_many is None else count(one.too_many),
                NOTHING if model is None or model.calls is None else count(model.calls),
                NOTHING if ratio is None else f"{ratio * 100:+.1f} %",
            )
        )
    title = "capacity in calls, measured and predicted"
    return [Table(columns, rows, title=title, right=(columns[0], *columns[2:]))] if rows else []


def _measured(calls: int | None, *, at_least: bool) -> str:
    return NOTHING if calls is None else f"{'≥ ' if at_least else ''}{count(calls)}"


def _dropping_table(found: CapacityFindings) -> list[Table]:
    columns = (
        *("rules", "carried, calls", "carried", "drops at, calls", "drops at", "lost there"),
        *("while disturbed", "lost in the rest"),
    )
    known = {(one.position, one.calls): one for one in found.losses}
    rows = [
        (
            count(one.position),
            NOTHING if one.carried is None else count(one.carried),
            NOTHING if one.carried_pps is None else rate(one.carried_pps),
            f"above {count(one.most)}" if one.dropped is None else count(one.dropped),
            NOTHING if one.dropped_pps is None else rate(one.dropped_pps),
            NOTHING if one.loss_ratio is None else percent(one.loss_ratio),
            *_hosts_part(known.get((one.position, one.dropped or 0))),
        )
        for one in found.dropping
    ]
    return [Table(columns, rows, title="where the sweep shows loss", right=columns)] if rows else []


def _hosts_part(one: Loss | None) -> tuple[str, str]:
    """Share of the lost packets that were sent while the host disturbed, and the loss ratio in the rest."""
    return (NOTHING, NOTHING) if one is None else (_share(one.disturbed_share), percent(one.rest_ratio))


def _sweep_table(found: CapacityFindings) -> list[Table]:
    columns = (
        *(
            "rules",
            "calls",
            "lost",
            "MOS, p1",
            "good",
            "busy",
            "softirq",
            "idle",
            "states",
            "samples",
            "late",
        ),
    )
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in _rows(found):
        if row["phase"] == "sweep":
            groups.setdefault((row["position"], row["calls"]), []).append(row)
    rows = []
    for position in sorted({position for position, _ in groups}):
        counts = sorted(calls for at, calls in groups if at == position)
        for calls in _some(counts):
            rows.append((count(position), count(calls), *_cells(groups[position, calls])))
    title = "sweep: medians over the runs, and what the device showed from inside"
    return [Table(columns, rows, title=title, right=columns)] if rows else []


def _cells(lines: list[Row]) -> tuple[str, ...]:
    due, taken = (_total(lines, f"samples_{what}") for what in ("due", "taken"))
    late = max(
        (row["sample_late_max_s"] for row in lines if row["sample_late_max_s"] is not None), default=None
    )
    busy = [sum(row[f"cpu_{state}"] for state in _BUSY) for row in lines if row["cpu_idle"] is not None]
    return (
        percent(_median(lines, "loss_ratio")),
        significant(_median(lines, "mos_p1")),
        _share(_median(lines, "good_share")),
        _share(median(busy) if busy else math.nan),
        _share(_median(lines, "cpu_softirq")),
        _share(_median(lines, "cpu_idle")),
        count(_median(lines, "connections_max")),
        NOTHING if due is None else f"{taken} of {due}",
        NOTHING if late is None else duration(late * 1e9),
    )


def _rows(found: CapacityFindings) -> list[Row]:
    from weirlab.studies.capacity.trials import CAPACITY

    if not found.run.has_table(CAPACITY):
        return []
    return [row for row in found.run.table(CAPACITY).to_dicts() if row["valid"]]


def _some(values: list[int]) -> list[int]:
    """At most so many of ``values`` as are shown, first and last among them."""
    if len(values) <= _SHOWN:
        return values
    step = (len(values) - 1) / (_SHOWN - 1)
    return [values[round(i * step)] for i in range(_SHOWN)]


def _median(lines: list[Row], name: str) -> float:
    known = [row[name] for row in lines if row[name] is not None and math.isfinite(row[name])]
    return float(median(known)) if known else math.nan


def _share(ratio: float) -> str:
    """Of calls, CPU time or lost packets: in whole percent, but never 100 % where something is missing."""
    if not math.isfinite(ratio):
        return NOTHING
    return f"{math.floor(ratio * 1000) / 10:.1f} %" if 0.99 <= ratio < 1 else f"{ratio * 100:.0f} %"


def _total(lines: list[Row], name: str) -> int | None:
    known = [row[name] for row in lines if row[name] is not None]
    return sum(known) if known else None
