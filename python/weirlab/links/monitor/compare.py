"""What the trials show: medians per method, payload and load, and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.base.quantities import percent, rate
from weirlab.links.monitor.campaign import MonitorLimit
from weirlab.links.monitor.plan import BARE, CUT_BYTES, METHODS, WORDS, Method
from weirlab.links.monitor.rows import PLACES, MonitorRow


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


_ALL: Final = 0.9995
"""A smaller share of frames in the record is reported: a copy that is not made costs nothing."""


def conclusions(
    groups: Sequence[MonitorGroup],
    found: Sequence[MonitorLimit],
    costs_found: Sequence[Cost],
    stalls_found: Sequence[StallEffect],
) -> list[str]:
    """What was found, a sentence each, the most important first."""
    return [*_of_search(found), *_of_validation(groups), *_of_copies(costs_found), *_of_stalls(stalls_found)]


def _of_search(found: Sequence[MonitorLimit]) -> Iterator[str]:
    for one in found:
        who = WORDS[one.method]
        where = "the link lost frames" if one.lost_link else "the record missed frames"
        if one.greatest_pps is None:
            yield (
                f"{_upper(who)} lost {one.frame_bytes}-byte frames at every rate that was tried, down to "
                f"{rate(one.least_lossy_pps or math.nan)}."
            )
        elif one.least_lossy_pps is None:
            yield (
                f"{_upper(who)} forwarded and logged every {one.frame_bytes}-byte frame at every rate that "
                f"was tried; the sender reached {rate(one.greatest_pps)}."
            )
        else:
            # A sender at its limit sends no faster when more is requested.
            beyond = (
                f"at {rate(one.least_lossy_pps)} {where}"
                if one.least_lossy_pps > one.greatest_pps
                else f"when more was asked for, the sender was no faster, and {where}"
            )
            yield (
                f"At up to {rate(one.greatest_pps)} of {one.frame_bytes}-byte frames, {who} forwarded and "
                f"logged every frame in most trials; {beyond}."
            )


def _of_validation(groups: Sequence[MonitorGroup]) -> Iterator[str]:
    paced = [group for group in groups if group.load != "max" and group.method in BARE]
    for load in dict.fromkeys(group.load for group in paced):
        for method in dict.fromkeys(group.method for group in paced if group.load == load):
            mine = [group for group in paced if (group.load, group.method) == (load, method)]
            worst = max(mine, key=lambda group: group.logged_loss_ratio)
            if worst.logged_loss_ratio <= 0:
                yield f"At {load}, {WORDS[method]} logged every frame of every payload (median run)."
            else:
                yield (
                    f"At {load}, {WORDS[method]} lost up to {percent(worst.logged_loss_ratio)} of the frames "
                    f"(payload {worst.payload_bytes} B)."
                )


def _of_copies(found: Sequence[Cost]) -> Iterator[str]:
    for method, whole in dict.fromkeys((cost.method, cost.whole) for cost in found):
        mine = [cost for cost in found if (cost.method, cost.whole) == (method, whole)]
        overload = all(cost.overload for cost in mine)
        told = ", ".join(_price(cost, overload) for cost in mine)
        lead = "In overload" if overload else "Sent as fast as possible"
        who = f"{WORDS[method]}, its copies never cut," if whole else WORDS[method]
        yield f"{lead}, {who} forwards this share of what {WORDS[BARE[method]]} does: {told}."


def _price(cost: Cost, overload: bool) -> str:
    notes = []
    if cost.cut_ratio > 0:
        notes.append(f"copies cut to {CUT_BYTES} bytes for {percent(cost.cut_ratio)} of the frames")
    if cost.logged_ratio < _ALL:
        notes.append(f"{percent(cost.logged_ratio)} of the frames recorded")
    if not overload:
        notes.append("in overload" if cost.overload else "the sender set the limit")
    return f"{percent(cost.ratio)} at {cost.payload_bytes} B" + (f" ({'; '.join(notes)})" if notes else "")


def _of_stalls(found: Sequence[StallEffect]) -> Iterator[str]:
    for one in found:
        link = "the link lost nothing" if not one.link_lost else f"the link lost {one.link_lost:,.0f} frames"
        if one.link_lost and math.isfinite(one.link_lost_bare):
            link += f" ({one.link_lost_bare:,.0f} without a recorder)"
        if not one.missing:
            record = "the record missed none"
        elif one.named:
            record = f"the record misses {one.missing:,.0f} and reports {one.named:,.0f} of them as missing"
        else:
            record = f"the record misses {one.missing:,.0f} and reports none of them"
        who = f"the recorder of {WORDS[one.method]}" if one.method.startswith("tap-") else WORDS[one.method]
        yield f"While {who} was stalled for {one.stalled_s:.1f} s, {link}; {record}."


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
