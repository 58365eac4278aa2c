"""The page in words, from what a search stored: what a device carries, and how the search found it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from weirlab.base.units import bps_from_pps
from weirlab.cli.results.tables import reasons
from weirlab.devices.search import tables
from weirlab.devices.search.page import charts
from weirlab.devices.search.rfc2544.suite import Result, Rfc2544Suite
from weirlab.devices.search.wording import goal_in_words
from weirlab.measure.search.goal import GoalResult, SearchGoal
from weirlab.measure.search.throughput import Point, SearchShape, Setting
from weirlab.report.figure import Figure
from weirlab.report.numbers import (
    NOTHING,
    SPACE,
    count,
    duration,
    percent,
    plural,
    rate,
    rules,
    significant,
    words,
)
from weirlab.report.story import Chapter, Story, place, setting
from weirlab.report.tables import Pairs, Tile
from weirlab.store.reasons import reason_counts

SEARCH: Final = "search"
"""Label of the trials that look for a bound."""


@dataclass(frozen=True)
class SearchRunEvidence:
    """A run of kind ``search`` or ``rfc2544``; ``trials`` are all attempts."""

    manifest: Mapping[str, Any]
    trials: pl.DataFrame
    shape: SearchShape

    @property
    def device(self) -> str:
        return str((self.manifest.get("facts") or {}).get("dut", "device"))

    @property
    def lab(self) -> str:
        return str((self.manifest.get("facts") or {}).get("lab", ""))

    @property
    def spoiled(self) -> pl.DataFrame:
        return self.trials.filter(~pl.col("valid"))

    def of(self, setting: Setting, label: str = SEARCH) -> pl.DataFrame:
        """Attempts in ``setting``, in order."""
        same = (
            (pl.col("position") == setting.rules.position)
            & (pl.col("stateful") == setting.rules.stateful)
            & (pl.col("sizes_text") == setting.sizes_text)
        )
        return self.trials.filter(same & (pl.col("label") == label)).sort("index", "attempt")

    def where(self, setting: Setting) -> str:
        """``64-byte frames, 100 rules``."""
        text = setting.sizes_text
        frames = f"{int(text):,}-byte frames" if text.isdigit() else f"frames {text}"
        return frames if self.device in ("ruleset", "none") else f"{frames}, {setup(setting)}"


@dataclass(frozen=True)
class ThroughputEvidence(SearchRunEvidence):
    """A search, and what it found in each setting."""

    points: Sequence[Point]
    goals: Sequence[SearchGoal]


@dataclass(frozen=True)
class Rfc2544Evidence(SearchRunEvidence):
    """Tests of RFC 2544, and what they found in each setting."""

    results: Sequence[Result]
    suite: Rfc2544Suite


def setup(setting: Setting) -> str:
    """``100 rules, stateful``."""
    return rules(setting.rules.position) + (", stateful" if setting.rules.stateful else "")


def carried(found: GoalResult) -> str:
    """``702 kpps``, ``at least 1.80 Mpps``, ``less than 1.00 kpps``."""
    pps = found.conditional_throughput_pps
    if pps is None:
        return f"less than {rate(found.upper_pps)}" if found.upper_pps else "nothing"
    return f"{'at least ' if found.at_least else ''}{rate(pps)}"


def interval(found: GoalResult) -> str:
    """Between which loads the bound lies, to the packet."""
    lower, upper = found.lower_pps, found.upper_pps
    if lower is None:
        return f"too much even at {upper:,.0f}{SPACE}pps, the lowest load tried"
    if found.at_least or upper is None:
        return f"{lower:,.0f}{SPACE}pps was the highest load that could be offered"
    # With a loss let pass, less is forwarded than offered.
    what = "at a load between" if found.goal.loss_ratio else "between"
    return f"{what} {lower:,.0f} and {upper:,.0f}{SPACE}pps"


MOST_PICTURES: Final = 8
"""Settings whose searches are drawn."""

TERMS: Final = (
    ("NDR", "Non-drop rate: the highest load of which most trials lose nothing."),
    ("PDR", "Partial drop rate: the same with a little loss allowed, 0.5 % unless the goal says otherwise."),
    (
        "Carried, too much",
        "The highest load that meets the goal, and the lowest that does not (RFC 9971: relevant lower and "
        "upper bound). The true bound lies between them; the search ends when they are close enough.",
    ),
    (
        "Throughput",
        "The forwarding rate at the load that is carried: the load less the loss that the goal allows.",
    ),
    ("At least", "No higher load could be offered: the device may carry more."),
    ("Frame sizes", "Include the FCS. Mbit/s count preamble and gap as well."),
)


def tell(searched: ThroughputEvidence) -> Story:
    """The page about a search."""
    points = searched.points
    first = points[0] if points else None
    problems = [f"{searched.where(p.setting)}: {p.problem}" for p in points if p.problem]
    return Story(
        subject=f"the throughput of {searched.device}",
        manifest=searched.manifest,
        simulated=searched.lab == "sim",
        answer=answer(searched, first),
        lede=tuple(_more(searched)),
        caution=caution(searched, problems),
        place=place(searched.manifest, searched.lab, searched.device),
        tiles=tuple(_tiles(searched, first)),
        chapters=(
            Chapter(
                "throughput",
                "Throughput",
                figures=tuple(throughput_figures(points)),
                tables=tuple(tables.bounds(points)),
            ),
            search_chapter(searched, points),
            setting(facts(searched, searched.goals)),
            spoiled_chapter(searched),
        ),
        terms=TERMS,
    )


def answer(evidence: SearchRunEvidence, point: Point | None) -> str:
    """What the device carries in the first setting, or why that is not known."""
    device = "The simulated device" if evidence.lab == "sim" else evidence.device
    if evidence.device == "ruleset":
        device = "Your ruleset"
    if point is None or not point.found:
        problem = point.problem if point else "the run was interrupted before its first setting was done"
        return f"No bound was found: {problem}."
    found, where = point.found[0], evidence.where(point.setting)
    loss = found.goal.loss_ratio
    within = f"with at most {percent(loss)} lost" if loss else "without loss"
    if found.conditional_throughput_pps is None:
        return f"{device} does not carry even the lowest load tried {within} ({where})."
    close = interval(found) if found.at_least else f"{found.goal.name} {interval(found)}"
    return f"{device} carries {carried(found)} {within} ({where}; {close})."


def caution(evidence: SearchRunEvidence, problems: Sequence[str]) -> str:
    """What was not found, and how much was spoiled."""
    parts = [f"Not found: {problem}." for problem in problems]
    if n := evidence.spoiled.height:
        parts.append(
            f"The host spoiled {count(n)} of {plural(evidence.trials.height, 'attempt')}; they were "
            "repeated and do not count."
        )
    return " ".join(parts)


def facts(evidence: SearchRunEvidence, goals: Sequence[SearchGoal]) -> Pairs:
    """What was tested with what."""
    shape, known = evidence.shape, evidence.manifest.get("facts") or {}
    flows = shape.flows
    pairs: Pairs = [("Device under test", evidence.device)]
    pairs += [("Goal", goal_in_words(goal)) for goal in goals]
    pairs += [
        ("Flows", f"{count(flows.count)}, {flows.l4.upper()} over IPv{flows.ip}"),
        ("Gaps between packets", "random (Poisson)" if shape.arrivals == "poisson" else "equal"),
        ("Warm-up", duration(1e9 * shape.warmup_s)),
        ("Sent and received by", str(known.get("backend", NOTHING))),
        ("Calibration", str(evidence.manifest.get("calibration") or "none")),
    ]
    if "test_traffic" in known:
        pairs.append(("Test traffic", str(known["test_traffic"])))
    return pairs


def throughput_figures(points: Sequence[Point]) -> Iterator[Figure]:
    """Throughput over frame size (RFC 2544 section 26.1), if there is more than one size."""
    rows: list[dict[str, Any]] = [
        {"setup": setup(point.setting), "frame_bytes": point.setting.frame_bytes, "value": pps / 1e3}
        for pps, point in _throughputs(points)
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


def search_chapter(evidence: SearchRunEvidence, points: Sequence[Point]) -> Chapter:
    """How each search found its bounds."""
    found = [point for point in points if point.found and evidence.of(point.setting).height]
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
        figures=tuple(_picture(evidence, point, i) for i, point in enumerate(found[:MOST_PICTURES], 1)),
        missing="No trial was made.",
    )


def _picture(evidence: SearchRunEvidence, point: Point, number: int) -> Figure:
    frame = charts.course(point, evidence.of(point.setting))
    found = point.found[0]
    tried = frame["load_pps"].n_unique()
    title = (
        f"{found.goal.name} {carried(found)} after {plural(frame.height, 'trial')} at "
        f"{plural(tried, 'load')}: {interval(found)}."
    )
    return figure(
        f"search-{number}", "search", evidence.where(point.setting), title, "", frame.to_dicts(),
        charts.search(frame, charts.outcomes(point)),
    )  # fmt: skip


def spoiled_chapter(evidence: SearchRunEvidence) -> Chapter:
    """Why attempts do not count."""
    return Chapter(
        "invalid",
        "Invalid trials",
        "Invalid",
        tables=(reasons(why),) if (why := reason_counts(evidence.spoiled["invalid"])) else (),
        missing="No attempt was invalid.",
    )


def figure(key: str, section: str, panel: str, title: str, caption: str, rows: Any, chart: Any) -> Figure:
    """A figure whose alternative text is its title."""
    import polars as pl

    data = pl.DataFrame(rows, infer_schema_length=None)
    return Figure(re.sub(r"[^a-z0-9]+", "-", key), section, panel, title, caption, title, chart, data)


def trials_tile(evidence: SearchRunEvidence) -> Tile:
    """How many trials there are."""
    spoiled = evidence.spoiled.height
    note = f"{count(spoiled)} more were spoiled by the host" if spoiled else "none was invalid"
    return Tile("Trials", count(evidence.trials.height - spoiled), f"valid; {note}")


def _throughputs(points: Sequence[Point]) -> list[tuple[float, Point]]:
    """What is carried by the first goal, where something is."""
    found = [(point.found[0].conditional_throughput_pps, point) for point in points if point.found]
    return [(pps, point) for pps, point in found if pps is not None]


def _more(searched: ThroughputEvidence) -> Iterator[str]:
    """Other goals of the first setting, and the other settings."""
    points = searched.points
    if points and (others := points[0].found[1:]):
        told = [f"{found.goal.name} {carried(found)} ({interval(found)})" for found in others]
        yield f"{words(told)}."
    known = _throughputs(points)
    if len(known) > 1:
        (low, worst), (high, best) = min(known, key=lambda k: k[0]), max(known, key=lambda k: k[0])
        yield (
            f"Over all {len(points)} settings: {rate(low)} ({searched.where(worst.setting)}) to {rate(high)} "
            f"({searched.where(best.setting)})."
        )


def _tiles(searched: ThroughputEvidence, point: Point | None) -> Iterator[Tile]:
    for found in point.found if point else ():
        pps = found.conditional_throughput_pps
        value = NOTHING if pps is None else f"{'≥ ' if found.at_least else ''}{rate(pps)}"
        yield Tile(found.goal.name, value, interval(found))
    for pps, best in _throughputs([point] if point else []):
        bps = bps_from_pps(pps, best.setting.frame_bytes)
        yield Tile("On the wire", f"{significant(bps / 1e6)}\u00a0Mbit/s", "preamble and gap included")
    yield trials_tile(searched)
