"""The page about the tests of RFC 2544, in the RFC's order and form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weirlab.devices.search import tables
from weirlab.devices.search.page import charts
from weirlab.devices.search.page.story import (
    TERMS,
    Rfc2544Evidence,
    answer,
    caution,
    facts,
    figure,
    search_chapter,
    setup,
    spoiled_chapter,
    throughput_figures,
    trials_tile,
)
from weirlab.devices.search.rfc2544.suite import Result, Rfc2544Suite, Test
from weirlab.measure.search.throughput import Setting
from weirlab.report.figure import Figure
from weirlab.report.numbers import NOTHING, count, duration, percent, plural, rate
from weirlab.report.story import Chapter, Story, place, setting
from weirlab.report.tables import Pairs, Tile

_TERMS = (
    *TERMS,
    (
        "Latency",
        "One way, from departure to arrival of each frame at the throughput. The RFC tags one frame per "
        "trial; here all count, and a trial's value is their mean.",
    ),
    (
        "Back-to-back",
        "The longest burst at the highest rate without loss; RFC 9004 subtracts what the device forwards "
        "meanwhile, and what is left is its buffer.",
    ),
)


def tell(tested: Rfc2544Evidence) -> Story:
    """The page about the tests of RFC 2544."""
    results = tested.results
    first = results[0] if results else None
    problems = [f"{tested.where(one.setting)}: {text}" for one in results for text in one.problems]
    return Story(
        subject=f"RFC 2544 tests of {tested.device}",
        manifest=tested.manifest,
        simulated=tested.lab == "sim",
        answer=_answer(tested, first),
        lede=tuple(_lede(first)),
        caution=caution(tested, problems),
        place=place(tested.manifest, tested.lab, tested.device),
        tiles=tuple(_tiles(tested, first)),
        chapters=tuple(_chapters(tested)),
        terms=_TERMS,
    )


def _answer(tested: Rfc2544Evidence, first: Result | None) -> str:
    """The throughput, or the first result that there is."""
    if first is None:
        return "Nothing was found."
    if first.found is not None:
        return answer(tested, first.throughput)
    if told := list(_lede(first)):
        return f"{tested.device}, {tested.where(first.setting)}: {told[0][:1].lower()}{told[0][1:]}"
    return f"Nothing was found{': ' if first.problems else ''}{'; '.join(first.problems)}."


def _lede(first: Result | None) -> Iterator[str]:
    if first is None:
        return
    if latency := first.latency:
        yield f"Frames take {duration(latency.mean_ns)} on average at {rate(latency.rate_pps)}."
    if first.loss is not None:
        top = first.loss.points[0]
        yield f"At {rate(top.offered_pps)}, the highest load, {percent(top.loss_ratio)} are lost."
    if bursts := first.bursts:
        more = "at least " if bursts.at_least else ""
        yield f"Bursts of up to {more}{count(bursts.mean_frames)} frames pass without loss."


def _tiles(tested: Rfc2544Evidence, first: Result | None) -> Iterator[Tile]:
    found = first.found if first else None
    pps = found and found.conditional_throughput_pps
    yield Tile(
        "Throughput",
        f"{'≥ ' if found and found.at_least else ''}{rate(pps)}" if pps else NOTHING,
        tested.where(first.setting) if first else "not measured",
    )
    latency = first.latency if first else None
    yield Tile(
        "Latency there", duration(latency.mean_ns) if latency else NOTHING,
        f"mean of {plural(latency.repetitions, 'trial')}" if latency else "not measured",
    )  # fmt: skip
    bursts = first.bursts if first else None
    yield Tile(
        "Back-to-back",
        f"{'≥ ' if bursts.at_least else ''}{count(bursts.mean_frames)}" if bursts else NOTHING,
        f"frames at {rate(bursts.rate_pps)}" if bursts else "not measured",
    )
    yield trials_tile(tested)


def _chapters(tested: Rfc2544Evidence) -> Iterator[Chapter]:
    tests, results = tested.suite.tests, tested.results
    throughput = [one.throughput for one in results if one.throughput is not None]
    figures: dict[Test, tuple[str, Iterator[Figure]]] = {
        "throughput": ("Throughput (section 26.1)", throughput_figures(throughput)),
        "latency": ("Latency (section 26.2)", _latency(results)),
        "loss": ("Frame loss rate (section 26.3)", _loss(tested)),
        "bursts": ("Back-to-back frames (section 26.4)", _bursts(results)),
    }
    for test, (title, drawn) in figures.items():
        if test in tests:
            shown = tuple(tables.rfc2544(results, [test], tested.manifest.get("facts") or {}))
            yield Chapter(test, title, test.capitalize(), figures=tuple(drawn), tables=shown)
    if any(point.found for point in throughput):
        yield search_chapter(tested, throughput)
    yield setting([*facts(tested, [tested.suite.goal]), *_shorter(tested.suite)])
    yield spoiled_chapter(tested)


def _shorter(suite: Rfc2544Suite) -> Pairs:
    """Where the tests are shorter than in the RFC."""
    return [
        ("Latency trials", f"{suite.repetitions} of {suite.latency_s:g} s; the RFC: 20 of at least 120 s"),
        ("Loss trials", f"one of {suite.loss_s:g} s per load; the RFC: 60 s"),
        ("Burst searches", f"{suite.bursts}; the RFC: 50"),
    ]


def _row(setting: Setting, value: float, low: float, high: float) -> dict[str, Any]:
    """For :func:`charts.over_sizes`."""
    where = {"setup": setup(setting), "frame_bytes": setting.frame_bytes}
    return {**where, "value": value, "low": low, "high": high}


def _latency(results: Sequence[Result]) -> Iterator[Figure]:
    rows = [
        _row(found.setting, found.mean_ns / 1e3, found.min_ns / 1e3, found.max_ns / 1e3)
        for found in (one.latency for one in results)
        if found is not None
    ]
    if not rows:
        return
    worst = max(rows, key=lambda row: row["value"])
    title = (
        f"At the throughput frames take up to {duration(worst['value'] * 1e3)} on average "
        f"({worst['frame_bytes']:,.0f} B, {worst['setup']})."
    )
    yield figure(
        "latency-over-size", "latency", "", title,
        "Latency at the throughput by frame size: mean of the trials, and a line from the least trial to the "
        "greatest.",
        rows, charts.over_sizes(rows, "Latency, µs", spread=True, log=True),
    )  # fmt: skip


def _loss(tested: Rfc2544Evidence) -> Iterator[Figure]:
    rows: list[dict[str, Any]] = [
        {
            "setup": tested.where(one.setting),
            "load_percent": 100 * point.share,
            "offered_pps": point.offered_pps,
            "loss_percent": 100 * point.loss_ratio,
        }
        for one in tested.results
        if one.loss is not None
        for point in one.loss.points
    ]
    if not rows:
        return
    clean = [row for row in rows if row["loss_percent"] == 0]
    best = max((row["load_percent"] for row in clean), default=0.0)
    lossless = (
        f"up to {best:.4g} % of the highest load nothing is lost"
        if clean
        else "something is lost at every load"
    )
    worst = max(rows, key=lambda row: row["loss_percent"])
    title = (
        f"{lossless[:1].upper()}{lossless[1:]}; at most {worst['loss_percent']:.3g} % are ({worst['setup']})."
    )
    yield figure(
        "loss-over-load", "loss", "", title, "Frame loss rate by load, from the highest load down.", rows,
        charts.loss(rows),
    )  # fmt: skip


def _bursts(results: Sequence[Result]) -> Iterator[Figure]:
    rows = [
        _row(found.setting, found.mean_frames, min(found.frames), max(found.frames))
        for found in (one.bursts for one in results)
        if found is not None
    ]
    if not rows:
        return
    least = min(rows, key=lambda row: row["value"])
    title = (
        f"Bursts of {count(least['value'])} frames pass without loss at every size tested "
        f"(least: {least['frame_bytes']:,.0f} B, {least['setup']})."
    )
    yield figure(
        "bursts-over-size", "bursts", "", title,
        "The longest burst without loss by frame size: mean, and a line from the shortest to the longest.",
        rows, charts.over_sizes(rows, "Frames", spread=True),
    )  # fmt: skip
