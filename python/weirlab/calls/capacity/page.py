"""The page in words: how many calls, what limits them, and whether the model predicted it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import polars as pl

from weirlab.calls.capacity import charts, tables
from weirlab.calls.capacity.findings import off, unchecked_lines
from weirlab.calls.capacity.tables import CapacityEvidence, CapacityVerdict, verdicts
from weirlab.records import device_in_words
from weirlab.report import axes
from weirlab.report.figure import Figure
from weirlab.report.numbers import NOTHING, count, duration, percent, plural, rate, rules, significant, words
from weirlab.report.palette import CPU_STATES
from weirlab.report.story import Chapter, Story, place, setting
from weirlab.report.tables import Pairs, Tile

_SEEN: Final = "cpu_"
_TERMS: Final = (
    (
        "Without loss",
        "Most of the trials with this many calls lost no packet (or no more than the scenario allows).",
    ),
    (
        "While the host disturbed",
        "In bins of 10 ms in which the device waited for other work, the hypervisor took a CPU, or the "
        "sender was late, and until the queue was as before. A device in overload loses packets then, too; "
        "what it lost at other times is its own doing.",
    ),
    (
        "Predicted",
        "By the queueing model that was fitted to a profile of the same device with a single flow of the "
        "same frame size; no trial with calls went into it.",
    ),
    (
        "Seen from inside",
        "By a monitoring agent on the device's own CPU. When the device is overloaded the agent is starved: "
        "samples that were due but not taken are evidence of that, not of idle time.",
    ),
    (
        "Black box",
        "The counters of the device's own interfaces, compared with what was sent and received.",
    ),
)


def tell(findings: CapacityEvidence) -> Story:
    """The page about ``findings``."""
    found = verdicts(findings)
    manifest = findings.manifest
    facts = manifest.get("facts") or {}
    dut = str(facts.get("dut", "the device"))
    device = device_in_words(dut)
    answer, *rest = _answer(device_in_words(dut, first=True), found)
    return Story(
        subject=f"calls through {device}",
        manifest=manifest,
        simulated=findings.simulated,
        answer=answer,
        lede=(*rest, *unchecked_lines(findings.found)),
        caution=_caution(findings, found),
        place=place(manifest, str(facts.get("lab", "")), device),
        tiles=tuple(_tiles(findings, found)),
        chapters=tuple(_chapters(findings, found)),
        terms=_TERMS,
    )


def _answer(device: str, found: list[CapacityVerdict]) -> list[str]:
    lossless = [one for one in found if one.mos is None and one.calls]
    said = []
    if lossless:
        parts = [f"{_calls(one)} with {rules(one.position)}" for one in lossless]
        said.append(f"{device} carries {words(parts)} without loss.")
    heard = [one for one in found if one.mos is not None and one.calls]
    if heard:
        parts = [f"{_calls(one)} with {rules(one.position)}" for one in heard]
        said.append(f"It carries {words(parts)} {heard[0].goal}.")
    told = [f"{off(one.off)} ({one.name})" for one in found if math.isfinite(one.off)]
    if told:
        said.append(f"The model of its profile, which saw no call, is off by {words(told)}.")
    return said or ["No number of calls was found."]


def _calls(one: CapacityVerdict) -> str:
    return f"{'at least ' if one.at_least else ''}{plural(one.calls or 0, 'call')}"


def _caution(findings: CapacityEvidence, found: list[CapacityVerdict]) -> str:
    parts = [f"{one.name}: {one.problem}." for one in found if one.problem]
    counters = findings.found.counters
    apart = counters.compared - counters.agreed
    if apart:
        parts.append(f"The device's own counters disagree with Weir's in {plural(apart, 'valid trial')}.")
    return " ".join(parts)


def _tiles(findings: CapacityEvidence, found: list[CapacityVerdict]) -> Iterator[Tile]:
    for one in [one for one in found if one.mos is None][:2]:
        load = f", {rate(one.pps)}" if one.pps else ""
        value = NOTHING if one.calls is None else f"{'≥ ' if one.at_least else ''}{count(one.calls)}"
        yield Tile(f"Calls without loss, {rules(one.position)}", value, f"by the {one.by}{load}")
    told = [one for one in found if math.isfinite(one.off)]
    if told:
        worst = max(told, key=lambda one: abs(one.off))
        yield Tile("Predicted", percent(worst.off, space="\u00a0"), f"largest error, {worst.name}")
    else:
        yield Tile("Predicted", NOTHING, "no model, or nothing to compare it with")
    counters = findings.found.counters
    if counters.compared:
        yield Tile(
            "Counters that agree",
            f"{count(counters.agreed)} of {count(counters.compared)}",
            "trials in which the device's interfaces count what Weir counts",
        )
    else:
        yield Tile("Counters that agree", NOTHING, "the device has none")


def _chapters(findings: CapacityEvidence, found: list[CapacityVerdict]) -> Iterator[Chapter]:
    yield Chapter(
        "verdict",
        "How many calls",
        "Calls",
        figures=tuple(_verdict_figures(found)),
        tables=(tables.found(found),) if found else (),
        missing="Not measured: neither sweep nor search has a result.",
    )
    lost = tables.losses(findings)
    yield Chapter(
        "heard",
        "Loss, and what callers hear",
        "Quality",
        said=tuple(_hosts_part(findings)),
        figures=tuple(_over_calls(findings)),
        tables=tuple(lost),
    )
    yield Chapter(
        "gaps", "How regularly packets come", "Gaps", figures=tuple(charts.figures(findings)), missing=""
    )
    yield Chapter(
        "inside",
        "What the device does meanwhile",
        "Inside",
        figures=tuple(_inside(findings)),
        missing="Not measured: the device was not monitored from inside (a simulated one cannot be).",
    )
    yield setting(_setting(findings))
    yield Chapter("numbers", "All numbers", "Numbers", details=tuple(tables.trials(findings)))


def _hosts_part(findings: CapacityEvidence) -> Iterator[str]:
    """Of the losses that bound "without loss": how many packets were sent while the host disturbed."""
    for one in findings.found.first_losses:
        if not math.isfinite(one.disturbed_share):
            continue
        lost, calls = plural(one.lost, "packet"), plural(one.calls, "call")
        ratio = one.rest_ratio
        rest = (
            f" Of the packets sent at other times {percent(ratio)} were lost." if math.isfinite(ratio) else ""
        )
        yield (
            f"Of the {lost} lost at {calls} ({rules(one.position)}), {percent(one.disturbed_share)} "
            f"were sent while the host disturbed device or sender.{rest}"
        )


def _setting(findings: CapacityEvidence) -> Pairs:
    manifest = findings.manifest
    facts, scenario = manifest.get("facts") or {}, manifest.get("scenario") or {}
    calls = scenario.get("calls") or {}
    valid = findings.valid
    pairs: Pairs = [
        ("Device under test", device_in_words(str(facts.get("dut") or NOTHING))),
        ("Host", str(manifest.get("host") or NOTHING)),
        ("Kernel", str(manifest.get("kernel") or NOTHING)),
        ("Codec", str(calls.get("codec") or NOTHING)),
        ("Transport", str(calls.get("transport") or NOTHING)),
        ("Directions", str(calls.get("directions") or NOTHING)),
        ("Rules", words([rules(position) for position in findings.positions]) or NOTHING),
        ("Trials", count(valid.height)),
    ]
    if findings.found.model:
        pairs.append(("Model from", findings.found.model))
    return pairs


def _verdict_figures(found: list[CapacityVerdict]) -> Iterator[Figure]:
    frame = charts.verdict_rows(found)
    if not frame.height:
        return
    told = [one for one in found if math.isfinite(one.off)]
    title = "The most calls that the device carries."
    if told:
        worst = max(told, key=lambda one: abs(one.off))
        title = f"Measured and predicted differ by at most {percent(abs(worst.off))}."
    yield Figure(
        "capacity-verdict",
        "verdict",
        "measured and predicted",
        title,
        "The bar behind a measured point ends at the fewest calls that were too many.",
        "Most calls per number of rules and goal, measured and predicted.",
        charts.verdicts(frame),
        frame,
    )


def _over_calls(findings: CapacityEvidence) -> Iterator[Figure]:
    trials = findings.valid.with_columns(
        loss_percent=pl.col("loss_ratio") * 100, good_percent=pl.col("good_share") * 100
    )
    if not trials.height:
        return
    fewest, most = axes.extent(trials, "calls")
    wide = most > 12 * max(fewest, 1.0)
    columns = ("setup", "position", "calls")
    _, losses = axes.extent(trials, "loss_percent")
    losing = trials.filter(pl.col("loss_percent") > 0)
    first = losing.sort("calls").row(0, named=True) if losing.height else None
    yield Figure(
        "capacity-loss",
        "heard",
        "loss",
        "No trial lost a packet."
        if first is None
        else f"The first trial with loss had {plural(first['calls'], 'call')} ({first['setup']}).",
        "Share of all packets that did not arrive, both directions together.",
        "Loss over the number of calls per rule count.",
        charts.over_calls(
            trials,
            "loss_percent",
            "Packets lost, %",
            (0.0, max(1.1 * losses, 1.0)),
            log=wide,
        ),
        trials.select(*columns, "loss_percent"),
    )
    rated = trials.filter(pl.col("mos_p1").is_not_null())
    if rated.height:
        lowest = rated.sort("mos_p1").row(0, named=True)
        yield Figure(
            "capacity-mos",
            "heard",
            "what the worst callers hear",
            f"The worst 1 % of the calls fall to MOS {lowest['mos_p1']:.2f} "
            f"({plural(lowest['calls'], 'call')}, {lowest['setup']}).",
            "MOS that 99 % of the calls reach. Dashed: 4.0.",
            "MOS of the worst hundredth of the calls over the number of calls per rule count.",
            charts.over_calls(
                rated, "mos_p1", "MOS of the worst 1 % of the calls", (1.0, 4.6), limit=4.0, log=wide
            ),
            rated.select(*columns, "mos_min", "mos_p1", "mos_p5", "mos_p50", "good_percent"),
        )
    slow = trials.with_columns(delay_us=pl.col("delay_mean_ns") / 1e3).filter(
        pl.col("delay_us").is_not_null()
    )
    if slow.height:
        low, top = axes.extent(slow, "delay_us")
        yield Figure(
            "capacity-delay",
            "heard",
            "delay",
            f"Packets take {duration(low * 1e3)} to {duration(top * 1e3)} on average.",
            "Mean one-way delay through the device.",
            "Mean delay over the number of calls per rule count.",
            charts.over_calls(slow, "delay_us", "Mean one-way delay, µs", (0.0, 1.1 * top), log=wide),
            slow.select(*columns, "delay_us"),
        )


def _inside(findings: CapacityEvidence) -> Iterator[Figure]:
    seen = findings.valid.filter(pl.col("samples_due").is_not_null() & (pl.col("samples_due") > 0))
    if not seen.height:
        return
    states = [state for state in CPU_STATES if f"{_SEEN}{state}" in seen.columns]
    for position in findings.positions:
        mine = seen.filter((pl.col("position") == position) & pl.col("cpu_idle").is_not_null())
        if mine["calls"].n_unique() < 2:
            continue
        shares = (
            mine.group_by("calls")
            .agg(pl.col(f"{_SEEN}{state}").median() * 100 for state in states)
            .unpivot(index="calls", variable_name="state", value_name="percent")
            .with_columns(
                pl.col("state").str.strip_prefix(_SEEN),
                pl.col("percent").round_sig_figs(4),
            )
            .with_columns(rank=pl.col("state").replace_strict({s: i for i, s in enumerate(states)}))
            .sort("calls", "rank")
        )
        most = mine.sort("calls").row(-1, named=True)
        idle = shares.filter((pl.col("calls") == most["calls"]) & (pl.col("state") == "idle"))["percent"][0]
        yield Figure(
            f"capacity-cpu-{position}",
            "inside",
            rules(position),
            f"At {plural(most['calls'], 'call')} {significant(float(idle), 2)} % of its CPU is idle.",
            "Share of the device's CPU per state while calls are up, seen by an agent on that CPU; medians.",
            f"CPU shares over the number of calls, {rules(position)}.",
            charts.cpu(shares, states),
            shares,
        )
    taken = seen.with_columns(
        taken_percent=100.0 * pl.col("samples_taken") / pl.col("samples_due"),
        late_ms=pl.col("sample_late_max_s") * 1e3,
    )
    worst = taken.sort("taken_percent").row(0, named=True)
    told = (
        "The device's own monitoring kept up in every trial."
        if worst["taken_percent"] >= 100.0
        else f"Overload starves its own monitoring: {worst['samples_taken']} of {worst['samples_due']} "
        f"samples at {plural(worst['calls'], 'call')} ({worst['setup']})."
    )
    yield Figure(
        "capacity-samples",
        "inside",
        "is there time for monitoring?",
        told,
        "Samples that the agent took of those that were due while calls were up.",
        "Samples taken over the number of calls per rule count.",
        charts.over_calls(taken, "taken_percent", "Samples taken, % of those due", (0.0, 105.0)),
        taken.select("setup", "calls", "samples_due", "samples_taken", "late_ms"),
    )
    tracked = seen.filter(pl.col("connections_max") > 0)
    if tracked.height:
        _, top = axes.extent(tracked, "connections_max")
        yield Figure(
            "capacity-states",
            "inside",
            "connection tracking",
            f"The table of connections holds up to {count(top)} entries.",
            "Largest number of entries in the device's connection table while calls were up.",
            "Connection-tracking entries over the number of calls per rule count.",
            charts.over_calls(tracked, "connections_max", "Connections tracked", (0.0, 1.1 * top)),
            tracked.select("setup", "calls", "connections_max"),
        )
