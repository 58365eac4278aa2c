"""The page in words: what a device carries, and how the search came there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weirlab.report.figure import Figure
from weirlab.report.numbers import NOTHING, count, duration, percent, plural, rate, rules, significant, words
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Pairs, Tile
from weirlab.studies.search.page import charts, tables
from weirlab.studies.search.page.source import Point, Searched, carried, goals, interval
from weirlab.units import bps_from_pps

MOST_PICTURES: Final = 8
"""Settings whose searches are drawn."""

TERMS: Final = (
    ("NDR", "Non-drop rate: the highest load of which most trials lose nothing."),
    ("PDR", "Partial drop rate: the same with a little loss let pass, 0.5 % unless the goal says otherwise."),
    (
        "Carried, too much",
        "The highest load that meets the goal, and the lowest that does not (RFC 9971: relevant lower and "
        "upper bound). The true bound lies between them; the search ends when they are close enough.",
    ),
    (
        "Throughput",
        "The forwarding rate at the load that is carried: the load less the loss that the goal lets pass.",
    ),
    ("At least", "No higher load could be offered: the device may carry more."),
    ("Frame sizes", "Include the FCS. Mbit/s count preamble and gap as well."),
)


def tell(searched: Searched) -> Story:
    """The page about a search."""
    points = list(searched.found)
    first = points[0] if points else None
    return Story(
        subject=f"the throughput of {searched.device}",
        manifest=searched.manifest,
        simulated=searched.lab == "sim",
        answer=answer(searched, first),
        lede=tuple(_more(searched, points)),
        caution=caution(searched, [f"{searched.where(p)}: {p['problem']}" for p in points if p["problem"]]),
        place=place(searched.manifest, searched.lab, searched.device),
        tiles=tuple(_tiles(searched, first)),
        chapters=(
            Chapter(
                "throughput",
                "Throughput",
                figures=tuple(throughput_figures(searched, points)),
                tables=tuple(tables.bounds(points)),
            ),
            search_chapter(searched, points),
            Chapter("setting", "What was tested", "Setting", facts=setting(searched, _goals_asked(searched))),
            spoiled_chapter(searched),
        ),
        terms=TERMS,
    )


def answer(searched: Searched, point: Point | None) -> str:
    """What the device carries in the first setting, or why that is not known."""
    device = "The simulated device" if searched.lab == "sim" else searched.device
    if searched.device == "ruleset":
        device = "Your ruleset"
    found = goals(point)[0] if point and goals(point) else None
    if point is None or found is None:
        problem = point["problem"] if point else "the run was interrupted before its first setting was done"
        return f"No bound was found: {problem}."
    loss = found["goal"]["loss_ratio"]
    within = f"with at most {percent(loss)} lost" if loss else "without loss"
    where, name = searched.where(point), str(found["goal"]["name"])
    if found["conditional_throughput_pps"] is None:
        return f"{device} does not carry even the lowest load tried {within} ({where})."
    close = interval(found) if found["at_least"] else f"{name} {interval(found)}"
    return f"{device} carries {carried(found)} {within} ({where}; {close})."


def caution(searched: Searched, problems: list[str]) -> str:
    """What was not found, and how much was spoiled."""
    parts = [f"Not found: {problem}." for problem in problems]
    if (n := searched.spoiled.height) and searched.trials.height:
        parts.append(
            f"The host spoiled {count(n)} of {plural(searched.trials.height, 'attempt')}; they were made "
            "again and took no part."
        )
    return " ".join(parts)


def setting(searched: Searched, goals_asked: list[str]) -> Pairs:
    """What was tested with what."""
    asked, facts = searched.asked, searched.manifest.get("facts") or {}
    flows = asked.get("flows") or {}
    pairs: Pairs = [("Device under test", searched.device)]
    pairs += [("Goal", text) for text in goals_asked]
    pairs += [
        (
            "Flows",
            f"{count(flows.get('count', 1))}, {str(flows.get('l4', 'udp')).upper()} over "
            f"IPv{flows.get('ip', 4)}",
        ),
        ("Gaps between packets", {"poisson": "random (Poisson)"}.get(str(asked.get("arrivals")), "equal")),
        ("Warm-up", duration(1e9 * float(asked.get("warmup_s") or 0.0))),
        ("Sent and received by", str(facts.get("backend", NOTHING))),
        ("Calibration", str(searched.manifest.get("calibration") or "none")),
    ]
    if "test_traffic" in facts:
        pairs.append(("Test traffic", str(facts["test_traffic"])))
    return pairs


def goal_in_words(goal: Mapping[str, Any]) -> str:
    """How a goal judges trials and loads."""
    return (
        f"{goal['name']}: trials of {goal['trial_s']:g} s with at most {percent(goal['loss_ratio'])} lost; a "
        f"load is carried when at most {percent(goal['exceed_ratio'])} of {goal['duration_sum_s']:g} s are "
        f"worse; bounds within {percent(goal['relative_width'])}"
    )


def throughput_figures(searched: Searched, points: list[Point]) -> Iterator[Figure]:
    """Throughput over frame size (RFC 2544 section 26.1), where there is more than one size."""
    rows = [
        {
            "setup": setup(point),
            "frame_bytes": tables.frame_bytes(point),
            "value": found["conditional_throughput_pps"] / 1e3,
        }
        for point in points
        for found in goals(point)[:1]
        if found["conditional_throughput_pps"] is not None
    ]
    if len({row["frame_bytes"] for row in rows}) < 2:
        return
    least, most = (pick(rows, key=lambda row: row["value"]) for pick in (min, max))
    title = (
        f"From {rate(least['value'] * 1e3)} ({least['frame_bytes']:,.0f} B, {least['setup']}) to "
        f"{rate(most['value'] * 1e3)} ({most['frame_bytes']:,.0f} B, {most['setup']})."
    )
    yield figure(
        "throughput-over-size", "throughput", "", title, "Throughput by frame size.", rows,
        charts.over_sizes(rows, "Throughput, kpps"),
    )  # fmt: skip


def search_chapter(searched: Searched, points: list[Point]) -> Chapter:
    """How each search came to its bounds."""
    found = [point for point in points if goals(point) and searched.of(point).height]
    left_out = len(found) - MOST_PICTURES
    more = f" Left out: {plural(left_out, 'more setting')}." if left_out > 0 else ""
    return Chapter(
        "search",
        "How the search went",
        "Search",
        intro=(
            "Each point is a trial at the load offered, relative to the load found in the end. Lines: the "
            "highest load carried and the lowest that is too much, as far as the trials until then show. "
            f"Near 0 the scale is linear, beyond logarithmic.{more}"
        ),
        figures=tuple(_picture(searched, point, i) for i, point in enumerate(found[:MOST_PICTURES], 1)),
        missing="No trial was made.",
    )


def _picture(searched: Searched, point: Point, number: int) -> Figure:
    frame = charts.course(point, searched.of(point))
    found = goals(point)[0]
    tried = frame["load_pps"].n_unique()
    title = (
        f"{found['goal']['name']} {carried(found)} after {plural(frame.height, 'trial')} at "
        f"{plural(tried, 'load')}: {interval(found)}."
    )
    return figure(
        f"search-{number}", "search", searched.where(point), title, "", frame.to_dicts(),
        charts.search(frame, charts.outcomes(point)),
    )  # fmt: skip


def spoiled_chapter(searched: Searched) -> Chapter:
    """Why attempts do not count."""
    return Chapter(
        "invalid",
        "Invalid trials",
        "Invalid",
        tables=tuple(tables.spoiled(searched)),
        missing="No attempt was invalid.",
    )


def figure(key: str, section: str, panel: str, title: str, caption: str, rows: Any, chart: Any) -> Figure:
    """A figure whose alternative text is its title."""
    import polars as pl

    data = pl.DataFrame(rows, infer_schema_length=None)
    return Figure(re.sub(r"[^a-z0-9]+", "-", key), section, panel, title, caption, title, chart, data)


def setup(point: Point) -> str:
    """``100 rules, stateful``."""
    return rules(point["position"]) + (", stateful" if point["stateful"] else "")


def _more(searched: Searched, points: list[Point]) -> Iterator[str]:
    """Other goals of the first setting, and the other settings."""
    if points and (others := goals(points[0])[1:]):
        told = [f"{found['goal']['name']} {carried(found)} ({interval(found)})" for found in others]
        yield f"{words(told)}."
    known = [
        (found["conditional_throughput_pps"], point)
        for point in points
        for found in goals(point)[:1]
        if found["conditional_throughput_pps"] is not None
    ]
    if len(known) > 1:
        (low, worst), (high, best) = min(known, key=lambda k: k[0]), max(known, key=lambda k: k[0])
        yield (
            f"Over all {len(points)} settings: {rate(low)} ({searched.where(worst)}) to {rate(high)} "
            f"({searched.where(best)})."
        )


def _tiles(searched: Searched, point: Point | None) -> Iterator[Tile]:
    for found in goals(point) if point else []:
        pps = found["conditional_throughput_pps"]
        value = NOTHING if pps is None else f"{'≥ ' if found['at_least'] else ''}{rate(pps)}"
        yield Tile(str(found["goal"]["name"]), value, interval(found))
    first = goals(point)[0] if point and goals(point) else None
    if point and first and first["conditional_throughput_pps"]:
        bps = bps_from_pps(first["conditional_throughput_pps"], tables.frame_bytes(point))
        yield Tile("On the wire", f"{significant(bps / 1e6)}\u00a0Mbit/s", "preamble and gap included")
    spoiled = searched.spoiled.height
    note = f"{count(spoiled)} more were spoiled by the host" if spoiled else "none was invalid"
    yield Tile("Trials", count(searched.trials.height - spoiled), f"valid; {note}")


def _goals_asked(searched: Searched) -> list[str]:
    return [goal_in_words(goal) for goal in searched.asked.get("goals") or []]
