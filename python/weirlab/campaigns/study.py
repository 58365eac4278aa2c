"""Goes through the steps of a campaign, and says what they found."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol

from weirlab.base.errors import TrialError, WeirError
from weirlab.base.files import Inputs
from weirlab.base.interrupts import shielded
from weirlab.base.quantities import plural, words
from weirlab.campaigns.ranking import MeasureRow, RankRow, rank, standings
from weirlab.campaigns.section import CampaignScenario, CampaignStep
from weirlab.campaigns.steps import StepNotes, StepRecord, StepStore, measure
from weirlab.cli.quantities import clock
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.status import StatusKeeper, WorkerStatus, WorkStatus, rest_s, this_machine
from weirlab.jobs.work import Work
from weirlab.records import SIMULATION
from weirlab.scenario.model import Root
from weirlab.store import Run, RunWriter
from weirlab.store.frames import frame_of
from weirlab.studies.registry import studies

STEPS: Final = "campaign-steps"
"""The table of a run that has the steps."""
MEASURES: Final = "measures"
"""The table that has the numbers of the steps."""


@dataclass(frozen=True)
class StepRow:
    """A step of a campaign."""

    step: int
    """Its number, from 0."""
    scenario: str
    """Name of the scenario in the campaign."""
    device: str
    """Name of the device; empty if the campaign lists none."""
    setting: str
    """Settings of the further dimensions, separated by commas."""
    repetition: int
    """Counts from 0."""
    run_id: str
    """Of its run, in the folder ``steps``; empty if it has none."""
    problem: str
    """Why it does not count; empty if it does."""
    host: str
    """The machine, or the test bed, that measured it."""
    attempts: int
    """How often it was tried."""
    elapsed_s: float
    """Time of the last attempt."""
    simulated: bool = False
    """Whether its device was simulated."""


class StepCarrier(Protocol):
    """Whatever measures steps. What it measures is in the scratch folder of the step in the ``StepStore``."""

    @property
    def room(self) -> int:
        """How many steps it takes at present."""

    def submit(self, step: CampaignStep, attempt: int) -> None:
        """Take ``step``, which is tried for the ``attempt``-th time, from 1."""

    def results(self) -> Iterable[StepRecord]:
        """Those that were measured since the last call; waits for some."""

    def workers(self) -> tuple[WorkerStatus, ...]:
        """What each of those that measure does, without what the campaign has of it."""


class LocalCarrier:
    """Measures one step after the other in this process; calls ``look`` between trials."""

    def __init__(
        self, asked: CampaignScenario, steps: StepStore, work: Work, look: Callable[[], object]
    ) -> None:
        self._asked, self._steps, self._work, self._look = asked, steps, work, look
        self._notes = StepNotes(work.progress.note, self._advance)
        self._taken: list[CampaignStep] = []
        self._status = this_machine()

    @property
    def room(self) -> int:
        return 1 - len(self._taken)

    def submit(self, step: CampaignStep, attempt: int) -> None:
        self._taken.append(step)
        self._status = replace(
            self._status,
            run_id=self._steps.campaign,
            doing=step.place,
            since_s=time.time(),
            done=0,
            total=0,
        )

    def results(self) -> Iterable[StepRecord]:
        step = self._taken[0]
        scratch = self._steps.scratch(step.number)
        yield measure(self._asked, step, scratch, self._notes, self._work.inputs)
        self._taken.clear()
        self._status = replace(self._status, run_id="", doing="")

    def workers(self) -> tuple[WorkerStatus, ...]:
        return (replace(self._status, seen_s=time.time()),)

    def _advance(self, done: int, total: int) -> None:
        self._status = replace(self._status, done=done, total=total)
        self._look()


@dataclass(frozen=True)
class CampaignEstimate:
    """What a campaign takes."""

    steps: int
    trials: int
    """At most; 0 if the scenarios do not say."""
    expected_s: float
    """Of the steps on real devices whose time is known."""
    simulated: int
    """Steps on simulated devices, which take as long as the computer needs."""
    unknown: int
    """Steps whose time is not known."""

    @property
    def sentence(self) -> str:
        parts = [plural(self.steps, "step")]
        parts += [f"at most {plural(self.trials, 'trial')}"] if self.trials else []
        parts += [f"about {clock(self.expected_s)} on one test bed"] if self.expected_s else []
        parts += [f"{self.simulated:,} of them simulated"] if self.simulated else []
        parts += [f"{self.unknown:,} of them of unknown length"] if self.unknown else []
        return ", ".join(parts)

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"kind": "campaign plan", **vars(self)}


def estimate(asked: CampaignScenario, work: Work) -> CampaignEstimate:
    """Check every cell of the matrix, and add up what the steps take; raises ``InputError``."""
    trials = simulated = unknown = 0
    expected_s = 0.0
    section, known = asked.campaign, studies()
    for step in asked.steps():
        if step.repetition:
            break
        root = asked.root(step, work.inputs)
        study = known[root.KEY]
        study.check(root, replace(work, begun=None))
        trials += sum(count for _, count in root.trials())
        if _is_simulated(root):
            simulated += 1
        elif (needed_s := study.expected_s(root)) is None:
            unknown += 1
        else:
            expected_s += needed_s
    many = section.repetitions
    return CampaignEstimate(section.steps, trials * many, expected_s * many, simulated * many, unknown * many)


def lab(asked: CampaignScenario, inputs: Inputs) -> str:
    """The lab of all steps if they are simulated; else, it is for each step to say."""
    cells = (step for step in asked.steps() if not step.repetition)
    return SIMULATION if all(_is_simulated(asked.root(step, inputs)) for step in cells) else "see its steps"


def _is_simulated(root: Root) -> bool:
    return getattr(getattr(root, "lab", None), "kind", "") == SIMULATION


@dataclass(frozen=True)
class CampaignFindings:
    """What a campaign found so far."""

    planned: int
    steps: tuple[StepRow, ...]
    """Those that were tried."""
    measures: tuple[MeasureRow, ...]
    by_device: bool

    @cached_property
    def ranking(self) -> Sequence[RankRow]:
        """The devices in every comparison."""
        return rank(self.measures, by_device=self.by_device)

    @property
    def simulated(self) -> bool:
        """Whether every step that counts had a simulated device."""
        return bool(self.steps) and all(row.simulated for row in self.steps if not row.problem)

    @property
    def problems(self) -> Sequence[StepRow]:
        """The steps that were tried and do not count."""
        return [row for row in self.steps if row.problem]

    @property
    def sentence(self) -> str:
        """How many steps count, and which devices are proved worse than others."""
        count = len(self.steps) - len(self.problems)
        told = f"{count:,} of {plural(self.planned, 'step')} {'simulated' if self.simulated else 'measured'}."
        if self.simulated:
            told = f"Simulated, not measured: {told}"
        elif simulated := sum(row.simulated for row in self.steps):
            told = f"{told} Of these, {simulated:,} simulated."
        compared = len({(row.scenario, row.setting, row.measure) for row in self.ranking if row.rank == 2})
        if not compared:
            return told
        of = plural(compared, "comparison")
        counted = standings(self.ranking)
        leader, standing = next(iter(counted.items()))
        if not standing.best:
            return f"{told} In none of {of} does the best differ from the others by more than chance."
        best = f"{told} {leader} is the best or as good in {standing.best:,} of {of}"
        worse = [f"{name} in {one.worse:,}" for name, one in counted.items() if one.worse]
        return (
            f"{best}; worse than the best: {words(worse)}." if worse else f"{best}; no difference is proved."
        )

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "planned": self.planned,
            "measured": len(self.steps) - len(self.problems),
            "ranking": self.ranking,
            "steps": self.steps,
        }

    def problem(self, run: Run) -> WeirError | None:
        """An error if a step has no result."""
        if not self.problems:
            return None
        first = self.problems[0]
        place = ", ".join(filter(None, (first.scenario, first.device, first.setting)))
        return TrialError(
            f"{len(self.problems):,} of {plural(self.planned, 'step')} of run {run.run_id} could not be "
            f"measured; {place}: {first.problem}"
        )


def measured(
    asked: CampaignScenario,
    writer: RunWriter,
    work: Work,
    carrier: StepCarrier | None = None,
) -> CampaignFindings:
    """Measure the steps that the run does not have yet, by ``carrier`` or else in this process."""
    steps = StepStore(writer.run)
    steps.prepare()
    records = steps.records()
    done = {number for number, record in records.items() if record.counts}
    writer.finished_beside, writer.items = len(done), "step"
    queue = deque(step for step in asked.steps() if step.number not in done)
    attempts, underway = Counter[int](), dict[int, CampaignStep]()
    total, begun = asked.campaign.steps, time.monotonic()
    before = len(done)
    taking: StepCarrier

    def left_s() -> float | None:
        return rest_s(begun, len(done) - before, total - len(done))

    def status() -> WorkStatus:
        return _status(writer.run_id, total, [records[number] for number in done], taking.workers(), left_s())

    keeper = StatusKeeper(writer, status)
    work.progress.stage(f"campaign {asked.name}, run {writer.run_id}")
    taking = carrier or LocalCarrier(asked, steps, work, keeper.keep)
    while queue or underway:
        while queue and taking.room > 0:
            step = queue.popleft()
            attempts[step.number] += 1
            underway[step.number] = step
            work.progress.advance(len(done), total, step.place, left_s())
            taking.submit(step, attempts[step.number])
        keeper.keep()
        for record in taking.results():
            if record.number not in underway:
                continue
            step = underway.pop(record.number)
            if record.problem and attempts[step.number] < asked.campaign.attempts:
                work.progress.note(f"{step.place}: {record.problem}; it is tried again later")
                queue.append(step)
                continue
            records[step.number] = replace(record, attempts=attempts[step.number])
            _keep(steps, records[step.number], done, writer)
    keeper.keep(at_once=True)
    return stored(writer.run)


@shielded
def _keep(steps: StepStore, record: StepRecord, done: set[int], writer: RunWriter) -> None:
    steps.keep(record)
    done.add(record.number)
    writer.finished_beside = len(done)


def _status(
    run_id: str,
    planned: int,
    ended: Sequence[StepRecord],
    workers: Sequence[WorkerStatus],
    left_s: float | None,
) -> WorkStatus:
    """How far a campaign is whose steps ``ended``, as ``workers`` say."""
    steps, failed, trials = Counter[str](), Counter[str](), Counter[str]()
    for record in ended:
        steps[record.host] += 1
        failed[record.host] += not record.counts
        trials[record.host] += record.trials
    told = tuple(
        replace(one, steps=steps[one.name], failed=failed[one.name], trials=trials[one.name])
        for one in workers
    )
    underway = min(sum(one.run_id == run_id for one in told), planned - len(ended))
    waiting = planned - len(ended) - underway
    without = failed.total()
    return WorkStatus(time.time(), len(ended) - without, without, underway, waiting, left_s, told)


def stored(run: Run) -> CampaignFindings:
    """The findings of a run, finished or not."""
    asked = scenario_of(run, CampaignScenario)
    section = asked.campaign
    if run.manifest.status == "complete" and run.has_table(STEPS):
        rows, numbers = run.rows(StepRow, STEPS), run.rows(MeasureRow, MEASURES)
    else:
        records = StepStore(run).records()
        tried = sorted((step for step in asked.steps() if step.number in records), key=lambda one: one.number)
        rows = [_row(step, records[step.number]) for step in tried]
        numbers = [row for step in tried for row in _numbers(step, records[step.number])]
    by_device = len(section.devices) > 1 or not section.settings
    return CampaignFindings(section.steps, tuple(rows), tuple(numbers), by_device)


def _row(step: CampaignStep, record: StepRecord) -> StepRow:
    return StepRow(
        step.number,
        step.scenario,
        step.device,
        ", ".join(step.setting),
        step.repetition,
        record.run_id,
        record.problem,
        record.host,
        record.attempts,
        record.elapsed_s,
        record.simulated,
    )


def _numbers(step: CampaignStep, record: StepRecord) -> Iterable[MeasureRow]:
    setting = ", ".join(step.setting)
    for each in record.measures:
        yield MeasureRow(
            step.number,
            step.scenario,
            step.device,
            setting,
            step.repetition,
            each.name,
            each.value,
            each.unit,
            each.better,
        )


def keep(run: Run, found: CampaignFindings) -> None:
    """Store the rows with the run, for ``weir export``."""
    run.put_table(STEPS, frame_of(StepRow, found.steps))
    run.put_table(MEASURES, frame_of(MeasureRow, found.measures))
