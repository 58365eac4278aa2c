"""The tables: all groups, the published values, rates without loss, stalls, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from weirlab.report.numbers import NOTHING, count, percent, rate, significant
from weirlab.studies.monitor.page.source import METHODS, PLACES, PUBLISHED, Evidence
from weirlab.studies.monitor.trials import Group
from weirlab.tables import Table


def groups(found: Sequence[Group]) -> list[Table]:
    """A table per load, with a row per method and payload."""
    order = list(METHODS)
    ordered = sorted(found, key=lambda group: (order.index(group.method), group.payload_bytes))
    loads = sorted({group.load: None for group in found}, key=lambda load: load != "max")
    return [_groups([one for one in ordered if one.load == load], load) for load in loads]


def _groups(found: Sequence[Group], load: str) -> Table:
    rows = [
        (
            METHODS[group.method],
            count(group.payload_bytes),
            count(group.runs),
            count(group.sent_per_min),
            count(group.received_per_min),
            NOTHING if group.logged_per_min is None else count(group.logged_per_min),
            share(group.link_loss_ratio),
            share(group.logged_loss_ratio),
            share(group.record_loss_ratio),
            _worst_places(group),
        )
        for group in found
    ]
    what = "Sent as fast as possible" if load == "max" else f"Sent at {load}"
    return Table(
        f"{what}: medians of the runs, frames per minute",
        (
            "Method",
            "Payload, B",
            "Runs",
            "Sent",
            "Arrived",
            "Logged",
            "Lost on the link",
            "Not logged",
            "Of what came by",
            "Lost where",
        ),
        rows,
        range(1, 9),
        spare=("Lost where", "Runs", "Arrived", "Of what came by"),
    )


def published() -> Table:
    """What the original measurement found, on other hardware."""
    return Table(
        "Published: 100 Mbit/s Ethernet, other hardware; packets per minute, ten runs",
        ("Payload, B", "Sent", "Logged", "Not logged"),
        tuple(
            (
                count(one.payload_bytes),
                f"{one.sent_per_min:,.1f}",
                f"{one.logged_per_min:,.1f}",
                share(one.loss_ratio),
            )
            for one in PUBLISHED
        ),
        frozenset(range(4)),
    )


def found(evidence: Evidence) -> Table:
    """Greatest rates at which nothing was lost."""
    rows = [
        (
            METHODS[one.method],
            count(one.frame_bytes),
            NOTHING if one.greatest_pps is None else rate(one.greatest_pps),
            NOTHING if one.greatest_pps is None else _bits(one.greatest_pps, one.frame_bytes),
            _loss_at(one.greatest_pps, one.least_lossy_pps),
            count(one.lost_link),
            count(one.lost_record),
            count(one.trials),
        )
        for one in evidence.found
    ]
    return Table(
        "Greatest rate at which every frame was forwarded and logged, in most of its trials",
        (
            "Method",
            "Frame, B",
            "Without loss up to",
            "In frames",
            "Loss at",
            "Lost there by the link",
            "By the record",
            "Trials",
        ),
        tuple(rows),
        frozenset(range(1, 8)),
    )


def _loss_at(greatest_pps: float | None, lossy_pps: float | None) -> str:
    if lossy_pps is None:
        return NOTHING
    # A sender at its limit is no faster when it is asked for more.
    return rate(lossy_pps) if lossy_pps > (greatest_pps or 0) else "the sender's limit"


def stalls(evidence: Evidence) -> Table:
    """What a recorder that stands still does to link and record."""
    rows = [
        (
            METHODS[one.method],
            count(one.runs),
            rate(one.rate_pps),
            f"{one.stalled_s:.2f} s",
            count(one.sent),
            count(one.link_lost),
            _number(one.link_lost_bare),
            count(one.missing),
            count(one.named),
            NOTHING if not _known(one.gap_s) else f"{one.gap_s:.2f} s",
        )
        for one in evidence.stalls
    ]
    return Table(
        "The recorder stands still: medians of the runs, in frames",
        (
            "Method",
            "Runs",
            "Rate",
            "Stood still",
            "Sent",
            "Lost on the link",
            "When nobody records",
            "Missing in the record",
            "Named by the record",
            "From first to last gap",
        ),
        tuple(rows),
        frozenset(range(1, 10)),
    )


def left_out(evidence: Evidence) -> Table | None:
    """Attempts that the host spoiled, and those whose sums do not close; None where there are none."""
    rows = [
        (
            str(row["method"]),
            str(row["part"]),
            count(row["payload_bytes"]),
            str(row["load"]),
            str(row["run"]),
            str(row["invalid"] or NOTHING),
            str(row["balance"] or "closes"),
        )
        for row in evidence.trials.filter(~pl.col("valid") | (pl.col("balance") != "")).iter_rows(named=True)
    ]
    if not rows:
        return None
    return Table(
        "Attempts that were left out, or whose sums do not close",
        ("Method", "Part", "Payload, B", "Load", "Run", "Left out because", "Sum of the stages"),
        rows,
        {2, 4},
        details=True,
    )


def share(ratio: float | None) -> str:
    """A loss; ``0`` only for none at all."""
    if not _known(ratio):
        return NOTHING
    assert ratio is not None
    return "0" if ratio == 0 else percent(ratio)


def _worst_places(group: Group) -> str:
    lost = {place: value for place, value in group.lost_at.items() if value}
    worst = sorted(lost, key=lambda place: -lost[place])[:2]
    return ", ".join(f"{PLACES[place]} {percent(lost[place])}" for place in worst) or "nowhere"


def _bits(pps: float, frame_bytes: int) -> str:
    return f"{significant(pps * frame_bytes * 8 / 1e9)} Gbit/s"


def _number(value: float | None) -> str:
    return count(value) if _known(value) and value is not None else NOTHING


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
