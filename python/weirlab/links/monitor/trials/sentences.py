"""What was found, in sentences that also hold if the sender set the limit or no rate passed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from weirlab.base.quantities import percent, rate
from weirlab.links.monitor.bed.base import BARE, WORDS
from weirlab.links.monitor.trials.compare import Cost, MonitorGroup, StallEffect
from weirlab.links.monitor.trials.plan import CUT_BYTES
from weirlab.links.monitor.trials.search import MonitorLimit

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
