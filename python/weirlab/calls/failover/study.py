"""What a failover does to ongoing calls: from a scenario to a stored run with conclusions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from weirlab.base.documents import plain
from weirlab.base.errors import InputError, MissingCapability, TrialError
from weirlab.base.interrupts import owned, shielded
from weirlab.base.quantities import percent
from weirlab.calls.failover import lab
from weirlab.calls.failover.external import ExternalPair
from weirlab.calls.failover.lab import compiled
from weirlab.calls.failover.section import MOST_CALLS, FailoverScenario
from weirlab.calls.failover.switches.campaign import SwitchConditions, measure
from weirlab.calls.failover.switches.compare import SwitchGroup, compare, conclusions
from weirlab.calls.failover.switches.event import CLOCKS, SwitchClocks
from weirlab.calls.failover.switches.load import USUAL_SHARE, CallDemand, CommonLoad, find_load
from weirlab.calls.failover.switches.plan import FailoverPlan, OpenPair, PairSpec, Timing, estimate_s, plan
from weirlab.calls.failover.switches.rows import (
    CALLS,
    SERIES,
    SWITCHES,
    SwitchCallRow,
    SwitchRow,
    SwitchSeriesRow,
)
from weirlab.calls.failover.switches.validity import SwitchLimits
from weirlab.cli.quantities import clock, plural
from weirlab.jobs import spoiled, testbeds
from weirlab.jobs.progress import RESUME, Progress, passed_on
from weirlab.jobs.work import Work
from weirlab.lab.crossing import ends_of
from weirlab.lab.finding import Finding
from weirlab.publications import publication
from weirlab.store import Run, RunWriter
from weirlab.studies.contract import Ground, Outcome, Study, Summary
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
    from weirlab.report.story import Story

KIND: Final = "failover"
LOAD: Final = "load"
"""Name under which a run keeps what the pairs carry."""
RESULT: Final = "result"

_LOAD_S: Final = 8.0
"""Time to see that a pair carries the calls, in addition to its timers and the trials themselves."""


@dataclass(frozen=True)
class FailoverFindings:
    """Every switch of a run, and what they show."""

    load: CommonLoad
    planned: int
    rows: tuple[SwitchRow, ...]
    """Every attempt."""
    groups: tuple[SwitchGroup, ...]
    missing: tuple[str, ...]
    """Switches without a valid attempt."""
    elapsed_s: float

    @property
    def conclusions(self) -> tuple[str, ...]:
        """A sentence per pair and kind of event."""
        return tuple(conclusions(self.groups))

    def kept(self) -> dict[str, Any]:
        """What the run stores of it besides its tables."""
        return {
            "groups": self.groups,
            "conclusions": self.conclusions,
            "missing": self.missing,
        }

    def document(self) -> dict[str, Any]:
        return {
            "load": plain(self.load),
            "planned": self.planned,
            "elapsed_s": self.elapsed_s,
            **self.kept(),
            "switches": self.rows,
        }

    def problem(self, run: Run) -> TrialError | None:
        """The error to report if the host spoiled every attempt at a switch."""
        return spoiled.without_valid(run, "switches", self.missing, self.planned, self.rows, SWITCHES)


@dataclass(frozen=True)
class Pairs:
    """What is switched, and with which traffic."""

    pairs: tuple[PairSpec, ...]
    traffic: Callable[[int, float], Traffic]
    opener: OpenPair


def kept(run: Run) -> tuple[SwitchRow, ...]:
    """Every attempt that ``run`` stores."""
    return tuple(run.rows(SwitchRow, SWITCHES))


def _load(writer: RunWriter, scenario: FailoverScenario, bed: Pairs, progress: Progress) -> CommonLoad:
    """The load that all pairs carry without loss: searched for, or stored in a resumed run."""
    what, count = scenario.failover, scenario.calls.count
    if writer.has(LOAD):
        return writer.run.get_json(LOAD, CommonLoad)

    wanted = MOST_CALLS if count is None else count
    share = USUAL_SHARE if count is None else None
    asked = CallDemand(wanted, lambda calls: bed.traffic(calls, what.load_s), share)
    if not what.find_load:
        load = CommonLoad(wanted, wanted, asked.offered_pps(wanted), searched=False)
    else:
        tell = partial(progress.advance, 0, 1)
        load = find_load(bed.opener, bed.pairs, asked, writer, tell)
    writer.put_json(LOAD, load)
    progress.note(load_text(load))
    return load


def load_text(load: CommonLoad) -> str:
    """The load under which the pairs are switched, and why."""
    rate = f"{load.calls:,} calls, {load.offered_pps:,.0f} packets per second"
    published_pps = publication("woernhard-2006").experiments["failover-soft"].settings["pps"]
    beyond = "" if load.offered_pps >= published_pps else f" (fewer than the published {published_pps:,})"
    if not load.searched:
        return f"load: {rate}{beyond}, whether the pairs carry it or not"
    if load.share is not None and load.carried is not None:
        carries = f"that {load.limited_by or 'every pair'} carries without loss"
        why = f" (with more: {load.why})" if load.why else ""
        return f"load: {rate}{beyond}, {percent(load.share)} of the {load.carried:,} calls {carries}{why}"
    most = "the most"
    if load.carried is not None:
        most = f"{percent(load.calls / load.carried)} of the {load.carried:,} calls"
    if load.by_host:
        return (
            f"load: {rate}{beyond}, {most} that could be sent undisturbed on this machine, not the most "
            f"that {load.limited_by} carries: with more no packet was lost, but {load.why}; "
            f"{load.wanted_calls:,} calls were wanted"
        )
    if load.reduced:
        return (
            f"load: {rate}{beyond}, {most} that {load.limited_by} carries without loss on this machine "
            f"(with more: {load.why}); {load.wanted_calls:,} calls were wanted"
        )
    return f"load: {rate}{beyond}, which every pair carries without loss"


def _plan(scenario: FailoverScenario, pairs: tuple[PairSpec, ...]) -> tuple[FailoverPlan, ...]:
    what = scenario.failover
    return plan(pairs, what.kinds, what.repetitions, what.seed)


def _expected_s(scenario: FailoverScenario, switches: Iterable[FailoverPlan], *, finds_load: bool) -> float:
    """Wall time in s of ``switches`` when none has to be repeated, and of the search for the load."""
    load_s = sum(
        _LOAD_S + 2 * scenario.failover.load_s + pair.protocol.expected_failover_s[1]
        for pair in _pairs(scenario)
        if finds_load
    )
    return estimate_s(switches, timing_of(scenario)) + load_s


def _concluded(
    load: CommonLoad, switches: tuple[FailoverPlan, ...], rows: tuple[SwitchRow, ...], elapsed_s: float
) -> FailoverFindings:
    valid = {row.index for row in rows if row.valid}
    missing = tuple(planned.text for planned in switches if planned.index not in valid)
    return FailoverFindings(load, len(switches), rows, compare(rows), missing, elapsed_s)


def timing_of(scenario: FailoverScenario) -> Timing:
    """The course of a trial."""
    what = scenario.failover
    return Timing(what.warmup_s, what.event_s, what.after_s, what.affected_s)


def _of_one_pair(fact: str) -> bool:
    """Whether this fact of a lab is about its pair alone, not about all pairs of a run."""
    return fact == "nat" or fact.startswith(("protocol_", "states_"))


def _tools(pairs: tuple[PairSpec, ...]) -> dict[str, str]:
    """Versions of the daemons, by their names."""
    built = [pair for pair in pairs if not isinstance(pair.protocol, ExternalPair)]
    found = {pair.protocol.name: pair.protocol.facts() for pair in built}
    if on := [pair.states for pair in built if pair.sharing != "off"]:
        found["conntrackd"] = on[0].facts()
    return {name: str(facts["tool"]) for name, facts in found.items()}


def _pairs(scenario: FailoverScenario) -> tuple[PairSpec, ...]:
    return tuple(
        PairSpec(section.addresses(), section.sharing(), section.nat, section.name or "")
        for section in scenario.failover.pairs
    )


def checked(scenario: FailoverScenario) -> tuple[tuple[PairSpec, ...], Callable[[int, float], Traffic]]:
    """Pairs and traffic; raises, before anything is built, if they are impossible."""
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
                f"two pairs are both called {text!r}: the name does not show how their settings differ; "
                "give each a 'name'"
            )

    def traffic(calls: int, duration_s: float) -> Traffic:
        return traffic_of(scenario.calls.calls(calls), duration_s, scenario.failover.warmup_s)

    compiled(traffic(scenario.calls.count or MOST_CALLS, max(scenario.failover.load_s, timing.duration_s)))
    return pairs, traffic


def connections(traffic: Traffic) -> int:
    """How many connections a firewall sees in the calls of ``traffic``, speech alone."""
    plan = compiled(traffic)
    assert plan.media is not None
    # What comes back belongs to the connection that it answers.
    speech = np.flatnonzero(plan.media.flows.carries_media & ~plan.media.flows.back)
    return len(set(ends_of(plan.flows, speech, plan.ip)))


@contextmanager
@shielded
def _external(scenario: FailoverScenario, pair: ExternalPair, progress: Progress) -> Iterator[OpenPair]:
    """Switches the user's own pair; its test bed is open for the duration of the block."""
    from weirlab.calls.failover.external import ExternalLab
    from weirlab.lab.wired.bed import WiredBed
    from weirlab.scenario import BLACK_BOX, Dut

    if lacking := pair.check():
        raise MissingCapability("; ".join(lacking))
    if scenario.lab.senders > 1:
        raise InputError(testbeds.ONE_SENDER)
    with testbeds.open_wired(scenario.lab, Dut(name=BLACK_BOX), progress, 4) as bed:
        assert isinstance(bed, WiredBed)
        yield lambda _: ExternalLab(bed, pair)


def _opener(scenario: FailoverScenario, pairs: tuple[PairSpec, ...]) -> OpenPair:
    """Builds pairs in network namespaces; raises ``MissingCapability`` naming what is missing."""
    from weirlab.calls.failover.lab import RedundantLab
    from weirlab.lab.doctor import need_namespaces

    need_namespaces("a redundant pair needs")
    lacking = [text for pair in pairs for text in (*pair.protocol.check(), *pair.states.check())]
    if lacking:
        raise MissingCapability("; ".join(dict.fromkeys(lacking)))

    def open_pair(pair: PairSpec) -> AbstractContextManager[RedundantLab]:
        protocol = pair.protocol
        assert not isinstance(protocol, ExternalPair)
        return owned(lambda: RedundantLab(protocol, pair.states, pair.nat, scenario.lab.backend))

    return open_pair


class FailoverStudy(Study[FailoverScenario, Ground[Pairs], FailoverFindings]):
    """Redundant pairs, switched while calls pass; ``open_pair`` builds one, by default in namespaces."""

    key = "failover"
    title = "redundant pairs: protocols, timers and states compared"

    def __init__(self, open_pair: OpenPair | None = None, *, clocks: SwitchClocks = CLOCKS) -> None:
        self._open_pair, self._clocks = open_pair, clocks

    def scenario(self) -> type[FailoverScenario]:
        return FailoverScenario

    def checks(self) -> Sequence[Finding]:
        return (lab.finding(),)

    def check(self, asked: FailoverScenario, work: Work) -> None:
        checked(asked)

    @contextmanager
    @shielded
    def open(self, asked: FailoverScenario, work: Work) -> Iterator[Ground[Pairs]]:
        """The pairs of ``asked``; each is built anew for each attempt."""
        pairs, traffic = checked(asked)
        protocol = pairs[0].protocol
        with ExitStack() as opened:
            if self._open_pair is None and isinstance(protocol, ExternalPair):
                opener = opened.enter_context(_external(asked, protocol, work.progress))
            else:
                opener = self._open_pair or _opener(asked, pairs)
            testbeds.tell_if_busy("redundant", work.progress)
            facts: dict[str, Any] = {}
            if work.begun is None:
                with opener(pairs[0]) as lab:  # What cannot be built leaves no run behind.
                    common = {name: value for name, value in lab.facts.items() if not _of_one_pair(name)}
                    facts = {"lab": lab.lab, "dut": KIND, "backend": lab.backend, **common}
                facts |= {"pairs": plain(pairs), **_tools(pairs)}
            yield Ground(Pairs(pairs, traffic, opener), facts)

    def measure(
        self, ground: Ground[Pairs], asked: FailoverScenario, writer: RunWriter, work: Work
    ) -> FailoverFindings:
        """Find the load that all pairs carry, then make every switch that the run does not have yet."""
        progress = work.progress
        what, timing = asked.failover, timing_of(asked)
        pairs, traffic, opener = ground.bed.pairs, ground.bed.traffic, ground.bed.opener
        switches = _plan(asked, pairs)
        left = (planned for planned in switches if planned.index not in writer.done)
        expected_s = _expected_s(asked, left, finds_load=what.find_load and not writer.has(LOAD))
        progress.stage(
            f"{plural(len(switches), 'switch', 'switches')} of {plural(len(pairs), 'pair')}, "
            f"{plural(what.repetitions, 'run')} each, about {expected_s / 60:.0f} min, "
            f"run {writer.run_id}"
        )
        load = _load(writer, asked, ground.bed, progress)
        of_switches = traffic(load.calls, timing.duration_s)
        conditions = SwitchConditions(
            calls=asked.calls.calls(load.calls),
            traffic=of_switches,
            connections=connections(of_switches),
            timing=timing,
            close_admission=what.close_admission,
            limits=SwitchLimits(cut_ratio=what.cut_ratio),
            max_attempts=what.max_attempts,
        )
        begun_s = self._clocks.seconds()
        rows = measure(opener, switches, conditions, writer, passed_on(progress), clocks=self._clocks)
        found = _concluded(load, switches, tuple(rows), self._clocks.seconds() - begun_s)
        writer.put_json(RESULT, found.kept())
        return found

    def expected_s(self, asked: FailoverScenario) -> float:
        return _expected_s(asked, _plan(asked, _pairs(asked)), finds_load=asked.failover.find_load)

    def summarize(self, outcome: Outcome[FailoverFindings]) -> Summary:
        """A sentence per pair and kind of event, then the load, the run and its report."""
        from weirlab.calls.failover import tables

        found = outcome.found
        lines = [*found.conclusions] or ["No switch was measured."]
        attempts, valid = len(found.rows), sum(row.valid for row in found.rows)
        spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
        took = f" in {clock(found.elapsed_s)}" if found.elapsed_s else ""
        report = "" if outcome.report is None else f" Report: {outcome.report.path}"
        load = load_text(found.load)
        lines.append(f"{load[0].upper()}{load[1:]}.")
        lines.append(
            f"Run {outcome.run.run_id}: {valid} of {found.planned} switches measured{took}{spoiled}.{report}"
        )
        return Summary("\n".join(lines), tables.compared(found.groups))

    def headlines(self, run: Run) -> Sequence[str]:
        return tuple(conclusions(compare(kept(run))))

    def page(self, run: Run) -> Story:
        from weirlab.calls.failover.page import tell
        from weirlab.calls.failover.tables import SwitchRun

        if not run.has_table(SWITCHES):
            raise InputError(
                f"run {run.run_id} was interrupted before its first switch: go on with {RESUME} {run.run_id}"
            )
        return tell(
            SwitchRun(
                manifest=vars(run.manifest),
                rows=kept(run),
                calls=run.table(CALLS, SwitchCallRow) if run.has_table(CALLS) else pl.DataFrame(),
                series=run.table(SERIES, SwitchSeriesRow) if run.has_table(SERIES) else pl.DataFrame(),
                load=run.get_json(LOAD, CommonLoad) if run.has(LOAD) else None,
            )
        )
