"""What a link monitor records and what it costs: from a scenario to a stored run with conclusions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.documents import typed
from weirlab.base.errors import InputError, TrialError
from weirlab.base.interrupts import owned, shielded
from weirlab.cli.quantities import clock, plural
from weirlab.jobs import spoiled, testbeds
from weirlab.jobs.progress import RESUME, Progress, passed_on
from weirlab.jobs.work import Work
from weirlab.links.monitor.campaign import (
    MonitorGoal,
    MonitorLimit,
    MonitorTrialRunner,
    OpenLab,
    measure,
    search,
)
from weirlab.links.monitor.plan import Method, MonitorPlan, MonitorSettings, estimate_s
from weirlab.links.monitor.rows import TRIALS, MonitorRow
from weirlab.links.monitor.section import Monitor, MonitorScenario, checked, common_settings, methods_of
from weirlab.links.monitor.tables import MonitorEvidence, groups
from weirlab.store import Run, RunWriter
from weirlab.studies.contract import Ground, Outcome, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story

KIND: Final = "monitor"
SEARCH: Final = "search"
"""Name under which a run keeps what its searches found."""
RESULT: Final = "result"

_SEARCH_TRIALS: Final = 10
"""About how many rates a search tries."""


@dataclass(frozen=True, kw_only=True)
class MonitorFindings(MonitorEvidence):
    """What a run that has just ended shows."""

    planned: int
    missing: tuple[str, ...]
    """Trials without a valid attempt."""
    elapsed_s: float

    @property
    def unbalanced(self) -> int:
        """Attempts in which counters do not agree."""
        return sum(bool(row.balance) for row in self.rows)

    @property
    def remainder(self) -> int:
        """Frames that disappeared where losses are not counted."""
        return sum(row.remainder for row in self.rows)

    def kept(self) -> dict[str, Any]:
        """What the run stores of it besides its tables."""
        return {
            "groups": self.groups,
            "copy_cost": self.costs,
            "stalls": self.stalls,
            "conclusions": self.headlines,
            "missing": self.missing,
        }

    def document(self) -> dict[str, Any]:
        return {
            "planned": self.planned,
            "unbalanced": self.unbalanced,
            "remainder": self.remainder,
            "elapsed_s": self.elapsed_s,
            "search": self.found,
            **self.kept(),
            "trials": self.rows,
        }

    def problem(self, run: Run) -> TrialError | None:
        """The error to report if the host spoiled every attempt at a trial."""
        return spoiled.without_valid(run, "trials", self.missing, self.planned, self.rows, TRIALS)


def evidence(run: Run) -> MonitorEvidence:
    """Every attempt that ``run`` stores, and what they show."""
    return MonitorEvidence.of(run.rows(MonitorRow, TRIALS), _found(run), manifest=vars(run.manifest))


def _found(run: Run) -> tuple[MonitorLimit, ...]:
    if not run.has(SEARCH):
        return ()
    return run.get_json(SEARCH, lambda kept: typed(tuple[MonitorLimit, ...], kept))


def _searched(
    writer: RunWriter,
    what: Monitor,
    common: MonitorSettings,
    carrier: MonitorTrialRunner,
    opener: OpenLab,
    progress: Progress,
    planned: int,
) -> tuple[MonitorLimit, ...]:
    """What the searches found, those of an earlier session included."""
    known = [*_found(writer.run)]
    if (wanted := what.search) is None:
        return tuple(known)
    goal = MonitorGoal(
        wanted.min_pps, wanted.max_pps, wanted.precision, wanted.trial_s, wanted.repetitions, what.ring_bytes
    )
    todo: list[tuple[Method, int]] = [
        (method, frame)
        for method in wanted.methods
        for frame in wanted.frames
        if (method, frame) not in [(found.method, found.frame_bytes) for found in known]
    ]
    if todo:
        progress.stage(f"searching for the greatest rate without loss, {len(todo)} times")
    for number, (method, frame) in enumerate(todo):
        with opener(replace(common, method=method)) as lab:

            def attempt(one: MonitorPlan, lab: Any = lab, number: int = number) -> MonitorRow:
                progress.advance(number, len(todo), one.text)
                carrier.carry(lab, one)
                return carrier.rows[-1]

            # Trials of an interrupted search stay, so the new ones get other numbers.
            first = max([planned - 1, *writer.attempts]) + 1
            known.append(search(method, frame, goal, first, attempt))
        writer.put_json(SEARCH, known)
    return tuple(known)


def _search_s(what: Monitor, found: int = 0) -> float:
    """Expected wall time in s of the searches, of which ``found`` are over."""
    if (wanted := what.search) is None:
        return 0.0
    left = len(wanted.methods) * len(wanted.frames) - found
    return max(left, 0) * _SEARCH_TRIALS * wanted.repetitions * (wanted.trial_s + 0.4)


def _opener() -> OpenLab:
    """Builds links in network namespaces; raises ``MissingCapability`` if that cannot work."""
    from weirlab.lab.doctor import need_namespaces
    from weirlab.links.monitor.bed.lab import LinkLab

    need_namespaces("a monitored link needs")
    return lambda settings: owned(lambda: LinkLab(settings))


class MonitorStudy(Study[MonitorScenario, Ground[OpenLab], MonitorFindings]):
    """A link monitor put to the test; ``open_lab`` builds a monitored link, by default in namespaces."""

    key = "monitor"
    title = "a link monitor put to the test, compared with tcpdump"

    def __init__(
        self, open_lab: OpenLab | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_lab, self._clock = open_lab, clock

    def scenario(self) -> type[MonitorScenario]:
        return MonitorScenario

    def check(self, asked: MonitorScenario, work: Work) -> None:
        checked(asked)

    @contextmanager
    @shielded
    def open(self, asked: MonitorScenario, work: Work) -> Iterator[Ground[OpenLab]]:
        """What builds the links of ``asked``: ``self._open_lab``, or else a builder in network namespaces."""
        opener = self._open_lab or _opener()
        testbeds.tell_if_busy("netns", work.progress)
        facts: dict[str, Any] = {}
        if work.begun is None:
            facts = {"lab": "netns", "dut": KIND}
            for method in methods_of(asked.monitor):
                # What cannot be built leaves no run behind.
                with opener(replace(common_settings(asked), method=method)) as lab:
                    facts |= {"backend": lab.backend, **lab.facts}
            facts.pop("records", None)
        yield Ground(opener, facts)

    def measure(
        self, ground: Ground[OpenLab], asked: MonitorScenario, writer: RunWriter, work: Work
    ) -> MonitorFindings:
        """Make every trial that the run does not have yet, then search."""
        progress = work.progress
        begun_s = self._clock()
        trials, opener = checked(asked), ground.bed
        common, what = common_settings(asked), asked.monitor
        carrier = MonitorTrialRunner(writer, what.max_attempts)
        expected_s = estimate_s(planned for planned in trials if planned.index not in writer.done)
        expected_s += _search_s(what, len(_found(writer.run)))
        progress.stage(
            f"{len(trials):,} trials of {len(what.methods)} methods, about {expected_s / 60:.0f} min, run "
            f"{writer.run_id}"
        )
        measure(opener, trials, common, carrier, passed_on(progress), clock=self._clock)
        found = _searched(writer, what, common, carrier, opener, progress, len(trials))
        findings = MonitorFindings.of(
            tuple(carrier.rows),
            found,
            planned=len(trials),
            missing=tuple(one.text for one in trials if one.index not in writer.done),
            elapsed_s=self._clock() - begun_s,
        )
        writer.put_json(RESULT, findings.kept())
        if findings.unbalanced:
            progress.note(
                f"counters do not agree in {findings.unbalanced} attempts: see the column 'balance' of the "
                f"table '{TRIALS}'"
            )
        return findings

    def expected_s(self, asked: MonitorScenario) -> float:
        return estimate_s(checked(asked)) + _search_s(asked.monitor)

    def summarize(self, outcome: Outcome[MonitorFindings]) -> Summary:
        """What was found, a sentence each, then the run and its report."""
        found = outcome.found
        lines = found.headlines or ["No trial was measured."]
        attempts, valid = len(found.rows), sum(row.valid for row in found.rows)
        spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
        open_sums = (
            f" Counters do not agree in {plural(found.unbalanced, 'attempt')}."
            if found.unbalanced
            else " The counters of every trial agree."
        )
        if found.remainder:
            open_sums += f" {plural(found.remainder, 'frame')} disappeared where losses are not counted."
        report = "" if outcome.report is None else f" Report: {outcome.report.path}"
        lines.append(
            f"Run {outcome.run.run_id}: {found.planned - len(found.missing)} of {found.planned} trials "
            f"measured in {clock(found.elapsed_s)}{spoiled}.{open_sums}{report}"
        )
        return Summary("\n".join(lines), groups(found))

    def headlines(self, run: Run) -> list[str]:
        """What ``run`` shows, a sentence each."""
        return evidence(run).headlines

    def page(self, run: Run) -> Story:
        from weirlab.links.monitor.page import tell

        if not run.has_table(TRIALS):
            raise InputError(
                f"run {run.run_id} was interrupted before its first trial: go on with {RESUME} {run.run_id}"
            )
        return tell(evidence(run))
