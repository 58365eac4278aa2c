"""One trial: set the rules, send, count, and judge whether the host left it alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from weirlab.base.errors import TrialError
from weirlab.base.interrupts import shielded
from weirlab.lab.base import AimingBed, SettlingBed, TestBed, WatchableBed
from weirlab.measure.terms import SINGLE, TrialTerms
from weirlab.measure.validity import sift
from weirlab.records import EngineResult, HostSample, TrialRecord, TrialSpec, device_in_words
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.load import offered_pps
from weirlab.traffic.spec import Rate, Traffic

LIGHT_SHARE: Final = 0.01
"""Share of its load with which a device is tried that forwarded nothing: one in user space may be so busy
receiving what it then drops that it forwards nothing (receive livelock: Mogul and Ramakrishnan, "Eliminating
receive livelock in an interrupt-driven kernel", 1997)."""
LIGHTEST_PPS: Final = 100.0
_LIGHT_S: Final = 0.2
_LIGHT_WARMUP_S: Final = 0.05

NO_DEVICE: Final = "none"
"""Name of the device in a test bed without one."""

_RANGES: Final = "198.18.0.0/16 to 198.19.0.0/16, or 2001:2:0:1::/64 to 2001:2:0:2::/64"

Role = Literal["profile", "verify", "single", "calibrate", "search", "calls"]


class FailedTrial(TrialError):
    """A trial without a usable attempt; ``records`` holds all that were made."""

    def __init__(self, message: str, records: list[TrialRecord]) -> None:
        super().__init__(message)
        self.records = records


@dataclass(frozen=True)
class TrialEntry:
    """Where a run keeps the attempts at a trial."""

    run_id: str
    index: int = 0
    role: Role = "single"
    first_attempt: int = 1
    """Number of the first attempt; above 1 if earlier ones are in the run already."""


@dataclass(frozen=True)
class Hooks:
    """Callbacks of a trial."""

    on_attempt: Callable[[int, TrialRecord | None], object] | None = None
    """Called before each attempt with its number and the attempt before it (None before the first)."""
    on_record: Callable[[TrialRecord], object] | None = None
    """Called with each attempt as soon as it is over, so that none is lost to an error or Ctrl-C."""
    completed: Callable[[TrialRecord], TrialRecord] | None = None
    """Called before ``on_record``; returns the attempt with the results computed from its packets."""


NOBODY: Final = Hooks()


def run_trial(
    bed: TestBed,
    spec: TrialSpec,
    entry: TrialEntry,
    *,
    terms: TrialTerms = SINGLE,
    hooks: Hooks = NOBODY,
    set_rules: bool = True,
    require_valid: bool = False,
) -> list[TrialRecord]:
    """Carry out ``spec``, and repeat it if the host disturbed it, at most as often as ``terms`` allow.

    If nothing arrives, twice if ``terms`` allow, a device that forwards packets at a lower load was
    overloaded: then the loss is the result.

    Parameters
    ----------
    set_rules:
        False if the device is known to be set up as ``spec`` says.
    require_valid:
        Whether to raise if no attempt was valid.

    Returns
    -------
    list of TrialRecord
        Every attempt in order. All but the last are invalid, and the last one too if
        none succeeded.

    Raises
    ------
    FailedTrial
        Nothing arrived in any attempt, nor at a lower load; or none was valid and ``require_valid`` is set.
    """
    if terms.attempts < 1:
        raise ValueError(f"max_attempts is {terms.attempts}, at least one attempt is needed")
    if set_rules:
        bed.set_rules(spec.rules)
    bed.set_cross_traffic(spec.cross_traffic)
    records: list[TrialRecord] = []
    works = functools.cache(lambda: _forwards_less(bed, spec.traffic))

    @shielded
    def keep(record: TrialRecord) -> TrialRecord:
        # An attempt and its rows in other tables are kept together or not at all.
        if hooks.completed is not None:
            record = hooks.completed(record)
        records.append(record)
        if hooks.on_record is not None:
            hooks.on_record(record)
        return record

    for attempt in range(entry.first_attempt, entry.first_attempt + terms.attempts):
        if hooks.on_attempt is not None:
            hooks.on_attempt(attempt, records[-1] if records else None)
        first = terms.attempts > 1 and attempt == entry.first_attempt
        record = keep(_attempt(bed, spec, entry, attempt, terms, None if first else works))
        if record.valid:
            return records
    dropping = isinstance(bed, AimingBed) and bed.drops
    if not dropping and all(record.result.sent > 0 and record.result.received == 0 for record in records):
        raise FailedTrial(_nothing_forwarded(records), records)
    if require_valid:
        raise FailedTrial(_never_valid(records), records)
    return records


def _attempt(
    bed: TestBed,
    spec: TrialSpec,
    entry: TrialEntry,
    attempt: int,
    terms: TrialTerms,
    works: Callable[[], bool] | None,
) -> TrialRecord:
    """One attempt; ``works`` tries whether the device forwards anything at a lower load, should nothing
    arrive."""
    if isinstance(bed, SettlingBed):
        bed.settle()
    started_at = terms.clocks.now().isoformat(timespec="milliseconds")
    offered = offered_pps(spec.traffic)
    # The most strictly judged reading is innermost: time stolen outside the trial must not count.
    counters_before = bed.counters()
    host_before = bed.host()
    result = bed.run(spec.traffic)
    host = _spent(host_before, bed.host())
    counters = _difference(counters_before, bed.counters())
    if isinstance(bed, WatchableBed) and (inside := bed.seen_inside()) is not None:
        host = replace(host, inside_ns=tuple(sample.taken_ns for sample in inside.samples))
    aiming = bed if isinstance(bed, AimingBed) else None
    drops = aiming is not None and aiming.drops
    sifted = sift(
        result,
        host,
        offered,
        terms.limits,
        counters=counters,
        regular=spec.traffic.arrivals == "constant",
        works=drops or (works is not None and result.sent > 0 and result.received == 0 and works()),
    )
    return TrialRecord(
        trial_id=f"{entry.run_id}-{entry.index:04d}-{attempt}",
        run_id=entry.run_id,
        index=entry.index,
        attempt=attempt,
        started_at=started_at,
        spec=spec if aiming is None else replace(spec, traffic=aiming.as_sent(spec.traffic)),
        lab=bed.lab,
        dut=bed.dut,
        offered_pps=offered,
        result=sifted.result,
        host=host,
        dut_counters=counters,
        invalid=sifted.invalid,
        disturbed=sifted.disturbed,
        role=entry.role,
        rules_met=None if aiming is None else aiming.rules_met(counters, result.sent + result.sent_warmup),
        dropped_pps=None if aiming is None else _dropped_pps(aiming, counters, result),
    )


def _dropped_pps(bed: AimingBed, counters: Mapping[str, int], result: EngineResult) -> float | None:
    """The rate at which the rule dropped packets that they were to meet."""
    dropped, sent = bed.dropped(counters), result.sent + result.sent_warmup
    return None if dropped is None or not sent else min(dropped / sent, 1.0) * result.achieved_pps


def _forwards_less(bed: TestBed, traffic: Traffic) -> bool:
    """Whether anything arrives of a much lower load; False if there is none."""
    lighter = _lighter(traffic)
    if lighter is None:
        return False
    if isinstance(bed, SettlingBed):
        bed.settle()
    return bed.run(lighter).received > 0


def _lighter(traffic: Traffic) -> Traffic | None:
    """Traffic like this with a small share of its load, None if it is small already."""
    if (calls := traffic.calls) is not None:
        fewer = max(len(calls.classes), round(LIGHT_SHARE * calls.count))
        if fewer >= calls.count:
            return None
        return traffic_of(replace(calls, count=fewer, arrivals="standing"), _LIGHT_S, _LIGHT_WARMUP_S)
    offered = offered_pps(traffic)
    pps = max(LIGHTEST_PPS, LIGHT_SHARE * min(offered, 1e5))
    if pps >= offered:
        return None
    return replace(
        traffic,
        rate=Rate(pps),
        steps=(),
        arrivals="constant",
        warmup_s=_LIGHT_WARMUP_S,
        duration_s=_LIGHT_S,
        bin_ns=None,
    )


def _spent(before: HostSample, after: HostSample) -> HostSample:
    """What accrued between two cumulative readings; momentary values are those of ``after``."""
    return HostSample(
        wall_s=after.wall_s - before.wall_s,
        cpu_s={
            role: {
                # A wait that is left out of the idle time may be longer than that, by ticks.
                state: round(max(seconds - before.cpu_s.get(role, {}).get(state, 0.0), 0.0), 6)
                for state, seconds in states.items()
            }
            for role, states in after.cpu_s.items()
        },
        frequency_mhz=after.frequency_mhz,
        temperature_c=after.temperature_c,
        memory_used_bytes=after.memory_used_bytes,
        softnet_dropped=after.softnet_dropped - before.softnet_dropped,
        softnet_squeezed=after.softnet_squeezed - before.softnet_squeezed,
        dut_wait_s=_more(before.dut_wait_s, after.dut_wait_s),
        management_s=_more(before.management_s, after.management_s),
        **_handover(before.handover_ns, after.handover_ns),
    )


def _more(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _handover(before: float | None, after: float | None) -> dict[str, Any]:
    if not before or not after:
        return {}
    low, high = sorted((before, after))
    return {"handover_ns": math.sqrt(low * high), "handover_change": high / low}


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}


def _nothing_forwarded(records: list[TrialRecord]) -> str:
    last = records[-1]
    rules = last.spec.rules
    sent = sum(record.result.sent for record in records)
    counters = last.dut_counters
    telling = {name: n for name, n in counters.items() if n or name in ("in_rx_packets", "out_tx_packets")}
    shown = ", ".join(f"{name} {value}" for name, value in telling.items()) or "none available"
    device = "the cable (no device in between)" if last.dut == NO_DEVICE else device_in_words(last.dut)
    return (
        f"{device} forwards nothing: 0 of {sent:,} frames arrived in {_attempts(records)} "
        f"(matching position {rules.position}{', stateful' if rules.stateful else ''}); "
        f"counters of the last one: {shown}; {_what_to_check(counters, last.result)}"
    )


def _what_to_check(counters: Mapping[str, int], result: EngineResult) -> str:
    """What to check depends on where most of the frames were seen last."""
    most = (result.sent + result.sent_warmup) / 2
    if counters.get("in_rx_packets", most) + counters.get("in_rx_dropped", 0) < most:
        return "frames do not reach the device: check the link from the sender and that nothing filters there"
    if counters.get("ip_no_route", 0) > most:
        return "the device has no route to the receiver: check its routing table"
    if counters.get("filter_dropped", 0) > most:
        return f"the filter drops them: check that a rule accepts the test traffic ({_RANGES})"
    if counters.get("out_tx_packets", most) < most:
        return (
            f"the device lets nothing out: check that a rule accepts the test traffic ({_RANGES}), and that "
            "forwarding is on and a route leads to the receiver"
        )
    if "out_tx_packets" not in counters:
        return (
            "where they get lost is not known, since the device's own counters are not: it may be overloaded "
            f"for longer than a trial, its rules may drop the test traffic ({_RANGES}), or a link may be "
            "broken; try a lower load"
        )
    return (
        "frames get lost behind the device: check the link to the receiver; 'weir doctor' tests this machine"
    )


def _never_valid(records: list[TrialRecord]) -> str:
    reasons = "; ".join(records[-1].invalid)
    return (
        f"trial {records[-1].index} stayed invalid in {_attempts(records)}, "
        f"the last one because of: {reasons}; "
        "lower the load, make the trial longer, or stop other work on the machine; the attempts are kept"
    )


def _attempts(records: list[TrialRecord]) -> str:
    return f"{len(records)} attempts" if len(records) > 1 else "1 attempt"
