"""What the trials show: medians per method, payload and load. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weirlab.links.monitor.bed.base import BARE, METHODS, Method
from weirlab.links.monitor.trials.accounting import PLACES
from weirlab.links.monitor.trials.rows import MonitorRow


@dataclass(frozen=True)
class MonitorGroup:
    """Valid runs of one method, payload and load: medians, and shares of all frames sent."""

    method: Method
    payload_bytes: int
    frame_bytes: int
    load: str
    runs: int
    unbalanced: int
    """Runs in which counters do not agree."""
    sent_per_min: float
    """Median, as in published values."""
    received_per_min: float
    logged_per_min: float | None
    """None without a recorder."""
    achieved_pps: float
    link_loss_ratio: float
    """Median over the runs, as the next two."""
    logged_loss_ratio: float
    record_loss_ratio: float
    logged_loss_range: tuple[float, float]
    """Least and greatest run."""
    kept_ratio: float
    """Share of all frames sent, over all runs, that are in the record; that arrived, where nobody records."""
    lost_at: dict[str, float]
    """By place, the share of all frames sent that was lost there, over all runs."""


@dataclass(frozen=True)
class Cost:
    """What copying costs the link in overload."""

    method: Method
    payload_bytes: int
    runs: int
    with_pps: float
    """Rate that reached the far end with copies, median over the runs."""
    without_pps: float
    ratio: float
    """The first over the second."""
    logged_ratio: float
    """Share of the frames that came by and are in the record, median."""
    cut_ratio: float
    """Share of the frames that came by of which only the first bytes were copied, median."""
    overload: bool
    """Was more sent than the bridge took in, with copies and without? Else the sender set the limit."""
    whole: bool = False
    """Copies are neither cut nor left out, whatever it costs the link."""


@dataclass(frozen=True)
class StallEffect:
    """What a recorder that stood still did to link and record; frames, medians over the runs."""

    method: Method
    runs: int
    rate_pps: float
    sent: float
    link_lost: float
    link_lost_bare: float
    """By the same bridge without a recorder; NaN if that was not measured."""
    missing: float
    """Frames that came by and are not in the record."""
    named: float
    """Frames that the record itself names as missing."""
    gap_s: float
    """From the first named gap's begin to the last one's end; NaN without gaps."""
    stalled_s: float


def compare(rows: Sequence[MonitorRow]) -> tuple[MonitorGroup, ...]:
    """The validation's groups, by method, payload and load in the order of their trials."""
    valid = [row for row in rows if row.valid and row.part == "validation"]
    keys = sorted(
        {(row.method, row.payload_bytes, row.load) for row in valid},
        key=lambda key: (METHODS.index(key[0]), key[1], key[2] != "max", key[2]),
    )
    return tuple(
        _group([row for row in valid if (row.method, row.payload_bytes, row.load) == key]) for key in keys
    )


def _group(rows: Sequence[MonitorRow]) -> MonitorGroup:
    first, sent = rows[0], sum(row.sent for row in rows)
    logged = [row.logged for row in rows if row.logged is not None]
    losses = [row.logged_loss_ratio for row in rows if math.isfinite(row.logged_loss_ratio)]
    return MonitorGroup(
        method=first.method,  # type: ignore[arg-type]
        payload_bytes=first.payload_bytes,
        frame_bytes=first.frame_bytes,
        load=first.load,
        runs=len(rows),
        unbalanced=sum(bool(row.balance) for row in rows),
        sent_per_min=_median(rows, lambda row: 60 * row.sent / row.duration_s),
        received_per_min=_median(rows, lambda row: 60 * row.received / row.duration_s),
        logged_per_min=_median(rows, lambda row: 60 * (row.logged or 0) / row.duration_s) if logged else None,
        achieved_pps=_median(rows, lambda row: row.achieved_pps),
        link_loss_ratio=_median(rows, lambda row: row.link_loss_ratio),
        logged_loss_ratio=_median(rows, lambda row: row.logged_loss_ratio),
        record_loss_ratio=_median(rows, lambda row: row.record_loss_ratio),
        logged_loss_range=(min(losses), max(losses)) if losses else (math.nan, math.nan),
        kept_ratio=sum(row.received if row.logged is None else row.logged for row in rows) / sent
        if sent
        else math.nan,
        lost_at={
            place: sum(getattr(row, f"lost_{place}") for row in rows) / sent if sent else math.nan
            for place in PLACES
        },
    )


def costs(rows: Sequence[MonitorRow]) -> tuple[Cost, ...]:
    """What each method that copies forwards in overload, over what its bridge alone does."""
    return tuple(cost for whole in (False, True) for cost in _costs(rows, whole))


def _costs(rows: Sequence[MonitorRow], whole: bool) -> Iterator[Cost]:
    valid = [row for row in rows if row.valid and row.part == ("whole" if whole else "copy")]

    def of(method: str, payload: int) -> list[MonitorRow]:
        return [row for row in valid if (row.method, row.payload_bytes) == (method, payload)]

    for method, bare in BARE.items():
        for payload in sorted({row.payload_bytes for row in valid}):
            copied, alone = of(method, payload), of(bare, payload)
            if not copied or not alone:
                continue
            with_pps = _median(copied, lambda row: row.forwarded_pps)
            without_pps = _median(alone, lambda row: row.forwarded_pps)
            yield Cost(
                method,
                payload,
                len(copied),
                with_pps,
                without_pps,
                with_pps / without_pps if without_pps else math.nan,
                1 - _median(copied, lambda row: row.record_loss_ratio),
                _median(copied, lambda row: (row.cut or 0) / row.entered if row.entered else 0.0),
                all(_median(some, lambda row: row.lost_before) > 0 for some in (copied, alone)),
                whole,
            )


def stalls(rows: Sequence[MonitorRow]) -> tuple[StallEffect, ...]:
    """The effect of every method's stalls."""
    valid = [row for row in rows if row.valid and row.part == "stall"]

    def of(method: str) -> list[MonitorRow]:
        return [row for row in valid if row.method == method]

    found = []
    for method, bare in BARE.items():
        mine = of(method)
        if not mine:
            continue
        found.append(
            StallEffect(
                method=method,
                runs=len(mine),
                rate_pps=_median(mine, lambda row: row.achieved_pps),
                sent=_median(mine, lambda row: row.sent),
                link_lost=_median(mine, lambda row: row.sent - row.received),
                link_lost_bare=_median(of(bare), lambda row: row.sent - row.received),
                missing=_median(mine, lambda row: row.record_loss_ratio * row.entered),
                named=_median(mine, lambda row: sum(gap["frames"] for gap in row.gap_list())),
                gap_s=_median(mine, _gap_s),
                stalled_s=_median(
                    mine, lambda row: ((row.stalled_to_ns or 0) - (row.stalled_from_ns or 0)) / 1e9
                ),
            )
        )
    return tuple(found)


def _gap_s(row: MonitorRow) -> float:
    gaps = row.gap_list()
    if not gaps:
        return math.nan
    return float(max(gap["to_ns"] for gap in gaps) - min(gap["from_ns"] for gap in gaps)) / 1e9


def _median(rows: Sequence[MonitorRow], value: Callable[[MonitorRow], float]) -> float:
    known = [number for row in rows if math.isfinite(number := float(value(row)))]
    return float(np.median(known)) if known else math.nan
