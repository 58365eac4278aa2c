"""From a scenario to a kept run with conclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from weirlab.base.errors import InputError, LabError, TrialError
from weirlab.base.interrupts import owned, shielded
from weirlab.base.quantities import plural
from weirlab.calls.ipsec.endpoints import bed as beds
from weirlab.calls.ipsec.endpoints.bed import EndpointBed, OpenBed
from weirlab.calls.ipsec.endpoints.findings import EndpointFindings, limit_sentence
from weirlab.calls.ipsec.endpoints.plan import (
    NAMES,
    WHERE,
    ArmName,
    Beside,
    CallLimitSection,
    EndpointPlan,
    EndpointScenario,
    EndpointsSection,
    plan,
    talk,
)
from weirlab.calls.ipsec.endpoints.rows import (
    ATTEMPTS,
    DISTRIBUTIONS,
    LIMITS,
    DistributionRow,
    EndpointAttempt,
    EndpointAttemptRow,
    EndpointLimitRow,
    recorded,
)
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import RESUME, Progress
from weirlab.jobs.work import Work
from weirlab.store import Run, RunWriter
from weirlab.store.frames import frame_of
from weirlab.studies.contract import Ground, Outcome, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story

COMPARE: Final = "compare"
LIMIT: Final = "limit"


class EndpointCampaign:
    """All attempts of a run. Each is kept as soon as it is over."""

    def __init__(
        self, bed: EndpointBed, asked: EndpointsSection, writer: RunWriter, progress: Progress
    ) -> None:
        self._bed, self._asked, self._writer, self._progress = bed, asked, writer, progress
        begun = stored(writer.run)
        self._attempts, self._limits = [*begun.attempts], [*begun.limits]
        self._distributions = _distributions(writer.run)
        writer.finished_beside = sum(row.valid for row in self._attempts)

    def compare(self, planned: Sequence[EndpointPlan]) -> None:
        """The attempts that have no valid one."""
        valid = {_key(row) for row in self._attempts if row.purpose == COMPARE and row.valid}
        left_s = sum(self._expected_s(self._asked.lasts_s) for each in planned if each.key not in valid)
        for done, each in enumerate(planned):
            if each.key in valid:
                continue
            self._progress.advance(done, len(planned), each.text, left_s)
            self._until_valid(COMPARE, each, self._asked.lasts_s)
            left_s -= self._expected_s(self._asked.lasts_s)

    def search(self, limit: CallLimitSection) -> None:
        """The most calls of every kind of endpoint."""
        from weirlab.calls.ipsec.endpoints.searching import searched

        found = {(row.arm, row.beside) for row in self._limits}
        kinds = [(arm, beside) for beside in self._asked.beside for arm in self._asked.arms]
        for arm, beside in kinds:
            if (arm, beside) in found:
                continue
            self._progress.stage(f"most calls: {NAMES[arm]} {WHERE[beside]}, run {self._writer.run_id}")
            known = [
                row
                for row in self._attempts
                if row.purpose == LIMIT and row.valid and (row.arm, row.beside) == (arm, beside)
            ]

            def measure(calls: int, arm: ArmName = arm, beside: Beside = beside) -> EndpointAttemptRow:
                before = [row for row in self._attempts if row.purpose == LIMIT and row.valid]
                of_kind = [row for row in before if (row.arm, row.beside) == (arm, beside)]
                again = sum(row.calls == calls for row in of_kind)
                planned = EndpointPlan(arm, beside, calls, again + 1)
                self._progress.advance(len(of_kind), len(of_kind) + 1, planned.text)
                row = self._until_valid(LIMIT, planned, limit.trial_s)
                if not row.valid:
                    raise TrialError(f"{planned.text}: spoiled by the host every time: {row.invalid}")
                return row

            row = searched(limit, arm, beside, measure, known)
            self._limits.append(row)
            self._writer.put_table(LIMITS, frame_of(EndpointLimitRow, self._limits))
            self._progress.note(limit_sentence(row))

    @staticmethod
    def _expected_s(lasts_s: float) -> float:
        return lasts_s + _AROUND_S

    def _until_valid(self, purpose: str, planned: EndpointPlan, lasts_s: float) -> EndpointAttemptRow:
        """The first attempt that the host does not spoil, or the last one."""
        what = self._asked
        tries = what.max_attempts
        for left in reversed(range(tries)):
            spec = talk(what, planned.arm, planned.beside, planned.calls, lasts_s)
            late_ns = (what.limit or CallLimitSection()).late_ms * 1e6
            try:
                made = recorded(
                    self._bed.talk(spec), spec, planned, len(self._attempts), purpose, late_ns=late_ns
                )
            except LabError as error:
                if not left:
                    raise
                self._progress.note(f"{planned.text}: again, because: {error}")
                continue
            self._keep(made)
            if made.row.valid or not left:
                break
            self._progress.note(f"{planned.text}: again, because: {made.row.invalid}")
        return self._attempts[-1]

    def _keep(self, made: EndpointAttempt) -> None:
        self._attempts.append(made.row)
        self._distributions.extend(made.distributions)
        # The distributions first: an attempt that is not listed has none.
        self._writer.put_table(DISTRIBUTIONS, frame_of(DistributionRow, self._distributions))
        self._writer.put_table(ATTEMPTS, frame_of(EndpointAttemptRow, self._attempts))
        self._writer.finished_beside += made.row.valid


_AROUND_S: Final = 1.2
"""What an attempt takes besides the recorded part: warm-up, start, end."""


def _key(row: EndpointAttemptRow) -> tuple[str, str, int, int]:
    return row.arm, row.beside, row.calls, row.repetition


def _distributions(run: Run) -> list[DistributionRow]:
    return run.rows(DistributionRow, DISTRIBUTIONS)


def stored(run: Run) -> EndpointFindings:
    """What a run shows, finished or not."""
    what = scenario_of(run, EndpointScenario).endpoints
    attempts = run.rows(EndpointAttemptRow, ATTEMPTS)
    limits = run.rows(EndpointLimitRow, LIMITS)
    valid = {_key(row) for row in attempts if row.purpose == COMPARE and row.valid}
    planned = plan(what)
    return EndpointFindings(
        asked=what,
        attempts=tuple(attempts),
        limits=tuple(limits),
        planned=len(planned),
        missing=tuple(each.text for each in planned if each.key not in valid),
    )


class EndpointsStudy(Study[EndpointScenario, Ground[EndpointBed], EndpointFindings]):
    """Calls by every kind of endpoint in turn; ``weir ipsec endpoints`` is its command.

    ``open_bed`` opens a bed of another kind.
    """

    key = "endpoints"
    title = "endpoints of calls that bypass the system, compared with ordinary ones"

    def __init__(self, open_bed: OpenBed | None = None) -> None:
        self._open_bed = open_bed

    def scenario(self) -> type[EndpointScenario]:
        return EndpointScenario

    @contextmanager
    @shielded
    def open(self, asked: EndpointScenario, work: Work) -> Iterator[Ground[EndpointBed]]:
        """The bed: what ``self._open_bed`` opens, or two network namespaces."""
        with owned(lambda: (self._open_bed or beds.opened)()) as bed:
            facts = {"lab": bed.lab, "dut": "endpoints", "backend": "af_xdp, sockets", **bed.facts}
            yield Ground(bed, facts)

    def measure(
        self, ground: Ground[EndpointBed], asked: EndpointScenario, writer: RunWriter, work: Work
    ) -> EndpointFindings:
        """Make every attempt that the run does not have yet, then search for the most calls."""
        what = asked.endpoints
        campaign = EndpointCampaign(ground.bed, what, writer, work.progress)
        planned = plan(what)
        work.progress.stage(f"{plural(len(planned), 'attempt')}, run {writer.run_id}")
        campaign.compare(planned)
        if what.limit is not None:
            campaign.search(what.limit)
        return stored(writer.run)

    def expected_s(self, asked: EndpointScenario) -> float | None:
        """None with a search, which makes as many attempts as it needs."""
        what = asked.endpoints
        return None if what.limit is not None else len(plan(what)) * (what.lasts_s + _AROUND_S)

    def summarize(self, outcome: Outcome[EndpointFindings]) -> Summary:
        from weirlab.calls.ipsec.endpoints import findings

        found = outcome.found
        return Summary(
            "\n".join(found.sentences()),
            findings.of(found),
            "\n".join((*found.conditions(), *found.remarks())),
        )

    def headlines(self, run: Run) -> Sequence[str]:
        found = stored(run)
        return found.sentences() if found.groups else ()

    def page(self, run: Run) -> Story:
        from weirlab.calls.ipsec.endpoints.page import tell

        found = stored(run)
        if not found.groups:
            raise InputError(
                f"run {run.run_id} was interrupted before any attempt counted: go on with {RESUME} "
                f"{run.run_id}"
            )
        return tell(found, _distributions(run), vars(run.manifest))
