"""The page about the tests of RFC 2544, in the RFC's order and form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weirlab.report.numbers import NOTHING, count, duration, percent, plural, rate
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.studies.search.page import charts, tables
from weirlab.studies.search.page.source import Point, Searched, goals
from weirlab.studies.search.page.story import (
    TERMS,
    answer,
    caution,
    figure,
    goal_in_words,
    search_chapter,
    setting,
    setup,
    spoiled_chapter,
    throughput_figures,
)

_TERMS = (
    *TERMS,
    (
        "Latency",
        "One way, from departure to arrival of each frame at the throughput. The RFC tags one frame per "
        "trial; here all count, and a trial's value is their mean.",
    ),
    (
        "Back-to-back",
        "The longest burst at the highest rate without loss; RFC 9004 takes off what the device forwards "
        "meanwhile, and what is left is its buffer.",
    ),
)


def tell(searched: Searched) -> Story:
    """The page about the tests of RFC 2544."""
    points = list(searched.found)
    tests = list(searched.asked.get("tests") or ())
    # A search of its own stands below the setting that it was made in.
    throughput: list[Point] = [{**point, **(point.get("throughput") or {"goals": []})} for point in points]
    first = points[0] if points else None
    return Story(
        subject=f"RFC 2544 tests of {searched.device}",
        manifest=searched.manifest,
        simulated=searched.lab == "sim",
        answer=_answer(searched, first, throughput[0] if throughput else None),
        lede=tuple(_lede(first)),
        caution=caution(searched, [f"{searched.where(p)}: {text}" for p in points for text in p["problems"]]),
        place=place(searched.manifest, searched.lab, searched.device),
        tiles=tuple(_tiles(searched, first, throughput[0] if throughput else None)),
        chapters=tuple(_chapters(searched, points, throughput, tests)),
        terms=_TERMS,
    )


def _answer(searched: Searched, point: Point | None, throughput: Point | None) -> str:
    """The throughput, or the first result that there is."""
    if throughput is not None and goals(throughput):
        return answer(searched, throughput)
    told = list(_lede(point))
    if told and point is not None:
        return f"{searched.device}, {searched.where(point)}: {told[0][:1].lower()}{told[0][1:]}"
    problems = "; ".join(point["problems"]) if point else ""
    return f"Nothing was found{': ' + problems if problems else ''}."


def _lede(point: Point | None) -> Iterator[str]:
    if point is None:
        return
    if latency := point.get("latency"):
        yield f"Frames take {duration(latency['mean_ns'])} on average at {rate(latency['rate_pps'])}."
    if loss := point.get("loss"):
        top = loss["points"][0]
        yield f"At {rate(top['offered_pps'])}, the highest load, {percent(top['loss_ratio'])} are lost."
    if bursts := point.get("bursts"):
        more = "at least " if bursts["at_least"] else ""
        yield f"Bursts of up to {more}{count(bursts['mean_frames'])} frames pass without loss."


def _tiles(searched: Searched, point: Point | None, throughput: Point | None) -> Iterator[Tile]:
    found = goals(throughput)[0] if throughput and goals(throughput) else None
    pps = found and found["conditional_throughput_pps"]
    yield Tile(
        "Throughput",
        f"{'≥ ' if found and found['at_least'] else ''}{rate(pps)}" if pps else NOTHING,
        searched.where(throughput) if throughput else "not measured",
    )
    latency = point.get("latency") if point else None
    yield Tile(
        "Latency there", duration(latency["mean_ns"]) if latency else NOTHING,
        f"mean of {plural(latency['repetitions'], 'trial')}" if latency else "not measured",
    )  # fmt: skip
    bursts = point.get("bursts") if point else None
    yield Tile(
        "Back-to-back",
        f"{'≥ ' if bursts['at_least'] else ''}{count(bursts['mean_frames'])}" if bursts else NOTHING,
        f"frames at {rate(bursts['rate_pps'])}" if bursts else "not measured",
    )
    spoiled = searched.spoiled.height
    note = f"{count(spoiled)} more were spoiled by the host" if spoiled else "none was invalid"
    yield Tile("Trials", count(searched.trials.height - spoiled), f"valid; {note}")


def _chapters(
    searched: Searched, points: list[Point], throughput: list[Point], tests: list[str]
) -> Iterator[Chapter]:
    goal = searched.asked.get("goal")
    if "throughput" in tests:
        yield Chapter(
            "throughput",
            "Throughput (section 26.1)",
            "Throughput",
            figures=tuple(throughput_figures(searched, throughput)),
            tables=tuple(tables.bounds(throughput)),
        )
    if "latency" in tests:
        yield Chapter(
            "latency",
            "Latency (section 26.2)",
            "Latency",
            figures=tuple(_latency(points)),
            tables=tuple(tables.latency(points)),
        )
    if "loss" in tests:
        yield Chapter(
            "loss",
            "Frame loss rate (section 26.3)",
            "Loss",
            figures=tuple(_loss(searched, points)),
            tables=tuple(tables.loss(points, "Frames lost, by load")),
        )
    if "bursts" in tests:
        yield Chapter(
            "bursts",
            "Back-to-back frames (section 26.4)",
            "Bursts",
            figures=tuple(_bursts(points)),
            tables=tuple(tables.bursts(points)),
        )
    if any(goals(point) for point in throughput):
        yield search_chapter(searched, throughput)
    yield Chapter(
        "setting",
        "What was tested",
        "Setting",
        facts=[*setting(searched, [goal_in_words(goal)] if goal else []), *_shorter(searched)],
    )
    yield spoiled_chapter(searched)


def _shorter(searched: Searched) -> list[tuple[str, str]]:
    """Where the tests are shorter than the RFC asks for."""
    asked = searched.asked
    if "latency_s" not in asked:
        return []
    bursts = asked.get("burst_repetitions") or asked.get("repetitions", 0)
    return [
        (
            "Latency trials",
            f"{asked['repetitions']} of {asked['latency_s']:g} s; the RFC: 20 of at least 120 s",
        ),
        ("Loss trials", f"one of {asked['loss_s']:g} s per load; the RFC: 60 s"),
        ("Burst searches", f"{bursts}; the RFC: 50"),
    ]


def _latency(points: list[Point]) -> Iterator[Any]:
    rows = [
        {
            "setup": setup(point),
            "frame_bytes": tables.frame_bytes(point),
            "value": found["mean_ns"] / 1e3,
            "low": found["min_ns"] / 1e3,
            "high": found["max_ns"] / 1e3,
        }
        for point in points
        if (found := point.get("latency"))
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


def _loss(searched: Searched, points: list[Point]) -> Iterator[Any]:
    rows = [
        {
            "setup": searched.where(point),
            "load_percent": 100 * each["share"],
            "offered_pps": each["offered_pps"],
            "loss_percent": 100 * each["loss_ratio"],
        }
        for point in points
        for each in (point.get("loss") or {}).get("points", ())
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


def _bursts(points: list[Point]) -> Iterator[Any]:
    rows = [
        {
            "setup": setup(point),
            "frame_bytes": tables.frame_bytes(point),
            "value": found["mean_frames"],
            "low": min(found["frames"]),
            "high": max(found["frames"]),
        }
        for point in points
        if (found := point.get("bursts"))
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
