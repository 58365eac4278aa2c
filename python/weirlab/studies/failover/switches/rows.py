"""Switches as rows: the tables ``switches``, ``switch_calls`` and ``switch_series`` of a run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.records import F64, CallTable, TrialRecord
from weirlab.studies.failover.switches.event import Occurrence
from weirlab.studies.failover.switches.pair import Pair
from weirlab.studies.failover.switches.switch import GOOD_MOS, Switch, quantile

SWITCHES: Final = "switches"
CALLS: Final = "switch_calls"
SERIES: Final = "switch_series"

nan: Final = math.nan


@dataclass(frozen=True)
class SwitchRow:
    """One attempt at a switch; times count from the event unless the name says otherwise.

    Of an attempt that failed before its numbers were known they are NaN and 0.
    """

    trial_id: str
    index: int
    attempt: int
    repetition: int
    pair: str
    """The pair in words; the same for all its switches."""
    protocol: str
    advert_s: float
    sharing: str
    """How states get to the other kernel: ``direct``, ``cached`` or ``off``."""
    nat: bool
    preempt: bool
    kind: str
    valid: bool
    invalid: str
    """Reasons; empty for a valid one."""
    calls: int
    offered_pps: float
    achieved_pps: float
    firewall: str = ""
    """Whom the event was done to."""
    old_master: str = ""
    new_master: str = ""
    admission_closed: bool = True
    event_at_ns: float = nan
    """From the start of recording."""
    event_took_ns: float = nan
    """The commands' own duration."""
    cut_off_ns: float = nan
    """Hard: until the links were down, from the event: how sudden the death was."""
    event_detail: str = ""
    """Steps of the event as JSON."""
    expected_from_s: float = nan
    expected_to_s: float = nan
    """By the protocol's timers: earliest and latest take-over after a sudden death; 0 for other events."""
    moved_lan_ns: float = nan
    moved_wan_ns: float = nan
    """When another firewall held that side's address."""
    transitions: str = ""
    """Every change of an address from the event on, as JSON: ``at_ns``, ``firewall``, ``side``, ``holds``."""
    outage_ns: float = nan
    """The longest time without any arrival, in the worse direction."""
    outage_forward_ns: float = nan
    outage_back_ns: float = nan
    resumed_ns: float = nan
    """From the event until packets arrived again in both directions."""
    gap_min_ns: float = nan
    gap_p50_ns: float = nan
    gap_p90_ns: float = nan
    gap_p99_ns: float = nan
    gap_max_ns: float = nan
    """Over the calls' longest times between two arrivals; of dead streams, until the end of the trial."""
    excess_p50_ns: float = nan
    excess_max_ns: float = nan
    """The same beyond the time between two packets."""
    lost: int = 0
    """Packets lost from the event on."""
    lost_forward: int = 0
    lost_back: int = 0
    lost_before: int = 0
    duplicated: int = 0
    reordered: int = 0
    """In the affected seconds."""
    glitch_ms: float = nan
    """``lost`` over the rate at which packets with speech were sent, as in the published tables."""
    streams: int = 0
    """Streams of speech (calls times directions) heard before the event."""
    alive: int = 0
    """Of these, heard in the last part of the trial."""
    dead: int = 0
    states_known: int = 0
    states_surviving: int = 0
    states_new_master: int = 0
    jitter_before_ns: float = nan
    jitter_during_ns: float = nan
    jitter_after_ns: float = nan
    """Medians over the streams of the mean RFC 3550 jitter."""
    jitter_during_max_ns: float = nan
    mos_before: float = nan
    mos_affected: float = nan
    mos_affected_min: float = nan
    mos_affected_good: float = nan
    """Share of the streams with MOS 3.6 or better in the affected seconds."""
    mos_after: float = nan
    """Medians over the streams, where nothing else is said."""
    before_from_ns: float = nan
    affected_to_ns: float = nan
    during_to_ns: float = nan
    after_to_ns: float = nan
    """Windows: before is from there to 0, affected and during from 0, after from the end of during."""


def switch_row(
    pair: Pair, repetition: int, calls: int, record: TrialRecord, found: Occurrence, switch: Switch | None
) -> SwitchRow:
    """What the table ``switches`` has of one attempt."""
    known: dict[str, Any] = {
        "trial_id": record.trial_id,
        "index": record.index,
        "attempt": record.attempt,
        "repetition": repetition,
        "pair": pair.text,
        "protocol": pair.protocol.name,
        "advert_s": pair.advert_s,
        "sharing": pair.sharing,
        "nat": pair.nat,
        "preempt": pair.preempt,
        "kind": found.kind,
        "valid": record.valid,
        "invalid": "; ".join(record.invalid),
        "calls": calls,
        "offered_pps": record.offered_pps,
        "achieved_pps": record.result.achieved_pps,
    }
    return SwitchRow(**known, **(_event(record, found) | ({} if switch is None else _numbers(switch))))


def _event(record: TrialRecord, found: Occurrence) -> dict[str, Any]:
    event = found.event
    if event is None:
        return {"admission_closed": found.closed}
    return {
        "firewall": event.firewall,
        "old_master": found.old_master,
        "new_master": found.new_master,
        "admission_closed": found.closed,
        "event_at_ns": float(event.began_ns - record.result.record_start_ns),
        "event_took_ns": float(event.took_ns),
        "cut_off_ns": float(found.sudden_ns) if found.kind == "hard" else nan,
        "event_detail": json.dumps(dict(event.detail)),
        "expected_from_s": found.expected_s[0],
        "expected_to_s": found.expected_s[1],
        "moved_lan_ns": _or_nan(found.moved_ns("lan")),
        "moved_wan_ns": _or_nan(found.moved_ns("wan")),
        "transitions": json.dumps(
            [
                {
                    "at_ns": change.at_ns - event.began_ns,
                    "firewall": change.firewall,
                    "side": change.side,
                    "holds": change.holds,
                }
                for change in found.transitions
            ]
        ),
        "states_known": found.states_known,
        "states_surviving": found.states_surviving,
        "states_new_master": found.states_new_master,
    }


def _numbers(switch: Switch) -> dict[str, Any]:
    gaps, heard, parts = switch.gaps, switch.heard, switch.windows
    gap, excess = gaps.gap_ns, gaps.excess_ns
    mos = heard.affected.mos
    rated = mos[np.isfinite(mos)]
    return {
        "outage_ns": switch.outage_ns,
        "outage_forward_ns": switch.outages[False].gap_ns if False in switch.outages else nan,
        "outage_back_ns": switch.outages[True].gap_ns if True in switch.outages else nan,
        "resumed_ns": switch.resumed_ns,
        "gap_min_ns": quantile(gap, 0.0),
        "gap_p50_ns": quantile(gap, 0.5),
        "gap_p90_ns": quantile(gap, 0.9),
        "gap_p99_ns": quantile(gap, 0.99),
        "gap_max_ns": quantile(gap, 1.0),
        "excess_p50_ns": quantile(excess, 0.5),
        "excess_max_ns": quantile(excess, 1.0),
        "lost": switch.lost(),
        "lost_forward": switch.lost(False),
        "lost_back": switch.lost(True),
        "lost_before": switch.lost_before,
        "duplicated": int(heard.affected.duplicated.sum()),
        "reordered": int(heard.affected.reordered.sum()),
        "glitch_ms": switch.glitch_ms,
        "streams": int(gaps.begun.sum()),
        "alive": int(gaps.survived.sum()),
        "dead": int(gaps.dead.sum()),
        "jitter_before_ns": quantile(heard.before.jitter_ns, 0.5),
        "jitter_during_ns": quantile(heard.during.jitter_ns, 0.5),
        "jitter_after_ns": nan if heard.after is None else quantile(heard.after.jitter_ns, 0.5),
        "jitter_during_max_ns": quantile(heard.during.jitter_max_ns, 1.0),
        "mos_before": quantile(heard.before.mos, 0.5),
        "mos_affected": quantile(mos, 0.5),
        "mos_affected_min": quantile(mos, 0.0),
        "mos_affected_good": float((rated >= GOOD_MOS).mean()) if len(rated) else nan,
        "mos_after": nan if heard.after is None else quantile(heard.after.mos, 0.5),
        "before_from_ns": parts.before[0],
        "affected_to_ns": parts.affected[1],
        "during_to_ns": parts.during[1],
        "after_to_ns": parts.after[1],
    }


def calls_frame(trial_id: str, switch: Switch) -> pl.DataFrame:
    """The table ``switch_calls`` of one switch: a row per call and direction.

    ``gap_ns``, ``excess_ns``, ``gap_begins_ns``, ``gap_ends_ns`` (null: never again), ``alive``;
    ``sent``, ``received``, ``lost``, ``duplicated``, ``reordered``, ``jitter_ns`` and ``mos`` in the
    affected seconds; jitter and MOS before and after.
    """
    gaps, heard = switch.gaps, switch.heard
    key = list(zip(gaps.call.tolist(), gaps.back.tolist(), strict=True))

    def column(table: CallTable | None, name: str) -> F64:
        """Values of ``table`` in the order of the gaps; NaN where a stream is not in it."""
        if table is None:
            return np.full(len(key), nan)
        place = {
            pair: row for row, pair in enumerate(zip(table.call.tolist(), table.back.tolist(), strict=True))
        }
        values = np.append(getattr(table, name).astype(np.float64), nan)
        return values[[place.get(pair, -1) for pair in key]]

    counts = ("sent", "received", "lost", "duplicated", "reordered")
    frame = pl.DataFrame(
        {
            "trial_id": [trial_id] * len(key),
            "call": gaps.call,
            "back": gaps.back,
            "gap_ns": gaps.gap_ns,
            "excess_ns": gaps.excess_ns,
            "gap_begins_ns": gaps.begins_ns,
            "gap_ends_ns": gaps.ends_ns,
            "alive": gaps.survived,
            **{name: column(heard.affected, name) for name in counts},
            "jitter_ns": column(heard.affected, "jitter_ns"),
            "jitter_before_ns": column(heard.before, "jitter_ns"),
            "jitter_during_ns": column(heard.during, "jitter_ns"),
            "jitter_after_ns": column(heard.after, "jitter_ns"),
            "mos": column(heard.affected, "mos"),
            "mos_before": column(heard.before, "mos"),
            "mos_after": column(heard.after, "mos"),
        }
    )
    return frame.fill_nan(None).with_columns(pl.col(counts).cast(pl.Int64))


def series_frame(trial_id: str, switch: Switch) -> pl.DataFrame:
    """The table ``switch_series`` of one switch: a row per direction and bin around the event."""
    series = switch.series
    ended = switch.end_ns - switch.event_ns
    frame = pl.DataFrame(
        {
            "trial_id": [trial_id] * len(series.start_ns),
            "back": series.back,
            "start_ns": series.start_ns,
            "sent": series.sent,
            "received": series.received,
            "lost": series.lost,
            "delay_max_ns": series.delay_max_ns,
        }
    )
    return frame.fill_nan(None).filter(pl.col("start_ns") < ended)


def _or_nan(value: float | None) -> float:
    return nan if value is None else value
