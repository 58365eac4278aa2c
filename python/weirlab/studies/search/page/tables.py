"""The numbers: bounds per goal, and the four tests of RFC 2544 in the RFC's form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from weirlab.report.numbers import NOTHING, count, duration, percent, rules, significant
from weirlab.report.tables import Table
from weirlab.studies.search.page.source import Point, Searched, goals
from weirlab.traffic.sizes import mean_bytes, parse_sizes
from weirlab.units import bps_from_pps

_WHERE = ("Rules", "Frame, B")
_MOST_REASONS = 20


def frame_bytes(point: Point) -> float:
    """Mean frame size of a setting."""
    return float(mean_bytes(parse_sizes(str(point["sizes_text"]))))


def bounds(points: list[Point]) -> Iterator[Table]:
    """Both bounds per setting and goal."""
    rows = []
    for point in points:
        for found in goals(point):
            pps = found["conditional_throughput_pps"]
            mbps = NOTHING if pps is None else significant(bps_from_pps(pps, frame_bytes(point)) / 1e6, 4)
            loss = found["loss_ratio"]
            rows.append(
                (
                    str(found["goal"]["name"]),
                    *_where(point),
                    _bounded(pps, found["at_least"]),
                    mbps,
                    _count(found["lower_pps"]),
                    _count(found["upper_pps"]),
                    NOTHING if loss is None else percent(loss),
                    count(point["trials"]),
                )
            )
    columns = (
        "Goal", *_WHERE, "Throughput, pps", "Mbit/s", "Carried, pps", "Too much, pps", "Lost", "Trials",
    )  # fmt: skip
    if rows:
        yield Table("Throughput (RFC 9971)", columns, tuple(rows), frozenset(range(1, 9)))


def latency(points: list[Point]) -> Iterator[Table]:
    """Section 26.2: per frame size the rate, and the average of the trials."""
    rows = tuple(
        (
            *_where(point),
            _bounded(found["rate_pps"], found["at_least"]),
            *(_time(found[name]) for name in ("mean_ns", "min_ns", "max_ns", "std_ns", "p99_ns")),
            count(found["repetitions"]),
        )
        for point in points
        if (found := point.get("latency"))
    )
    columns = (*_WHERE, "Rate, pps", "Latency", "Least", "Greatest", "Std", "p99", "Trials")
    if rows:
        yield Table("Latency at the throughput, one way (section 26.2)", columns, rows, frozenset(range(9)))


def loss(points: list[Point], name: str) -> Iterator[Table]:
    """Section 26.3: loads downwards, settings across."""
    curves = [point for point in points if point.get("loss")]
    if not curves:
        return
    lost = [{p["share"]: p["loss_ratio"] for p in point["loss"]["points"]} for point in curves]
    shares = sorted({share for points in lost for share in points}, reverse=True)
    several = len({(point["position"], point["stateful"]) for point in curves}) > 1
    columns = (
        "Load",
        *(f"{p['sizes_text']} B" + (f", {rules(p['position'])}" if several else "") for p in curves),
    )
    rows = (
        ("100 % is, pps", *(count(point["loss"]["max_load_pps"]) for point in curves)),
        *(
            (
                f"{100 * share:.4g} %",
                *(percent(each[share]) if share in each else NOTHING for each in lost),
            )
            for share in shares
        ),
    )
    yield Table(name, columns, rows, frozenset(range(len(columns))))


def bursts(points: list[Point]) -> Iterator[Table]:
    """Section 26.4: per frame size the average of the longest bursts without loss."""
    rows = tuple(
        (
            *_where(point),
            count(found["rate_pps"]),
            _bounded(found["mean_frames"], found["at_least"]),
            count(min(found["frames"])),
            count(max(found["frames"])),
            NOTHING if found["std_frames"] is None else significant(found["std_frames"], 2),
            _time(None if found["corrected_buffer_s"] is None else found["corrected_buffer_s"] * 1e9),
            _count(found["buffer_frames"]),
            count(len(found["frames"])),
        )
        for point in points
        if (found := point.get("bursts"))
    )
    columns = (
        *_WHERE, "Rate, pps", "Frames", "Least", "Greatest", "Std", "Buffer", "Buffer, frames", "Searches",
    )  # fmt: skip
    if rows:
        yield Table(
            "Back-to-back frames (section 26.4, buffer by RFC 9004)", columns, rows, frozenset(range(10))
        )


def spoiled(searched: Searched) -> Iterator[Table]:
    """Why attempts do not count, numbers in the reasons left out."""
    reasons = Counter(
        re.sub(r"[-+±]?\d[\d.,]*", "…", str(text)) for text in searched.spoiled["invalid"].to_list()
    )
    rows = tuple((reason, count(n)) for reason, n in reasons.most_common(_MOST_REASONS))
    if rows:
        yield Table(
            "Attempts that the host spoiled; they were made again",
            ("Reason", "Attempts"),
            rows,
            frozenset({1}),
        )


def _where(point: Point) -> tuple[str, str]:
    return count(point["position"]) + (" stateful" if point["stateful"] else ""), str(point["sizes_text"])


def _bounded(value: float | None, at_least: bool) -> str:
    return NOTHING if value is None else f"{'≥ ' if at_least else ''}{count(value)}"


def _count(value: float | None) -> str:
    return NOTHING if value is None else count(value)


def _time(ns: float | None) -> str:
    return NOTHING if ns is None else duration(ns)
