"""What a link monitor records and what it costs: from a scenario to a kept run with conclusions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from weirlab.errors import MissingCapability, TrialError
from weirlab.interrupts import owned
from weirlab.jobs import testbeds
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.monitor_asked import checked, common_settings, methods_of
from weirlab.jobs.progress import RESUME, Progress, kept, passed_on
from weirlab.jobs.reports import ReportOutcome, at_the_end, foresee
from weirlab.lab.monitor import Method, Settings
from weirlab.measure.monitor import (
    TRIALS,
    Carrier,
    Cost,
    Found,
    Goal,
    Group,
    MonitorRow,
    OpenLab,
    Planned,
    StallEffect,
    Tables,
    compare,
    conclusions,
    costs,
    estimate_s,
    measure,
    rows_of,
    search,
    stalls,
)
from weirlab.report.monitor import Evidence
from weirlab.scenario.monitor import Monitor, MonitorScenario
from weirlab.store import Run, RunWriter, Store

KIND: Final = "monitor"
SEARCH: Final = "search"
"""Name under which a run keeps what its searches found."""
RESULT: Final = "result"

_SEARCH_TRIALS: Final = 10
"""Rates that a search tries, about."""


@dataclass(frozen=True)
class MonitorOutcome:
    """Every trial of a run, and what they show."""

    run: Run
    planned: int
    rows: tuple[MonitorRow, ...]
    """Every attempt."""
    groups: tuple[Group, ...]
    found: tuple[Found, ...]
    costs: tuple[Cost, ...]
    stalls: tuple[StallEffect, ...]
    missing: tuple[str, ...]
    """Trials without a valid attempt."""
    elapsed_s: float
    report: ReportOutcome | None = None

    @property
    def conclusions(self) -> tuple[str, ...]:
        """What was found, a sentence each."""
        return tuple(conclusions(self.groups, self.found, self.costs, self.stalls))

    @property
    def unbalanced(self) -> int:
        """Attempts in which counters do not agree."""
        return sum(bool(row.balance) for row in self.rows)

    @property
    def remainder(self) -> int:
        """Frames that are missing where nobody counts."""
        return sum(row.remainder for row in self.rows)

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "kind": KIND,
            "run_id": self.run.run_id,
            "path": self.run.path,
            "planned": self.planned,
            "missing": self.missing,
            "unbalanced": self.unbalanced,
            "remainder": self.remainder,
            "elapsed_s": self.elapsed_s,
            "groups": [group.to_json() for group in self.groups],
            "search": [found.to_json() for found in self.found],
            "copy_cost": [cost.to_json() for cost in self.costs],
            "stalls": [stall.to_json() for stall in self.stalls],
            "conclusions": self.conclusions,
            "trials": [asdict(row) for row in self.rows],
            "report": None if self.report is None else self.report.document(),
        }

    def problem(self) -> TrialError | None:
        """The error that it is when the host spoiled every attempt at a trial."""
        if not self.missing:
            return None
        shown = ", ".join(self.missing[:5]) + (", ..." if len(self.missing) > 5 else "")
        why = next((row.invalid for row in reversed(self.rows) if not row.valid), "the host was busy")
        return TrialError(
            f"{len(self.missing)} of {self.planned} trials stayed without a valid attempt ({shown}), the "
            f"last one because of: {why}; try them again on a quieter machine with: "
            f"weir run --resume {self.run.run_id}"
        )


def run(
    store: Store,
    scenario: MonitorScenario,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    command: str = "",
    open_lab: OpenLab | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> MonitorOutcome:
    """Measure all that ``scenario`` asks for.

    ``out`` and ``plots`` go before what the scenario says about the report; ``open_lab`` builds a
    link, by default in network namespaces.

    Raises
    ------
    InputError
        Traffic that cannot be sent.
    MissingCapability
        No network namespaces here, no XDP, no tcpdump, or not what draws the report.
    LabError
        A link could not be built, or a recorder failed.
    """
    trials = checked(scenario)
    foresee(out, plots, scenario.report)
    opener = open_lab or _opener()
    testbeds.tell_if_busy("netns", progress)
    facts: dict[str, Any] = {"lab": "netns", "dut": KIND, "command": command}
    for method in methods_of(scenario.monitor):
        # What cannot be built leaves no run behind.
        with opener(replace(common_settings(scenario), method=method)) as lab:
            facts |= {"backend": lab.backend, **lab.facts}
    facts.pop("records", None)
    content = scenario.model_dump(mode="json")
    return _measured(
        lambda: store.create(KIND, content, facts), scenario, trials, opener, progress, out, plots, clock
    )


def resume(
    store: Store,
    run_id: str,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    open_lab: OpenLab | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> MonitorOutcome:
    """Go on with an interrupted run: trials that have a valid attempt are not repeated."""
    found = store.open(run_id, kind=KIND)
    scenario = scenario_of(found, MonitorScenario)
    trials = checked(scenario)
    foresee(out, plots, scenario.report)
    opener = open_lab or _opener()
    testbeds.tell_if_busy("netns", progress)
    return _measured(
        lambda: store.resume(found.run_id), scenario, trials, opener, progress, out, plots, clock
    )


def evidence_of(run: Run) -> Evidence:
    """What the report of ``run`` is made from."""
    frame = run.table(TRIALS)
    rows = rows_of(frame)
    groups, effects, prices = compare(rows), stalls(rows), costs(rows)
    found = run.get_json(SEARCH, _searches) if run.has(SEARCH) else ()
    return Evidence(
        manifest=vars(run.manifest),
        trials=frame,
        groups=[group.to_json() for group in groups],
        found=[one.to_json() for one in found],
        costs=[cost.to_json() for cost in prices],
        stalls=[effect.to_json() for effect in effects],
        said=tuple(conclusions(groups, list(found), prices, effects)),
    )


def _measured(
    begin: Callable[[], RunWriter],
    scenario: MonitorScenario,
    trials: tuple[Planned, ...],
    opener: OpenLab,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
    clock: Callable[[], float],
) -> MonitorOutcome:
    begun_s = clock()
    common, what = common_settings(scenario), scenario.monitor
    with kept(begin, RESUME) as writer:
        tables = Tables(writer)
        carrier = Carrier(writer, tables, what.max_attempts)
        expected_s = estimate_s(planned for planned in trials if planned.index not in writer.done)
        expected_s += _search_s(what, writer)
        progress.stage(
            f"{len(trials):,} trials of {len(what.methods)} methods, about {expected_s / 60:.0f} min, run "
            f"{writer.run_id}"
        )
        campaign = measure(opener, trials, common, carrier, passed_on(progress), clock=clock)
        found = _searched(writer, what, common, carrier, opener, progress, len(trials))
        outcome = _concluded(
            writer.run, len(trials), tuple(tables.rows), found, campaign.missing, clock() - begun_s
        )
        writer.put_json(
            RESULT,
            {
                "groups": [group.to_json() for group in outcome.groups],
                "copy_cost": [cost.to_json() for cost in outcome.costs],
                "stalls": [effect.to_json() for effect in outcome.stalls],
                "conclusions": outcome.conclusions,
                "missing": outcome.missing,
            },
        )
    if outcome.unbalanced:
        progress.note(
            f"in {outcome.unbalanced} attempts counters do not agree: see the column 'balance' of the table "
            f"'{TRIALS}'"
        )
    return _reported(outcome, scenario, progress, out, plots)


def _searched(
    writer: RunWriter,
    what: Monitor,
    common: Settings,
    carrier: Carrier,
    opener: OpenLab,
    progress: Progress,
    planned: int,
) -> tuple[Found, ...]:
    """What the searches found, those of an earlier session included."""
    known = [*writer.run.get_json(SEARCH, _searches)] if writer.has(SEARCH) else []
    if (wanted := what.search) is None:
        return tuple(known)
    goal = Goal(
        wanted.min_pps,
        wanted.max_pps,
        wanted.precision,
        wanted.trial_s,
        wanted.repetitions,
        what.ring_bytes,
    )
    todo: list[tuple[Method, int]] = [
        (method, frame)
        for method in wanted.methods
        for frame in wanted.frames
        if (method, frame) not in [(found.method, found.frame_bytes) for found in known]
    ]
    if todo:
        progress.stage(f"searching the greatest rate without loss, {len(todo)} times")
    for number, (method, frame) in enumerate(todo):
        with opener(replace(common, method=method)) as lab:

            def attempt(one: Planned, lab: Any = lab, number: int = number) -> MonitorRow:
                progress.advance(number, len(todo), one.text)
                return carrier.carry(lab, one)[1]

            # Trials of a search that was interrupted stay; the new ones have numbers of their own.
            first = max([planned - 1, *writer.attempts]) + 1
            known.append(search(method, frame, goal, first, attempt))
        writer.put_json(SEARCH, [found.to_json() for found in known])
    return tuple(known)


def _searches(kept: list[Any]) -> tuple[Found, ...]:
    return tuple(Found.from_json(value) for value in kept)


def _search_s(what: Monitor, writer: RunWriter) -> float:
    if (wanted := what.search) is None:
        return 0.0
    left = len(wanted.methods) * len(wanted.frames)
    left -= len(writer.run.get_json(SEARCH, _searches)) if writer.has(SEARCH) else 0
    return max(left, 0) * _SEARCH_TRIALS * wanted.repetitions * (wanted.trial_s + 0.4)


def _concluded(
    run: Run,
    planned: int,
    rows: tuple[MonitorRow, ...],
    found: tuple[Found, ...],
    missing: tuple[Planned, ...],
    elapsed_s: float,
) -> MonitorOutcome:
    return MonitorOutcome(
        run=run,
        planned=planned,
        rows=rows,
        groups=compare(rows),
        found=found,
        costs=costs(rows),
        stalls=stalls(rows),
        missing=tuple(one.text for one in missing),
        elapsed_s=elapsed_s,
    )


def _reported(
    outcome: MonitorOutcome,
    scenario: MonitorScenario,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
) -> MonitorOutcome:
    trials = len(outcome.rows)
    report = at_the_end(outcome.run, scenario.report, trials, progress, out, plots)
    return replace(outcome, report=report)


def _opener() -> OpenLab:
    """Builds links in network namespaces; raises ``MissingCapability`` where that cannot work."""
    from weirlab.lab.doctor import missing_for_namespaces
    from weirlab.lab.monitor import LinkLab

    if (missing := missing_for_namespaces()) is not None:
        raise MissingCapability(
            f"a monitored link needs network namespaces, which do not work here ({missing}): run as root "
            "(sudo); weir doctor says more"
        )
    return lambda settings: owned(lambda: LinkLab(settings))
