"""The page in words and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from weirlab.base.quantities import bit_rate, duration, percent, plural, words
from weirlab.jobs.inventory import scenario_of
from weirlab.report.figure import Figure
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.store import Run
from weirlab.store.frames import rows_of
from weirlab.trace.quantities import size
from weirlab.transfers.parallel import charts, tables
from weirlab.transfers.parallel.findings import (
    PATHS,
    SERIES,
    MethodGroup,
    ParallelAttemptRow,
    ParallelFindings,
    PathRow,
    ThroughputRow,
    overall,
    sentence,
)
from weirlab.transfers.parallel.plan import INDEPENDENT, TCP, named
from weirlab.transfers.parallel.section import ParallelCase, ParallelScenario, ParallelSection, share_of

_RATE: Final = "Goodput, Mbit/s"
_MBIT: Final = 1e6
_TERMS: Final = (
    ("Goodput", "Bytes that the receiving application read, in order and each once, over the recorded time."),
    (
        "Independent streams",
        "A TCP stream over each path at the same time, none of which knows the others: the sum is what the "
        "paths carry together.",
    ),
    (
        "Parallel sockets",
        "One stream of bytes over several TCP connections (weir psock). round-robin, poll-all, ecf, blest "
        "and earliest are schedulers: they decide which connection carries which block.",
    ),
    ("MPTCP", "Multipath TCP (RFC 8684) of this kernel, with its default scheduler."),
    (
        "Reorder memory",
        "Data that the receiver holds because earlier data is still on the way; the most at any moment. "
        "Neither TCP nor MPTCP reports it.",
    ),
    (
        "Jain's index",
        "(a + b)² / 2(a² + b²) of two throughputs: 1 where they are equal, 0.5 where one has all.",
    ),
    (
        "Late",
        "How much later than due frames left the emulated paths, by the emulator's own account. An attempt "
        "does not count where that, a lost frame or a missed rate would have changed the result.",
    ),
)


def tell(found: ParallelFindings, run: Run) -> Story:
    """The page about a run."""
    asked = scenario_of(run, ParallelScenario).parallel
    said = list(overall(found))
    answer, *rest = said or found.sentences()
    return Story(
        subject="parallel sockets",
        manifest=vars(run.manifest),
        simulated=run.simulated,
        answer=answer,
        lede=tuple(rest[:2]),
        caution=" ".join(found.remarks()),
        place=place(vars(run.manifest), "netns", "emulated paths"),
        tiles=tuple(_tiles(found)),
        chapters=tuple(_chapters(found, asked, run)),
        terms=_TERMS,
        assurance=_assurance(found),
    )


def _tiles(found: ParallelFindings) -> Iterator[Tile]:
    shares: dict[str, MethodGroup] = {}
    for group in found.groups:
        if group.share.known and group.method not in (TCP, INDEPENDENT):
            least = shares.get(group.name)
            if least is None or group.share.median < least.share.median:
                shares[group.name] = group
    best = sorted(shares.values(), key=lambda each: each.share.median, reverse=True)
    for each in best[:4]:
        yield Tile(each.name, percent(each.share.median), f"of the sum, at least ({each.case})")


def _assurance(found: ParallelFindings) -> str:
    valid = [row for row in found.rows if row.valid]
    if not valid:
        return ""
    late = max(row.late_p99_ns for row in valid)
    return (
        f"{len(valid)} of {plural(found.planned, 'transfer')} counted; "
        f"{plural(found.spoiled, 'attempt')} did not. In those that count, every byte was compared with what "
        f"was sent, and the emulated paths delayed 99 % of the frames by at most {duration(late)} more than "
        "set."
    )


def _chapters(found: ParallelFindings, asked: ParallelSection, run: Run) -> Iterator[Chapter]:
    series = run.table(SERIES, ThroughputRow)
    cases = {case.name: case for case in asked.every_case()}
    split = [name for name in cases if asked.split is not None and share_of(asked.split, name) is not None]
    if any(found.of(name) for name in split):
        yield _of_split(found, [cases[name] for name in split], series)
    for number, (name, case) in enumerate(cases.items()):
        if name not in split and found.of(name):
            yield _of_case(found, case, f"case-{number}", series)
    groups = [each for name in cases for each in found.of(name)]
    frame = charts.memory(groups)
    if frame.height:
        yield _memory(frame, groups)
    yield Chapter(
        "attempts",
        "Every attempt",
        short="Attempts",
        details=(tables.attempts(found.rows), tables.paths(_paths(found, run))),
    )


def _of_split(found: ParallelFindings, cases: Sequence[ParallelCase], series: pl.DataFrame) -> Chapter:
    groups = [each for case in cases for each in found.of(case.name)]
    measured = [case for case in cases if found.of(case.name)]
    frame = charts.goodput(groups)
    return Chapter(
        "shares",
        "Two paths of unequal rates",
        short="Unequal rates",
        said=tuple(sentence(case.name, found.of(case.name)) for case in measured),
        figures=(
            _bars("shares", "", _extremes(groups), frame),
            *_over_time(found, measured[0], "shares", series),
        ),
        tables=tuple(tables.compared(case.name, found.of(case.name)) for case in measured),
    )


def _of_case(found: ParallelFindings, case: ParallelCase, key: str, series: pl.DataFrame) -> Chapter:
    groups = found.of(case.name)
    return Chapter(
        key,
        case.name[:1].upper() + case.name[1:],
        said=(sentence(case.name, groups),),
        figures=tuple(figures_of_case(found, case, key, series)),
        tables=(tables.compared(case.name, groups),),
    )


def figures_of_case(
    found: ParallelFindings, case: ParallelCase, key: str, series: pl.DataFrame
) -> Iterator[Figure]:
    """Goodput of the methods of a case that has valid attempts, and what happened over time."""
    groups = found.of(case.name)
    yield _bars(key, case.name, _extremes(groups), charts.goodput(groups))
    yield from _over_time(found, case, key, series)


def _bars(key: str, panel: str, title: str, frame: pl.DataFrame) -> Figure:
    return Figure(
        key=f"{key}-goodput",
        section=key,
        panel=panel,
        title=title,
        caption="Bars: medians; lines on them: least to greatest attempt; upright line and percentages: the "
        "sum of independent streams.",
        alt="A bar per method with its goodput, and a line at the sum of independent streams.",
        chart=charts.bars(frame, _RATE),
        data=frame,
    )


def _extremes(groups: Sequence[MethodGroup]) -> str:
    """The takeaway: who is ahead and who is behind, by the share of the sum."""
    together = [
        group for group in groups if group.path == 0 and group.method != INDEPENDENT and group.share.known
    ]
    if not together:
        fastest = max(groups, key=lambda each: each.goodput.median)
        return f"{_first(fastest.name)} carries {bit_rate(fastest.goodput.median)}."
    least = {
        name: min(each.share.median for each in together if each.name == name)
        for name in dict.fromkeys(each.name for each in together)
    }
    best, worst = max(least, key=lambda name: least[name]), min(least, key=lambda name: least[name])
    several = len({each.case for each in together}) > 1
    said = f"{_first(best)} carries {'at least ' if several else ''}{percent(least[best])} of the sum"
    if best == worst:
        return f"{said}."
    return f"{said}, {worst} {'as little as ' if several else ''}{percent(least[worst])}."


def _over_time(
    found: ParallelFindings, case: ParallelCase, key: str, series: pl.DataFrame
) -> Iterator[Figure]:
    attempts = [
        row
        for method in found.methods
        if method != TCP and (row := charts.typical(found, case.name, method)) is not None
    ]
    if not attempts:
        return
    extent = (-attempts[0].warmup_s, attempts[0].lasts_s)
    spans = _meanwhile(case, extent[1])
    shaded = "".join(f" Shaded: {what}." for what in dict.fromkeys(what for *_, what in spans))
    frame = charts.applications(series, attempts)
    yield Figure(
        key=f"{key}-time",
        section=key,
        panel=case.name,
        title=_steadiness(attempts[-1], frame),
        caption=f"The median attempt of each method; recording begins at 0 s.{shaded}",
        alt="Goodput in Mbit/s over time, a line per method.",
        chart=charts.over_time(frame, extent, "Goodput, Mbit/s", spans),
        data=frame,
        linked=key,
    )
    if case.competitors:
        frame = charts.competitors(series, attempts)
        carried = [f"{bit_rate(row.competitor_bps)} next to {named(row.method)}" for row in attempts]
        yield Figure(
            key=f"{key}-competitors",
            section=key,
            panel=f"{case.name}, the competition",
            title=f"While it is there, a competitor carries {words(carried)}.",
            caption=f"All competitors together, next to the same attempts.{shaded}",
            alt="What competitors read in Mbit/s over time, a line per method.",
            chart=charts.over_time(frame, extent, "Competitors, Mbit/s", spans),
            data=frame,
            linked=key,
        )
    sessions = {each.method for each in found.of(case.name) if each.is_session}
    for attempt in [row for row in attempts if row.method in sessions][-1:]:
        frame = charts.by_path(series, attempt)
        yield Figure(
            key=f"{key}-paths",
            section=key,
            panel=f"{case.name}, {named(attempt.method)}",
            title=f"With {named(attempt.method)}, {_means(frame)}.",
            caption=f"The median attempt, by the receiver's kernel; recording begins at 0 s.{shaded}",
            alt="Throughput in Mbit/s over time, a line per path.",
            chart=charts.over_time(frame, extent, "Throughput, Mbit/s", spans),
            data=frame,
            linked=key,
        )


def _steadiness(attempt: ParallelAttemptRow, frame: pl.DataFrame) -> str:
    """How much the goodput of the last method varies from bin to bin."""
    name = named(attempt.method)
    mine = frame.filter((pl.col("series") == name) & (pl.col("at_s") >= 0))["value"] * _MBIT
    low, high = (float(value or 0.0) for value in (mine.min(), mine.max()))  # type: ignore[arg-type]
    return f"From bin to bin, the goodput of {name} varies from {bit_rate(low)} to {bit_rate(high)}."


def _means(frame: pl.DataFrame) -> str:
    """What each series carries in the recorded part."""
    recorded = frame.filter(pl.col("at_s") >= 0).group_by("series", maintain_order=True)
    means = recorded.agg(pl.col("value").mean() * _MBIT).rows()
    said = [f"{name} carries {bit_rate(mean)}" for name, mean in means]
    return words([f"{'the ' if each.startswith('competitor') else ''}{each}" for each in said])


def _meanwhile(case: ParallelCase, end_s: float) -> list[charts.Meanwhile]:
    """What happens on the paths, and when."""
    dead = [
        (outage.from_s, outage.from_s + outage.lasts_s, f"path {outage.path} is dead")
        for outage in case.outages
    ]
    rivals = [
        (
            competitor.from_s,
            end_s if competitor.lasts_s is None else competitor.from_s + competitor.lasts_s,
            f"a competitor on path {competitor.path}",
        )
        for competitor in case.competitors
    ]
    return [*dead, *rivals]


def _memory(frame: pl.DataFrame, groups: Sequence[MethodGroup]) -> Chapter:
    known = [group for group in groups if group.spread["reorder_peak_bytes"].known]
    most = max(known, key=lambda each: each.spread["reorder_peak_bytes"].high)
    return Chapter(
        "memory",
        "Reorder memory",
        figures=(
            Figure(
                key="memory-peaks",
                section="memory",
                panel="",
                title=f"At most {size(most.spread['reorder_peak_bytes'].high)} waited for earlier data "
                f"({most.name}, {most.case}).",
                caption="Bars: medians of the peaks; lines on them: from the least to the greatest attempt; "
                "the numbers: the greatest.",
                alt="A bar per case and scheduler with its reorder memory.",
                chart=charts.bars(frame, "Peak of the reorder memory, kB", colour="model-c"),
                data=frame,
            ),
        ),
    )


def _paths(found: ParallelFindings, run: Run) -> list[tuple[ParallelAttemptRow, PathRow]]:
    by_id = {row.trial_id: row for row in found.rows if row.valid}
    listed = rows_of(PathRow, run.table(PATHS, PathRow))
    return [(by_id[row.trial_id], row) for row in listed if row.trial_id in by_id]


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
