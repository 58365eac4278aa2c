"""Switch after switch, each kept as soon as it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from weirlab.base.errors import LabError
from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.event import (
    CLOCKS,
    Occurrence,
    SwitchClocks,
    bring_about,
    expected_s,
    look_back,
)
from weirlab.calls.failover.switches.plan import (
    USUAL_TIMING,
    FailoverPlan,
    OpenPair,
    PairBed,
    PairLab,
    Timing,
)
from weirlab.calls.failover.switches.plan import expected_s as wall_s
from weirlab.calls.failover.switches.rows import (
    CALLS,
    SERIES,
    SWITCHES,
    SwitchRow,
    calls_frame,
    series_frame,
    switch_row,
)
from weirlab.calls.failover.switches.switch import SwitchMeasurement, examine
from weirlab.calls.failover.switches.validity import DEFAULT_SWITCH_LIMITS, SwitchLimits, judge_switch
from weirlab.lab.redundant.base import Firewall
from weirlab.measure.attempts import until_valid
from weirlab.measure.progress import OnProgress, ProgressMeter
from weirlab.measure.terms import SINGLE, TrialClocks
from weirlab.measure.trial import Hooks, TrialEntry, run_trial
from weirlab.quality.jitterbuffer import USUAL, Buffers
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import RunWriter
from weirlab.store.frames import frame_of
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.spec import Traffic

MAX_ATTEMPTS: Final = 4
_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True)
class SwitchConditions:
    """What all switches have in common."""

    calls: Calls
    traffic: Traffic
    connections: int
    """How many connections a firewall sees in the calls."""
    timing: Timing = USUAL_TIMING
    close_admission: bool = True
    """So that a stream goes on only if the new master knows its state."""
    buffers: Buffers = USUAL
    limits: SwitchLimits = DEFAULT_SWITCH_LIMITS
    max_attempts: int = MAX_ATTEMPTS


def measure(
    open_pair: OpenPair,
    switches: Sequence[FailoverPlan],
    conditions: SwitchConditions,
    writer: RunWriter,
    on_progress: OnProgress | None = None,
    *,
    clocks: SwitchClocks = CLOCKS,
) -> list[SwitchRow]:
    """Carry out ``switches`` in order, leaving out those with a valid attempt in the run; its attempts.

    Every attempt has a pair of its own, newly built, so that no connection state and no daemon's
    memory of an earlier switch is left. A switch that the host spoiled is repeated, and kept.

    Raises
    ------
    LabError
        A pair could not be built, never had one master and one backup, or a daemon died, in every
        attempt; switches that were finished are kept.
    FailedTrial
        Nothing arrived.
    """
    wall = (wall_s(planned, conditions.timing) for planned in switches)
    meter = ProgressMeter(wall, clocks.seconds, on_progress)
    one = _SwitchTrial(open_pair, conditions, writer, writer.run.rows(SwitchRow, SWITCHES), clocks)
    for planned in switches:
        if planned.index in writer.done:
            meter.skip()
            continue
        meter.tell(planned.text)
        attempt = partial(one.attempt, planned)
        meter.count(planned.text, until_valid(planned.text, conditions.max_attempts, attempt, meter.tell))
    return one.rows


@dataclass(frozen=True)
class _SwitchTrial:
    """Carries out one switch."""

    open_pair: OpenPair
    conditions: SwitchConditions
    writer: RunWriter
    rows: list[SwitchRow]
    """Every attempt of the run, in the order in which they were made."""
    clocks: SwitchClocks

    def attempt(self, planned: FailoverPlan) -> TrialRecord:
        """Build the pair, send, let it happen, and store the result."""
        conditions = self.conditions
        with self.open_pair(planned.pair) as lab:
            lab.pair.settle()
            if planned.kind == "return":
                self._take_over(lab)
            # A frame left over from loading the engine may have a state: it must not pass for a call's.
            lab.pair.clear_states()
            # A firewall that comes back and does not preempt stays backup; of a pair that Weir does not look
            # into, nobody knows who is master.
            moves = lab.looks_inside and (planned.kind != "return" or planned.pair.preempt)
            found = Occurrence(planned.kind, expected_s=expected_s(planned.kind, lab), moves=moves)
            bed = PairBed(lab)
            bed.during = bring_about(
                lab,
                found,
                conditions.connections,
                conditions.timing,
                close=conditions.close_admission,
                clock=self.clocks.ns,
                early_s=planned.early_s,
            )
            seen: list[SwitchMeasurement] = []

            def completed(record: TrialRecord) -> TrialRecord:
                look_back(lab, found)
                return self._judged(record, found, seen)

            def keep(record: TrialRecord) -> None:
                switch = seen[0] if seen else None
                calls = conditions.calls.count
                row = switch_row(planned.pair, planned.repetition, calls, record, found, switch)
                tables = {SWITCHES: frame_of(SwitchRow, [row])}
                if switch is not None:
                    tables[CALLS] = calls_frame(row.trial_id, switch)
                    tables[SERIES] = series_frame(row.trial_id, switch)
                self.writer.add(replace(record, tables=tables))
                self.rows.append(row)

            return run_trial(
                bed,
                TrialSpec(conditions.traffic, RuleSetup(stateful=True), planned.text),
                TrialEntry(
                    self.writer.run_id,
                    planned.index,
                    "calls",
                    self.writer.attempts.get(planned.index, 0) + 1,
                ),
                terms=replace(SINGLE, max_attempts=1, clocks=TrialClocks(now=self.clocks.now)),
                hooks=Hooks(completed=completed, on_record=keep),
                set_rules=False,
            )[-1]

    def _judged(self, record: TrialRecord, found: Occurrence, seen: list[SwitchMeasurement]) -> TrialRecord:
        """``record`` with what was heard in the affected seconds, and judged as a switch."""
        conditions, result = self.conditions, record.result
        # A CPU that moves changes delays by microseconds, which matters to a model and not to a gap.
        host = replace(record.host, handover_ns=None, handover_change=1.0)
        if result.received == 0 or result.packets is None:
            return replace(record, host=host, result=replace(result, packets=None))
        switch = examine(result, conditions.calls, found, conditions.timing, conditions.buffers)
        seen.append(switch)
        invalid = judge_switch(
            result, host, record.offered_pps, found, switch, conditions.timing, conditions.limits
        )
        return replace(
            record,
            host=host,
            result=replace(result, packets=None),
            calls=switch.heard.affected,
            invalid=invalid,
        )

    def _take_over(self, lab: PairLab) -> Firewall:
        """Cut the master off and wait until the other one has taken over: what a return begins with."""
        before = lab.pair.master()
        event = lab.pair.cut()
        latest_s = 2 * lab.expected_failover_s[1] + 5
        while (master := lab.pair.master()) in (before, None, "both"):
            if self.clocks.ns() - event.ended_ns > latest_s * NS_PER_S:
                raise LabError(
                    f"{latest_s:.3g} s after the master was cut off there is still no new one: a daemon of "
                    "the other firewall may have died, or does not hear that the advertisements have ended"
                )
            self.clocks.sleep(_LOOK_EVERY_S)
        assert master == "a" or master == "b"
        return master
