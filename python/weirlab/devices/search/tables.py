"""The numbers as tables: bounds per goal, and the four tests of RFC 2544."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from weirlab.base.tables import Table
from weirlab.base.units import NS_PER_S, bps_from_pps
from weirlab.devices.search.rfc2544.suite import Result
from weirlab.jobs.trials import wire_ns
from weirlab.measure.search.goal import GoalResult
from weirlab.measure.search.throughput import Point, Setting
from weirlab.report.numbers import NOTHING, count, duration, percent, rules, significant

_WHERE = ("Rules", "Frame, B")
RFC2544: Final = "RFC 2544 section 26.1"


def bounds(points: Sequence[Point], source: str = "RFC 9971") -> Iterator[Table]:
    """Both bounds per setting and goal."""
    rows = [
        (
            found.goal.name,
            *_where(point.setting),
            *_throughput(point, found),
            count(found.lower_pps),
            count(found.upper_pps),
            percent(found.loss_ratio),
            count(point.trials),
        )
        for point in points
        for found in point.found
    ]
    columns = (
        "Goal", *_WHERE, "Throughput, pps", "Mbit/s", "Carried, pps", "Too much, pps", "Lost", "Trials",
    )  # fmt: skip
    if rows:
        yield Table(f"Throughput ({source})", columns, rows, spare=("Trials", "Mbit/s"))


def latency(results: Sequence[Result], facts: Mapping[str, Any]) -> Iterator[Table]:
    """Section 26.2: per frame size the rate, and the average of the trials; time on the wire if it is known.

    ``facts`` are those of the run.
    """
    measured = [one.latency for one in results if one.latency is not None]
    on_wire = [wire_ns(facts, found.setting.frame_bytes) for found in measured]
    known = any(on_wire)
    rows = [
        (
            *_where(found.setting),
            _bounded(found.rate_pps, found.at_least),
            *map(duration, (found.mean_ns, found.min_ns, found.max_ns, found.std_ns, found.p99_ns)),
            *([duration(wire)] if known else []),
            count(found.repetitions),
        )
        for found, wire in zip(measured, on_wire, strict=True)
    ]
    wire_column = ["On the wire"] if known else []
    columns = (*_WHERE, "Rate, pps", "Latency", "Least", "Greatest", "Std", "p99", *wire_column, "Trials")
    if rows:
        caption = "Latency at the throughput, one way (RFC 2544 section 26.2)"
        yield Table(caption, columns, rows, spare=("Trials", "Std"))


def loss(results: Sequence[Result]) -> Iterator[Table]:
    """Section 26.3: loads downwards, settings across."""
    curves = [one.loss for one in results if one.loss is not None]
    if not curves:
        return
    lost = [{point.share: point.loss_ratio for point in curve.points} for curve in curves]
    shares = sorted({share for points in lost for share in points}, reverse=True)
    settings = [curve.setting for curve in curves]
    several = len({(setting.rules.position, setting.rules.stateful) for setting in settings}) > 1
    columns = (
        "Load",
        *(f"{s.sizes_text} B" + (f", {rules(s.rules.position)}" if several else "") for s in settings),
    )
    rows = (
        ("100 % is, pps", *(count(curve.max_load_pps) for curve in curves)),
        *(
            (f"{100 * share:.4g} %", *(percent(each[share]) if share in each else NOTHING for each in lost))
            for share in shares
        ),
    )
    yield Table("Frame loss rate (RFC 2544 section 26.3)", columns, rows)


def bursts(results: Sequence[Result]) -> Iterator[Table]:
    """Section 26.4: per frame size the average of the longest bursts without loss."""
    rows = [
        (
            *_where(found.setting),
            count(found.rate_pps),
            _bounded(found.mean_frames, found.at_least),
            count(min(found.frames)),
            count(max(found.frames)),
            significant(found.std_frames, 2),
            duration(found.corrected_buffer_s * NS_PER_S),
            count(found.buffer_frames),
            count(len(found.frames)),
        )
        for found in (one.bursts for one in results)
        if found is not None
    ]
    columns = (
        *_WHERE, "Rate, pps", "Frames", "Least", "Greatest", "Std", "Buffer", "Buffer, frames", "Searches",
    )  # fmt: skip
    if rows:
        caption = "Back-to-back frames (RFC 2544 section 26.4, buffer by RFC 9004)"
        yield Table(caption, columns, rows, spare=("Searches", "Std", "Rate, pps"))


def rfc2544(results: Sequence[Result], tests: Sequence[str], facts: Mapping[str, Any]) -> list[Table]:
    """The tables of ``tests``, in the RFC's order; ``facts`` are those of the run."""
    searched = [one.throughput for one in results if one.throughput is not None]
    made = {
        "throughput": bounds(searched, RFC2544),
        "latency": latency(results, facts),
        "loss": loss(results),
        "bursts": bursts(results),
    }
    return [table for test, tables in made.items() if test in tests for table in tables]


def _where(setting: Setting) -> tuple[str, str]:
    stateful = " stateful" if setting.rules.stateful else ""
    return f"{count(setting.rules.position)}{stateful}", setting.sizes_text


def _throughput(point: Point, found: GoalResult) -> tuple[str, str]:
    """In packets/s and Mbit/s."""
    pps = found.conditional_throughput_pps
    if pps is None:
        return f"below {count(found.upper_pps or point.max_load_pps)}", NOTHING
    mbps = bps_from_pps(pps, point.setting.frame_bytes) / 1e6
    return _bounded(pps, found.at_least), significant(mbps, 4)


def _bounded(value: float, at_least: bool) -> str:
    return f"{'≥ ' if at_least else ''}{count(value)}"
