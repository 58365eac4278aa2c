"""From a scenario to a stored run with conclusions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.files import NO_FILES, Inputs
from weirlab.base.interrupts import owned, shielded
from weirlab.base.limits import HIGHEST_SEED
from weirlab.base.quantities import plural, words
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import RESUME, passed_on
from weirlab.jobs.work import Work
from weirlab.lab.finding import Finding
from weirlab.measure.attempts import until_valid
from weirlab.measure.progress import OnProgress, ProgressMeter
from weirlab.measure.terms import TrialClocks
from weirlab.records import TrialRecord
from weirlab.store import Run, RunWriter
from weirlab.studies.contract import Ground, Outcome, Study, Summary
from weirlab.transfers.parallel import namespaces, plan
from weirlab.transfers.parallel.findings import ATTEMPTS, ParallelAttemptRow, ParallelFindings
from weirlab.transfers.parallel.plan import (
    OpenBed,
    ParallelAttempt,
    ParallelBed,
    ParallelPlan,
    PathPair,
    PathSpan,
    expected_s,
    timing,
)
from weirlab.transfers.parallel.recording import AttemptEntry, reasons, record
from weirlab.transfers.parallel.section import (
    MOST_PATHS,
    CasePath,
    ParallelScenario,
    ParallelSection,
    share_of,
)

if TYPE_CHECKING:
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.transfers.psock.copying import SessionSettings


def attempts(run: Run) -> list[ParallelAttemptRow]:
    """Every attempt that ``run`` stores, in the order in which they were made."""
    return sorted(run.rows(ParallelAttemptRow, ATTEMPTS), key=lambda row: row.start_ns)


def course(planned: ParallelPlan, asked: ParallelSection, inputs: Inputs = NO_FILES) -> ParallelAttempt:
    """The course of an attempt; ``inputs`` opens the traces of its paths."""
    warmup_s, lasts_s = timing(planned.case, asked)
    every = dict(enumerate(planned.case.every_path(), 1))
    used = planned.used
    paths = {number: _pair(every[number], number, planned.repetition, inputs) for number in used}
    return ParallelAttempt(
        method=planned.method,
        paths=paths,
        buffer_bytes=_buffer_bytes(
            paths.values(), asked.buffers if planned.case.buffers is None else planned.case.buffers
        ),
        congestion=asked.congestion,
        streams=asked.streams,
        how=how(asked),
        warmup_s=warmup_s,
        lasts_s=lasts_s,
        every_s=asked.every_s,
        slack_s=asked.slack_ms / 1e3,
        outages=tuple(
            PathSpan(outage.path, outage.from_s, outage.from_s + outage.lasts_s)
            for outage in planned.case.outages
            if outage.path in used
        ),
        competitors=tuple(
            PathSpan(
                competitor.path,
                competitor.from_s,
                lasts_s if competitor.lasts_s is None else competitor.from_s + competitor.lasts_s,
            )
            for competitor in planned.case.competitors
            if competitor.path in used
        ),
    )


def _pair(path: CasePath, number: int, repetition: int, inputs: Inputs) -> PathPair:
    """Both directions. Random numbers differ from path to path and between repetitions, not by method."""
    other = 2 * (MOST_PATHS * (repetition - 1) + number - 1)
    both = path.with_traces(inputs)
    return PathPair(
        **{name: replace(each, seed=(each.seed + other) % HIGHEST_SEED) for name, each in both.items()}
    )


def _buffer_bytes(paths: Iterable[PathPair], multiple: float | None) -> int | None:
    """``multiple`` of what the fastest path holds; a connection's socket does not know over which it goes."""
    if multiple is None:
        return None
    return round(multiple * max((path.up.rate_bps or 0) * path.rtt_ns / 8e9 for path in paths))


def how(asked: ParallelSection) -> SessionSettings:
    """How sessions are carried; the scheduler is the method's."""
    from weirlab.transfers.psock.options import SessionOptions, StreamOptions

    options = SessionOptions(memory=asked.memory, congestion=asked.congestion)
    return options.how(StreamOptions(block=asked.block, unsent=asked.unsent))


@dataclass(frozen=True)
class ParallelCampaign:
    """All attempts of a run."""

    bed: ParallelBed
    asked: ParallelSection
    writer: RunWriter
    clocks: TrialClocks
    inputs: Inputs = NO_FILES

    def measure(self, planned: Sequence[ParallelPlan], on_progress: OnProgress | None = None) -> None:
        """Make those without a valid attempt in the run; spoiled attempts are stored and repeated.

        Raises
        ------
        LabError
            Paths or connections could not be made in any attempt; what was finished is kept.
        """
        wall_s = (expected_s(each, self.asked) for each in planned)
        meter = ProgressMeter(wall_s, self.clocks.seconds, on_progress, max_attempts=self.asked.max_attempts)
        for each in planned:
            if each.index in self.writer.done:
                meter.skip()
                continue
            meter.tell(each.text)
            attempt = partial(self._attempt, each)
            meter.count(each.text, until_valid(each.text, self.asked.max_attempts, attempt, meter.tell))

    def _attempt(self, planned: ParallelPlan) -> TrialRecord:
        what = course(planned, self.asked, self.inputs)
        started_at, begun_s = self.clocks.now().isoformat(timespec="milliseconds"), self.clocks.seconds()
        seen = self.bed.carry(what)
        entry = AttemptEntry(
            run_id=self.writer.run_id,
            attempt=self.writer.attempts.get(planned.index, 0) + 1,
            started_at=started_at,
            wall_s=self.clocks.seconds() - begun_s,
            lab=self.bed.lab,
            first_share=share_of(self.asked.split, planned.case.name) if self.asked.split else None,
        )
        made = record(planned, what, seen, entry, reasons(seen, self.asked.late_ms * 1e6))
        self.writer.add(made)
        return made


LACKING: Final = "lacking"
"""The fact of a run that names methods which could not be tried."""


def _in_namespaces(asked: ParallelSection) -> Any:
    from weirlab.lab.doctor import need_namespaces
    from weirlab.transfers.parallel import namespaces

    need_namespaces("emulated paths need")
    return namespaces.opened(asked)


def stored(run: Run) -> ParallelFindings:
    """The findings of a run, finished or not."""
    what = scenario_of(run, ParallelScenario).parallel
    lacking = dict(run.manifest.facts.get(LACKING) or {})
    planned = plan.plan(what, lacking)
    rows = attempts(run)
    valid = {(row.case, row.method, row.path, row.repetition) for row in rows if row.valid}
    return ParallelFindings(
        rows=tuple(rows),
        methods=tuple(what.methods),
        cases=tuple(case.name for case in what.every_case()),
        planned=len(planned),
        missing=tuple(each.text for each in planned if each.key not in valid),
        lacking=lacking,
    )


class ParallelStudy(Study[ParallelScenario, Ground[ParallelBed], ParallelFindings]):
    """Transfers by every method over every set of paths; ``open_bed`` opens a bed of another kind."""

    key = "parallel"
    title = "parallel sockets, multipath TCP and independent streams over several paths, compared"

    def __init__(self, open_bed: OpenBed | None = None, clocks: TrialClocks | None = None) -> None:
        self._open_bed, self._clocks = open_bed, clocks or TrialClocks()

    def scenario(self) -> type[ParallelScenario]:
        return ParallelScenario

    def checks(self) -> Sequence[Finding]:
        return (namespaces.finding(),)

    def check(self, asked: ParallelScenario, work: Work) -> None:
        how(asked.parallel)
        for case in asked.parallel.cases:
            for path in case.paths:
                path.with_traces(work.inputs)

    @contextmanager
    @shielded
    def open(self, asked: ParallelScenario, work: Work) -> Iterator[Ground[ParallelBed]]:
        """The bed: what ``self._open_bed`` opens, or two hosts in network namespaces."""
        what = asked.parallel
        with owned(lambda: (self._open_bed or _in_namespaces)(what)) as bed:
            lacking = {method: why for method, why in bed.lacking.items() if method in what.methods}
            if lacking.keys() >= set(what.methods):
                raise MissingCapability("; ".join(f"{plan.named(m)}: {why}" for m, why in lacking.items()))
            facts = {"lab": bed.lab, "dut": "emulated paths", "backend": "tcp", LACKING: lacking}
            yield Ground(bed, facts)

    def measure(
        self, ground: Ground[ParallelBed], asked: ParallelScenario, writer: RunWriter, work: Work
    ) -> ParallelFindings:
        """Make every attempt that the run does not have yet."""
        progress = work.progress
        what = asked.parallel
        # Attempts are numbered by the methods that were there when the run was begun.
        lacking = dict(writer.run.manifest.facts.get(LACKING) or {})
        if gone := sorted(ground.facts[LACKING].keys() - lacking.keys()):
            absent = words([plan.named(method) for method in gone])
            raise InputError(
                f"run {writer.run_id} was begun with {absent}, which is "
                "missing now: resume it on the machine where it was begun, or start a new run"
            )
        for method, why in lacking.items():
            progress.note(f"{plan.named(method)} is left out: {why}")
        planned = plan.plan(what, lacking)
        progress.stage(f"{plural(len(planned), 'transfer')}, run {writer.run_id}")
        attempts = ParallelCampaign(ground.bed, what, writer, self._clocks, work.inputs)
        attempts.measure(planned, passed_on(progress))
        return stored(writer.run)

    def expected_s(self, asked: ParallelScenario) -> float:
        return plan.estimate_s(plan.plan(asked.parallel), asked.parallel)

    def summarize(self, outcome: Outcome[ParallelFindings]) -> Summary:
        from weirlab.transfers.parallel import tables

        found = outcome.found
        report = "" if outcome.report is None else f"\nReport: {outcome.report.path}"
        return Summary("\n".join(found.sentences()) + report, tables.of(found), "\n".join(found.remarks()))

    def headlines(self, run: Run) -> Sequence[str]:
        found = stored(run)
        return found.sentences() if any(row.valid for row in found.rows) else ()

    def page(self, run: Run) -> Story:
        from weirlab.transfers.parallel.page import tell

        found = stored(run)
        if not any(row.valid for row in found.rows):
            raise InputError(
                f"run {run.run_id} was interrupted before any attempt counted: go on with {RESUME} "
                f"{run.run_id}"
            )
        return tell(found, run)
