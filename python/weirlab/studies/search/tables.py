"""The numbers as tables: bounds per goal, and the four tests of RFC 2544.

Made from what a run keeps of points and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from weirlab.report.numbers import NOTHING, count, duration, percent, rules, significant
from weirlab.tables import Table
from weirlab.traffic.sizes import mean_bytes, parse_sizes
from weirlab.units import bps_from_pps

Point = Mapping[str, Any]

_WHERE = ("Rules", "Frame, B")
RFC2544: Final = "RFC 2544 section 26.1"


def frame_bytes(point: Point) -> float:
    """Mean frame size of a setting."""
    return float(mean_bytes(parse_sizes(str(point["sizes_text"]))))


def bounds(points: Sequence[Point], source: str = "RFC 9971") -> Iterator[Table]:
    """Both bounds per setting and goal."""
    rows = []
    for point in points:
        for found in point.get("goals") or ():
            pps = found["conditional_throughput_pps"]
            mbps = NOTHING if pps is None else significant(bps_from_pps(pps, frame_bytes(point)) / 1e6, 4)
            loss = found["loss_ratio"]
            rows.append(
                (
                    str(found["goal"]["name"]),
                    *_where(point),
                    _bounded(pps, found["at_least"])
                    if pps is not None
                    else f"below {count(found['upper_pps'] or point['max_load_pps'])}",
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
        yield Table(f"Throughput ({source})", columns, rows, range(1, 9), ("Trials", "Mbit/s"))


def latency(points: Sequence[Point]) -> Iterator[Table]:
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
        caption = "Latency at the throughput, one way (RFC 2544 section 26.2)"
        yield Table(caption, columns, rows, range(8), ("Trials", "Std"))


def loss(points: Sequence[Point], name: str = "Frame loss rate (RFC 2544 section 26.3)") -> Iterator[Table]:
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
    yield Table(name, columns, rows, range(len(columns)))


def bursts(points: Sequence[Point]) -> Iterator[Table]:
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
        caption = "Back-to-back frames (RFC 2544 section 26.4, buffer by RFC 9004)"
        yield Table(caption, columns, rows, range(9), ("Searches", "Std", "Rate, pps"))


def rfc2544(results: Sequence[Point], tests: Sequence[str]) -> list[Table]:
    """The tables of ``tests``, in the RFC's order."""
    searched = [point["throughput"] for point in results if point.get("throughput")]
    made = {
        "throughput": bounds(searched, RFC2544),
        "latency": latency(results),
        "loss": loss(results),
        "bursts": bursts(results),
    }
    return [table for test, tables in made.items() if test in tests for table in tables]


def _where(point: Point) -> tuple[str, str]:
    return count(point["position"]) + (" stateful" if point["stateful"] else ""), str(point["sizes_text"])


def _bounded(value: float | None, at_least: bool) -> str:
    return NOTHING if value is None else f"{'≥ ' if at_least else ''}{count(value)}"


def _count(value: float | None) -> str:
    return NOTHING if value is None else count(value)


def _time(ns: float | None) -> str:
    return NOTHING if ns is None else duration(ns)
