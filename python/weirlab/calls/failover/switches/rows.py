"""Switches as rows: the tables ``switches``, ``switch_calls`` and ``switch_series`` of a run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.calls.failover.switches.event import Occurrence
from weirlab.calls.failover.switches.plan import PairSpec
from weirlab.calls.failover.switches.switch import GOOD_MOS, SwitchMeasurement, quantile
from weirlab.lab.redundant.base import SIDES
from weirlab.records import F64, CallTable, TrialRecord
from weirlab.store.frames import schema_of


@dataclass(frozen=True)
class SwitchCallRow:
    """One call in one direction around a switch."""

    trial_id: str
    """The attempt in `switches`."""
    call: int
    """Number of the call, from 0."""
    back: bool
    """Direction: false where the sender's side talks."""
    gap_ns: float
    """Longest time between two arrivals around the event; of a dead stream until the end of the trial."""
    excess_ns: float
    """The gap beyond the time between two packets."""
    gap_begins_ns: float
    """Last arrival before the gap."""
    gap_ends_ns: float
    """First arrival after the gap; null: never again."""
    alive: bool
    """Heard before the event and in the last part of the trial."""
    sent: int
    """Packets that departed in the affected seconds."""
    received: int
    """Of these, packets that arrived, each once."""
    lost: int
    """Packets sent less packets received."""
    duplicated: int
    """Arrivals of packets that had come before."""
    reordered: int
    """Packets that came after one with a higher sequence number (RFC 4737)."""
    jitter_ns: float
    """Jitter in the affected seconds (RFC 3550), mean over the packets."""
    jitter_before_ns: float
    """Jitter before the event."""
    jitter_during_ns: float
    """Jitter from the event until a second after the last stream was back."""
    jitter_after_ns: float
    """Jitter from then on."""
    mos: float
    """MOS in the affected seconds, 1 to 4.5."""
    mos_before: float
    """MOS before the event."""
    mos_after: float
    """MOS after the switch."""


@dataclass(frozen=True)
class SwitchSeriesRow:
    """Packets of all calls in one direction in a bin of time around a switch."""

    trial_id: str
    """The attempt in `switches`."""
    back: bool
    """Direction: false where the sender's side talks."""
    start_ns: int
    """Begin of the bin."""
    sent: int
    """Packets that departed in the bin."""
    received: int
    """Packets that arrived in the bin, second copies left out."""
    lost: int
    """Packets that departed in the bin and never arrived."""
    delay_max_ns: float
    """Greatest one-way delay of what arrived in the bin."""


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
    """Unique; `switch_calls` and `switch_series` refer to it."""
    index: int
    """Number of the trial in its run, from 0."""
    attempt: int
    """Number of the attempt at this trial, from 1."""
    repetition: int
    """Number of the switch among those of its pair and kind, from 1."""
    pair: str
    """The pair in words; the same for all its switches."""
    protocol: str
    """`keepalived`, `ucarp`, or `external`: a pair of the user's own."""
    advert_s: float
    """Time between two advertisements of the master; 0 if it is not known."""
    sharing: str
    """How states get to the other kernel: ``direct``, ``cached``, ``off`` or ``unknown``."""
    nat: bool
    """Whether the pair translates addresses."""
    preempt: bool
    """Whether a master that comes back takes over again."""
    kind: str
    """Event: `soft` (the master steps down), `hard` (it dies) or `return` (it comes back)."""
    valid: bool
    """Whether the attempt counts."""
    invalid: str
    """Reasons; empty for a valid one."""
    calls: int
    """Calls at once."""
    offered_pps: float
    """Nominal load, both directions together."""
    achieved_pps: float
    """Load that departed."""
    firewall: str = ""
    """Whom the event was done to; empty if that is not known."""
    old_master: str = ""
    """Who held the addresses before."""
    new_master: str = ""
    """Who held them after; empty if nobody did."""
    admission_closed: bool = True
    """Whether new connections were refused from before the event on."""
    event_at_ns: float = nan
    """The event, from the start of recording."""
    event_took_ns: float = nan
    """The commands' own duration."""
    cut_off_ns: float = nan
    """Hard: until the links were down, from the event: how sudden the death was."""
    event_detail: str = ""
    """Steps of the event as JSON."""
    expected_from_s: float = nan
    """Earliest take-over by the protocol's timers after a sudden death; 0 for other events."""
    expected_to_s: float = nan
    """Latest take-over by these timers; 0 for other events."""
    moved_lan_ns: float = nan
    """When another firewall held the address on the inside."""
    moved_wan_ns: float = nan
    """When another firewall held the address on the outside."""
    transitions: str = ""
    """Every change of an address from the event on, as JSON: ``at_ns``, ``firewall``, ``side``, ``holds``."""
    outage_ns: float = nan
    """The longest time without any arrival, in the worse direction."""
    outage_forward_ns: float = nan
    """The longest time without any arrival towards the outside."""
    outage_back_ns: float = nan
    """The longest time without any arrival towards the inside."""
    resumed_ns: float = nan
    """From the event until packets arrived again in both directions."""
    gap_min_ns: float = nan
    """Least of the calls' gaps: longest times between two arrivals, of dead streams until the end."""
    gap_p50_ns: float = nan
    """Median of these gaps."""
    gap_p90_ns: float = nan
    """90th percentile of these gaps."""
    gap_p99_ns: float = nan
    """99th percentile of these gaps."""
    gap_max_ns: float = nan
    """Greatest of these gaps."""
    excess_p50_ns: float = nan
    """Median of the gaps beyond the time between two packets."""
    excess_max_ns: float = nan
    """Greatest of the gaps beyond the time between two packets."""
    lost: int = 0
    """Packets lost from the event on."""
    lost_forward: int = 0
    """Of `lost`, packets towards the outside."""
    lost_back: int = 0
    """Of `lost`, packets towards the inside."""
    lost_before: int = 0
    """Packets lost before the event."""
    duplicated: int = 0
    """Copies that arrived in the affected seconds."""
    reordered: int = 0
    """Packets in the affected seconds after one with a higher sequence number (RFC 4737)."""
    glitch_ms: float = nan
    """``lost`` over the rate at which packets with speech were sent, as in Woernhard 2006."""
    streams: int = 0
    """Streams of speech (calls times directions) heard before the event."""
    alive: int = 0
    """Of `streams`, those heard in the last part of the trial."""
    dead: int = 0
    """Of `streams`, those not heard in the last part of the trial."""
    states_known: int = 0
    """Connection states of the master when admission was closed."""
    states_surviving: int = 0
    """Of `states_known`, those that the new master had after the trial."""
    states_new_master: int = 0
    """Connection states of the new master after the trial."""
    jitter_before_ns: float = nan
    """Median over the streams of their mean jitter (RFC 3550) before the event."""
    jitter_during_ns: float = nan
    """Median jitter of the streams from the event until a second after the last one was back."""
    jitter_after_ns: float = nan
    """Median jitter of the streams from then on."""
    jitter_during_max_ns: float = nan
    """Greatest jitter of a stream from the event until then."""
    mos_before: float = nan
    """Median MOS of the streams before the event, 1 to 4.5."""
    mos_affected: float = nan
    """Median MOS of the streams in the affected seconds."""
    mos_affected_min: float = nan
    """Least MOS of a stream in the affected seconds."""
    mos_affected_good: float = nan
    """Share of the streams with MOS 3.6 or better in the affected seconds, 0 to 1."""
    mos_after: float = nan
    """Median MOS of the streams after the switch."""
    before_from_ns: float = nan
    """Begin of the time before the event, which ends with it."""
    affected_to_ns: float = nan
    """End of the affected seconds, which begin with the event."""
    during_to_ns: float = nan
    """End of the time during the switch, which begins with the event."""
    after_to_ns: float = nan
    """End of the time after the switch, which begins with the end of `during`."""


def switch_row(
    pair: PairSpec,
    repetition: int,
    calls: int,
    record: TrialRecord,
    found: Occurrence,
    switch: SwitchMeasurement | None,
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
        "cut_off_ns": float(found.sudden_ns) if found.kind == "hard" and found.expected_s[0] else nan,
        "event_detail": json.dumps(dict(event.detail)),
        "expected_from_s": found.expected_s[0],
        "expected_to_s": found.expected_s[1],
        **{f"moved_{side}_ns": nan if (ns := found.moved_ns(side)) is None else ns for side in SIDES},
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


def _numbers(switch: SwitchMeasurement) -> dict[str, Any]:
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


def calls_frame(trial_id: str, switch: SwitchMeasurement) -> pl.DataFrame:
    """The table ``switch_calls`` of one switch: a row per call and direction."""
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
    whole = frame.fill_nan(None).with_columns(pl.col(counts).cast(pl.Int64))
    return whole.select(list(schema_of(SwitchCallRow)))


def series_frame(trial_id: str, switch: SwitchMeasurement) -> pl.DataFrame:
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
    shown = frame.fill_nan(None).filter(pl.col("start_ns") < ended)
    return shown.select(list(schema_of(SwitchSeriesRow)))
