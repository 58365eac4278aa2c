"""What the switches of a run show: per pair and kind of event, and in sentences. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.quantities import duration, percent
from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.plan import KINDS, named_event
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.measure.spread import Spread

TIMERS_OFF: Final = 0.2
"""How far (a ratio) a sudden death may lie beyond the protocol's own timers."""

NOBODY_SAW: Final = "whether the pair switched, its own log tells"
"""Of a pair that Weir does not look into, if no packet was lost."""

SPREAD: Final = (
    "outage_ns", "outage_forward_ns", "outage_back_ns", "resumed_ns", "gap_min_ns", "gap_p50_ns",
    "gap_p90_ns", "gap_p99_ns", "gap_max_ns", "excess_p50_ns", "excess_max_ns", "lost", "lost_forward",
    "lost_back", "duplicated", "reordered", "glitch_ms", "streams", "alive", "dead", "states_surviving",
    "event_took_ns", "cut_off_ns", "moved_lan_ns", "moved_wan_ns", "jitter_before_ns",
    "jitter_during_ns",
    "jitter_after_ns", "mos_before", "mos_affected", "mos_affected_min", "mos_affected_good", "mos_after",
)  # fmt: skip
"""Columns of the table ``switches`` whose medians and extremes a group has."""


@dataclass(frozen=True)
class SwitchGroup:
    """All valid runs of one kind of event with one pair."""

    pair: str
    protocol: str
    advert_s: float
    sharing: str
    nat: bool
    kind: str
    admission_closed: bool
    runs: int
    invalid: int
    """Attempts that the host spoiled."""
    expected_s: tuple[float, float]
    spread: dict[str, Spread]

    @property
    def timers_off(self) -> float:
        """By how much (a ratio) the median time to resume lies outside of the timers' range; 0 inside.

        NaN where the timers promise nothing (soft), or nothing came back.
        """
        earliest, latest = self.expected_s
        if not latest > 0:
            return math.nan
        seen = self.spread["resumed_ns"].median / NS_PER_S
        return min(seen / earliest - 1, 0.0) + max(seen / latest - 1, 0.0)

    @property
    def within_timers(self) -> bool | None:
        """Whether that is at most 20 %; None if there is nothing to compare."""
        off = self.timers_off
        return None if math.isnan(off) else abs(off) <= TIMERS_OFF

    @property
    def lossless(self) -> bool:
        """Whether no packet was lost in any run."""
        return self.spread["lost"].high == 0

    @property
    def unseen(self) -> bool:
        """Whether nobody but the pair itself knows if it switched."""
        return self.sharing == "unknown"

    @property
    def survivors(self) -> float:
        """Share of the streams that went on, over all runs (median)."""
        streams = self.spread["streams"].median
        return self.spread["alive"].median / streams if streams else math.nan

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: value for name, value in vars(self).items() if name != "spread"},
            "spread": {name: vars(found) for name, found in self.spread.items()},
            "timers_off": self.timers_off,
            "within_timers": self.within_timers,
            "lossless": self.lossless,
            "survivors": self.survivors,
        }


def compare(rows: Sequence[SwitchRow]) -> tuple[SwitchGroup, ...]:
    """One group per pair and kind of event: pairs by name, kinds in their usual order."""
    order: dict[str, int] = {kind: place for place, kind in enumerate(KINDS)}
    keys = sorted({(row.pair, row.kind) for row in rows}, key=lambda key: (key[0], order.get(key[1], 9)))
    return tuple(_group([row for row in rows if (row.pair, row.kind) == key]) for key in keys)


def _group(rows: Sequence[SwitchRow]) -> SwitchGroup:
    valid, first = [row for row in rows if row.valid], rows[0]
    timed = [row for row in valid if math.isfinite(row.expected_from_s)]
    return SwitchGroup(
        pair=first.pair,
        protocol=first.protocol,
        advert_s=first.advert_s,
        sharing=first.sharing,
        nat=first.nat,
        kind=first.kind,
        admission_closed=first.admission_closed,
        runs=len(valid),
        invalid=len(rows) - len(valid),
        expected_s=(timed[0].expected_from_s, timed[0].expected_to_s) if timed else (0.0, 0.0),
        spread={name: Spread.of([float(getattr(row, name)) for row in valid]) for name in SPREAD},
    )


def conclusions(groups: Sequence[SwitchGroup]) -> Iterator[str]:
    """What the groups show, a sentence each; only of those with a valid run."""
    measured = [group for group in groups if group.runs]
    for group in measured:
        yield f"{named_event(group.pair, group.kind)}: {_went_on(group)}{_timers(group)}{_heard(group)}."
    yield from _shorter_timers(measured)
    yield from _other_protocols(measured)
    yield from _worth_of_states(measured)


def _shorter_timers(groups: Sequence[SwitchGroup]) -> Iterator[str]:
    """The same pair with another interval between advertisements."""
    for slow, quick in itertools.permutations(_deaths(groups), 2):
        if _alike(slow, quick, "protocol", "sharing", "nat") and slow.advert_s > quick.advert_s:
            yield (
                f"Of {quick.protocol}, advertisements every {quick.advert_s:g} s instead of every "
                f"{slow.advert_s:g} s bring the time without packets after a sudden death from "
                f"{_time(slow.spread['outage_ns'])} to {_time(quick.spread['outage_ns'])}."
            )


def _other_protocols(groups: Sequence[SwitchGroup]) -> Iterator[str]:
    """Different protocols with the same interval."""
    for one, other in itertools.combinations(_deaths(groups), 2):
        if _alike(one, other, "advert_s", "sharing", "nat") and one.protocol != other.protocol:
            yield (
                f"After a sudden death, advertising every {one.advert_s:g} s, {one.protocol} is without "
                f"packets for {_time(one.spread['outage_ns'])} and {other.protocol} for "
                f"{_time(other.spread['outage_ns'])}."
            )


def _worth_of_states(groups: Sequence[SwitchGroup]) -> Iterator[str]:
    """The same pair with and without conntrackd."""
    for shared, alone in itertools.permutations(groups, 2):
        if _alike(shared, alone, "protocol", "advert_s", "nat", "kind") and (
            shared.sharing,
            alone.sharing,
        ) == ("direct", "off"):
            yield (
                f"With {alone.protocol} every {alone.advert_s:g} s, when the master {KINDS[alone.kind]}, "
                f"{percent(shared.survivors)} of the streams go on with conntrackd, "
                f"{percent(alone.survivors)} without it."
            )


def _deaths(groups: Sequence[SwitchGroup]) -> list[SwitchGroup]:
    """Sudden deaths after which packets came again."""
    return [g for g in groups if g.kind == "hard" and math.isfinite(g.spread["resumed_ns"].median)]


def _alike(one: SwitchGroup, other: SwitchGroup, *names: str) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _went_on(group: SwitchGroup) -> str:
    found = group.spread
    of_runs = f"in all {group.runs} runs" if group.runs > 1 else "in the one run"
    streams, dead = found["streams"].median, found["dead"]
    if dead.low >= streams > 0:
        return f"every one of {streams:,.0f} streams died {of_runs}"
    if dead.high > 0:
        return f"{_range(dead, '{:,.0f}')} of {streams:,.0f} streams died"
    if group.lossless:
        kept = f"no packet was lost {of_runs} (longest gap of a call {_time(found['gap_max_ns'])})"
        return f"{kept}; {NOBODY_SAW}" if group.unseen else kept
    return (
        f"all streams went on after a gap of {_time(found['gap_p50_ns'])} (median call), "
        f"with {_range(found['lost'], '{:,.0f}')} packets lost"
    )


def _timers(group: SwitchGroup) -> str:
    within = group.within_timers
    if within is None:
        return ""
    earliest, latest = group.expected_s
    off = group.timers_off
    seen = group.spread["resumed_ns"].median / NS_PER_S
    if off == 0:
        verdict = "as the timers say"
    else:
        verdict = f"{percent(abs(off))} {'later' if off > 0 else 'earlier'} than the timers say"
    kept = "" if within else f", more than {percent(TIMERS_OFF)} off"
    return f"; packets came again after {seen:.3g} s, {verdict} ({earliest:.3g} to {latest:.3g} s){kept}"


def _heard(group: SwitchGroup) -> str:
    before, affected = group.spread["mos_before"].median, group.spread["mos_affected"].median
    if not (math.isfinite(before) and math.isfinite(affected)):
        return ""
    return f"; MOS {before:.2f} before and {affected:.2f} in the affected seconds"


def _time(found: Spread) -> str:
    return duration(found.median)


def _range(found: Spread, shown: str) -> str:
    low, high = shown.format(found.low), shown.format(found.high)
    return low if low == high else f"{low} to {high}"
