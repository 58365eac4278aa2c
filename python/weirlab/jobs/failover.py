"""What a failover does to ongoing calls: from a scenario to a kept run with conclusions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from weirlab.errors import InputError, MissingCapability, TrialError
from weirlab.interrupts import owned
from weirlab.jobs import testbeds
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import RESUME, Progress, kept, passed_on
from weirlab.jobs.reports import ReportOutcome, at_the_end, foresee
from weirlab.measure.failover import (
    SWITCHES,
    Campaign,
    Conditions,
    Group,
    Load,
    OpenPair,
    Pair,
    Planned,
    SwitchLimits,
    SwitchRow,
    Timing,
    compare,
    conclusions,
    estimate_s,
    find_load,
    measure,
    plan,
    rows_of,
)
from weirlab.measure.failover.event import Clock, Sleep
from weirlab.scenario.failover import FailoverScenario
from weirlab.store import Run, RunWriter, Store
from weirlab.traffic.load import offered_pps
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Traffic

KIND: Final = "failover"
LOAD: Final = "load"
"""Name under which a run keeps what the pairs carry."""
RESULT: Final = "result"

PUBLISHED_PPS: Final = 81_600
"""The load of the published measurement."""

_LOAD_S: Final = 8.0
"""What it takes to see that a pair carries the calls, beside its timers and the trials' own time."""


@dataclass(frozen=True)
class FailoverOutcome:
    """Every switch of a run, and what they show."""

    run: Run
    load: Load
    planned: int
    rows: tuple[SwitchRow, ...]
    """Every attempt."""
    groups: tuple[Group, ...]
    missing: tuple[str, ...]
    """Switches without a valid attempt."""
    elapsed_s: float
    report: ReportOutcome | None = None

    @property
    def conclusions(self) -> tuple[str, ...]:
        """A sentence per pair and kind of event."""
        return tuple(conclusions(self.groups))

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "kind": KIND,
            "run_id": self.run.run_id,
            "path": self.run.path,
            "load": self.load.to_json(),
            "planned": self.planned,
            "missing": self.missing,
            "elapsed_s": self.elapsed_s,
            "groups": [group.to_json() for group in self.groups],
            "conclusions": self.conclusions,
            "switches": [asdict(row) for row in self.rows],
            "report": None if self.report is None else self.report.document(),
        }

    def problem(self) -> TrialError | None:
        """The error that it is when the host spoiled every attempt at a switch."""
        if not self.missing:
            return None
        shown = ", ".join(self.missing[:5]) + (", ..." if len(self.missing) > 5 else "")
        why = next((row.invalid for row in reversed(self.rows) if not row.valid), "the pair failed")
        return TrialError(
            f"{len(self.missing)} of {self.planned} switches stayed without a valid attempt ({shown}), the "
            f"last one because of: {why}; all reasons are in the table "
            f"'switches' of run {self.run.run_id}; try them again on a quieter machine with: "
            f"weir run --resume {self.run.run_id}"
        )


def run(
    store: Store,
    scenario: FailoverScenario,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    command: str = "",
    open_pair: OpenPair | None = None,
    clock: Clock = time.monotonic_ns,
    sleep: Sleep = time.sleep,
) -> FailoverOutcome:
    """Measure every switch that ``scenario`` asks for.

    ``out`` and ``plots`` go before what the scenario says about the report; ``open_pair`` builds a
    pair, by default in network namespaces.

    Raises
    ------
    InputError
        Calls that cannot be made, or a trial that ends before a pair can have switched.
    MissingCapability
        No network namespaces here, a daemon is not installed, or what draws the report.
    LabError
        A pair never had one master and one backup.
    """
    pairs, traffic = _checked(scenario)
    foresee(out, plots, scenario.report)
    opener = open_pair or _opener(scenario, pairs)
    testbeds.tell_if_busy("redundant", progress)
    with opener(pairs[0]) as lab:  # What cannot be built leaves no run behind.
        common = {name: value for name, value in lab.facts.items() if not _of_one_pair(name)}
        facts = {"lab": lab.lab, "dut": KIND, "backend": lab.backend, **common}
    facts |= {"pairs": [pair.to_json() for pair in pairs], "command": command, **_tools(pairs)}
    content = scenario.model_dump(mode="json")
    return _measured(
        lambda: store.create(KIND, content, facts),
        scenario,
        pairs,
        traffic,
        opener,
        progress,
        out,
        plots,
        clock,
        sleep,
    )


def resume(
    store: Store,
    run_id: str,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    open_pair: OpenPair | None = None,
    clock: Clock = time.monotonic_ns,
    sleep: Sleep = time.sleep,
) -> FailoverOutcome:
    """Go on with an interrupted run: switches that have a valid attempt are not repeated."""
    found = store.open(run_id, kind=KIND)
    scenario = scenario_of(found, FailoverScenario)
    pairs, traffic = _checked(scenario)
    foresee(out, plots, scenario.report)
    opener = open_pair or _opener(scenario, pairs)
    testbeds.tell_if_busy("redundant", progress)
    return _measured(
        lambda: store.resume(found.run_id),
        scenario,
        pairs,
        traffic,
        opener,
        progress,
        out,
        plots,
        clock,
        sleep,
    )


def outcome_of(run: Run) -> FailoverOutcome:
    """What a run holds, measured earlier or still under way."""
    rows = tuple(rows_of(run.table(SWITCHES))) if run.has_table(SWITCHES) else ()
    load = run.get_json(LOAD, Load.from_json)
    scenario = scenario_of(run, FailoverScenario)
    switches = _plan(scenario, _pairs(scenario))
    return _concluded(run, load, switches, rows, 0.0)


def _measured(
    begin: Callable[[], RunWriter],
    scenario: FailoverScenario,
    pairs: tuple[Pair, ...],
    traffic: Callable[[int, float], Traffic],
    opener: OpenPair,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
    clock: Clock,
    sleep: Sleep,
) -> FailoverOutcome:
    what, timing = scenario.failover, timing_of(scenario)
    switches = _plan(scenario, pairs)
    with kept(begin, RESUME) as writer:
        expected_s = estimate_s((p for p in switches if p.index not in writer.done), timing)
        if what.find_load and not writer.has(LOAD):
            expected_s += sum(
                _LOAD_S + 2 * what.load_s + pair.protocol.expected_failover_s[1] for pair in pairs
            )
        progress.stage(
            f"{_counted(len(switches), 'switch', 'switches')} of {_counted(len(pairs), 'pair', 'pairs')}, "
            f"{_counted(what.repetitions, 'run', 'runs')} each, about {expected_s / 60:.0f} min, "
            f"run {writer.run_id}"
        )
        load = _load(writer, scenario, pairs, traffic, opener, progress)
        of_switches = traffic(load.calls, timing.duration_s)
        conditions = Conditions(
            calls=scenario.calls.calls(load.calls),
            traffic=of_switches,
            connections=_connections(of_switches),
            timing=timing,
            close_admission=what.close_admission,
            limits=SwitchLimits(cut_ratio=what.cut_ratio),
            max_attempts=what.max_attempts,
        )
        campaign = measure(
            opener, switches, conditions, writer, passed_on(progress), clock=clock, sleep=sleep
        )
        outcome = _concluded(writer.run, load, switches, campaign.rows, campaign.elapsed_s)
        writer.put_json(
            RESULT,
            {
                "groups": [group.to_json() for group in outcome.groups],
                "conclusions": outcome.conclusions,
                "missing": outcome.missing,
            },
        )
    return _reported(outcome, scenario, campaign, progress, out, plots)


def _counted(n: int, one: str, several: str) -> str:
    return f"{n} {one if n == 1 else several}"


def _reported(
    outcome: FailoverOutcome,
    scenario: FailoverScenario,
    campaign: Campaign,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
) -> FailoverOutcome:
    trials = len(campaign.rows)
    report = at_the_end(outcome.run, scenario.report, trials, progress, out, plots)
    return replace(outcome, report=report)


def _load(
    writer: RunWriter,
    scenario: FailoverScenario,
    pairs: tuple[Pair, ...],
    traffic: Callable[[int, float], Traffic],
    opener: OpenPair,
    progress: Progress,
) -> Load:
    """What all pairs carry without loss, found or, in a resumed run, remembered."""
    what, wanted = scenario.failover, scenario.calls.count
    if writer.has(LOAD):
        return writer.run.get_json(LOAD, Load.from_json)

    def of(calls: int) -> Traffic:
        return traffic(calls, what.load_s)

    if not what.find_load:
        load = Load(wanted, wanted, offered_pps(of(wanted)), searched=False)
    else:
        load = find_load(
            opener, pairs, wanted, of, offered_pps, writer, lambda text: progress.advance(0, 1, text)
        )
    writer.put_json(LOAD, load.to_json())
    progress.note(load_text(load))
    return load


def load_text(load: Load) -> str:
    """Under which load the pairs are switched, and why."""
    rate = f"{load.calls:,} calls, {load.offered_pps:,.0f} packets per second"
    beyond = "" if load.offered_pps >= PUBLISHED_PPS else f" (fewer than the published {PUBLISHED_PPS:,})"
    if not load.searched:
        return f"load: {rate}{beyond}, whether the pairs carry it or not"
    if load.by_host:
        return (
            f"load: {rate}{beyond}, the most that could be sent undisturbed on this machine, not the most "
            f"that {load.limited_by} carries: with more no packet was lost, but {load.why}; "
            f"{load.wanted_calls:,} calls were wanted"
        )
    if load.reduced:
        return (
            f"load: {rate}{beyond}, the most that {load.limited_by} carries without loss on this machine "
            f"(with more: {load.why}); {load.wanted_calls:,} calls were wanted"
        )
    return f"load: {rate}{beyond}, which every pair carries without loss"


def _plan(scenario: FailoverScenario, pairs: tuple[Pair, ...]) -> tuple[Planned, ...]:
    what = scenario.failover
    return plan(pairs, what.kinds, what.repetitions, what.seed)


def _concluded(
    run: Run, load: Load, switches: tuple[Planned, ...], rows: tuple[SwitchRow, ...], elapsed_s: float
) -> FailoverOutcome:
    valid = {row.index for row in rows if row.valid}
    missing = tuple(planned.text for planned in switches if planned.index not in valid)
    return FailoverOutcome(run, load, len(switches), rows, compare(rows), missing, elapsed_s)


def timing_of(scenario: FailoverScenario) -> Timing:
    """The course of a trial."""
    what = scenario.failover
    return Timing(what.warmup_s, what.event_s, what.after_s, what.affected_s)


def _of_one_pair(fact: str) -> bool:
    """Is that fact of a lab about the pair in it, and so not about the others of a run?"""
    return fact == "nat" or fact.startswith(("protocol_", "states_"))


def _tools(pairs: tuple[Pair, ...]) -> dict[str, str]:
    """Versions of the daemons, by their names."""
    found = {pair.protocol.name: pair.protocol.facts() for pair in pairs}
    if on := [pair.states for pair in pairs if pair.sharing != "off"]:
        found["conntrackd"] = on[0].facts()
    return {name: str(facts["tool"]) for name, facts in found.items()}


def _pairs(scenario: FailoverScenario) -> tuple[Pair, ...]:
    return tuple(
        Pair(section.addresses(), section.sharing(), section.nat, section.name or "")
        for section in scenario.failover.pairs
    )


def _checked(scenario: FailoverScenario) -> tuple[tuple[Pair, ...], Callable[[int, float], Traffic]]:
    """Pairs and traffic, refused before anything is built where they cannot be."""
    from weirlab.traffic.calls.schedule import traffic_of

    timing, pairs = timing_of(scenario), _pairs(scenario)
    for pair in pairs:
        latest_s = pair.protocol.expected_failover_s[1]
        if "return" in scenario.failover.kinds and pair.preempt:
            latest_s = max(latest_s, pair.protocol.patience_s)
        timing.check(latest_s, pair.text)
    texts = [pair.text for pair in pairs]
    for text in texts:
        if texts.count(text) > 1:
            raise InputError(
                f"two pairs are both called {text!r}: their settings differ in what the name does not tell; "
                "give each a 'name'"
            )

    def traffic(calls: int, duration_s: float) -> Traffic:
        return traffic_of(scenario.calls.calls(calls), duration_s, scenario.failover.warmup_s)

    compile_plan(traffic(scenario.calls.count, max(scenario.failover.load_s, timing.duration_s)))
    return pairs, traffic


def _connections(traffic: Traffic) -> int:
    """How many connections the calls of ``traffic`` are to a firewall, speech alone."""
    media = compile_plan(traffic).media
    assert media is not None
    return len(np.unique(media.flows.call[media.flows.carries_media]))


def _opener(scenario: FailoverScenario, pairs: tuple[Pair, ...]) -> OpenPair:
    """Builds pairs in network namespaces; raises ``MissingCapability`` naming what is not there."""
    from weirlab.lab.doctor import missing_for_namespaces
    from weirlab.lab.redundant import RedundantLab

    if (missing := missing_for_namespaces()) is not None:
        raise MissingCapability(
            f"a redundant pair needs network namespaces, which do not work here ({missing}): run as root "
            "(sudo); weir doctor says more"
        )
    lacking = [text for pair in pairs for text in (*pair.protocol.check(), *pair.states.check())]
    if lacking:
        raise MissingCapability("; ".join(dict.fromkeys(lacking)))

    def open_pair(pair: Pair) -> AbstractContextManager[RedundantLab]:
        return owned(lambda: RedundantLab(pair.protocol, pair.states, pair.nat, scenario.lab.backend))

    return open_pair
