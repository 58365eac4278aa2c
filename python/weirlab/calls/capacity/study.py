"""How many calls a device carries: sweep, search and the model's prediction, as one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import polars as pl

from weirlab.base.errors import InputError
from weirlab.calls.capacity.findings import CapacityConclusions, CapacityFindings, CounterAgreement
from weirlab.calls.capacity.plan import (
    SWEEP,
    CallSweep,
    fixed_counts,
    found_counts,
    goals_of,
    profile_of,
    sweep,
    to_search,
    to_sweep,
)
from weirlab.calls.capacity.prediction import CapacityPrediction, foretell
from weirlab.calls.capacity.section import CapacityScenario
from weirlab.calls.capacity.trials.keeper import CallRecorder
from weirlab.calls.capacity.trials.losses import dropping, losses
from weirlab.calls.capacity.trials.rows import CAPACITY, GAPS, CallGapRow, CapacityRow, InsideRow
from weirlab.calls.capacity.trials.search import CallCapacity, CallTraffic, search_calls
from weirlab.devices.prediction import modelling
from weirlab.jobs import profiles, testbeds
from weirlab.jobs.progress import RESUME, Progress, passed_on
from weirlab.jobs.work import Work
from weirlab.lab.base import TestBed, WatchableBed
from weirlab.measure import profile as measuring
from weirlab.measure.calls import ROLE
from weirlab.measure.search.trials import MAX_ATTEMPTS, SearchTrialRunner
from weirlab.measure.sequence import next_index
from weirlab.measure.terms import TrialTerms
from weirlab.measure.trial import TrialEntry
from weirlab.model import QueueingModel
from weirlab.model.base import Predictor
from weirlab.model.tunnelled import tunnelled
from weirlab.records import device_in_words
from weirlab.store import Run, RunWriter
from weirlab.store.frames import completed
from weirlab.studies import beds
from weirlab.studies.beds import DeviceGround
from weirlab.studies.contract import Outcome, Study, Summary
from weirlab.traffic.schedule import compile_plan

if TYPE_CHECKING:
    from weirlab.calls.capacity.tables import CapacityEvidence
    from weirlab.report.story import Story

AROUND: Final = "sweep_around"
"""Name under which a run stores the numbers of calls of its sweep."""
RESULT: Final = "capacity"
"""Name under which a run keeps what was found."""

_EACH_S: Final = 0.8
"""What a trial with thousands of calls takes besides its traffic: schedule and assessment of calls."""


def found(run: Run) -> CapacityConclusions:
    """What ``run`` found so far."""
    return run.get_json(RESULT, CapacityConclusions) if run.has(RESULT) else CapacityConclusions()


def findings(run: Run, found: CapacityConclusions) -> CapacityEvidence:
    """The findings that page and tables are made from."""
    from weirlab.calls.capacity.tables import CapacityEvidence

    inside = (
        completed(InsideRow, run.table("inside", InsideRow)) if run.has_table("inside") else pl.DataFrame()
    )
    gaps = run.table(GAPS, CallGapRow) if run.has_table(GAPS) else pl.DataFrame()
    trials = completed(CapacityRow, run.table(CAPACITY, CapacityRow))
    return CapacityEvidence(vars(run.manifest), trials, inside, found, gaps)


@contextmanager
def _watched(bed: TestBed, wanted: bool, progress: Progress) -> Iterator[None]:
    """Run the device's own monitoring during the block, if the device has any."""
    inside = wanted and isinstance(bed, WatchableBed)
    if wanted and not inside:
        progress.note(f"the device of the lab {bed.lab} cannot be monitored: CPU and states are not measured")
    with bed.watch_inside() if inside and isinstance(bed, WatchableBed) else nullcontext():
        yield


def _around(
    scenario: CapacityScenario, carried: tuple[CallCapacity, ...], writer: RunWriter
) -> dict[int, tuple[int, ...]]:
    """The numbers of calls of the sweep; a resumed run keeps its own, whatever a new search finds."""
    if not writer.has(AROUND):
        writer.put_json(AROUND, found_counts(scenario, carried))
    return writer.run.get_json(AROUND, _counts)


def _counts(content: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(position): tuple(int(count) for count in counts) for position, counts in content.items()}


def _sweep(
    bed: TestBed,
    what: CallSweep,
    scenario: CapacityScenario,
    setting: CallTraffic,
    writer: RunWriter,
    keeper: CallRecorder,
    progress: Progress,
) -> None:
    if not what.order:
        progress.note("nothing to sweep around: the search found no number of calls")
        return
    progress.stage(f"sweep of {device_in_words(bed.dut)} in the lab {bed.lab}, run {writer.run_id}")
    terms = TrialTerms(max_attempts=scenario.capacity.max_attempts)
    sweep(bed, what, setting, writer, keeper, passed_on(progress), terms=terms)


def _search(
    bed: TestBed,
    scenario: CapacityScenario,
    setting: CallTraffic,
    writer: RunWriter,
    keeper: CallRecorder,
    progress: Progress,
) -> tuple[CallCapacity, ...]:
    wanted = scenario.capacity
    what = to_search(scenario)
    assert wanted.search is not None
    progress.stage(f"search for the most calls, run {writer.run_id}")
    phases = {"search"}
    sweep = wanted.sweep
    before = sweep is not None and bool(sweep.fixed)
    if before and sweep is not None and (sweep.trial_s, sweep.warmup_s) == (what.trial_s, what.warmup_s):
        phases.add("sweep")
    trials = SearchTrialRunner(
        bed,
        writer,
        passed_on(progress),
        terms=TrialTerms(max_attempts=max(wanted.max_attempts, MAX_ATTEMPTS)),
        first=TrialEntry(writer.run_id, next_index(writer, measuring.PLAN, SWEEP), ROLE),
        completed=lambda record: keeper.complete(record, "search", None),
    )
    carried: list[CallCapacity] = []
    for i, position in enumerate(wanted.positions):
        trials.expect(what.expected_s() * (len(wanted.positions) - i))
        known = [row for row in keeper.valid_rows if row.position == position and row.phase in phases]
        carried += search_calls(trials, what, setting, position, lambda: keeper.valid_rows[-1], known)
    return tuple(carried)


def _still_valid(writer: RunWriter, keeper: CallRecorder) -> list[CapacityRow]:
    """The rows of valid trials, without those that turned out to belong to another state of the host."""
    trials = writer.run.trials()
    valid = set(trials.filter("valid")["trial_id"].to_list())
    return [row for row in keeper.valid_rows if row.trial_id in valid]


def _model(
    work: Work, bed: TestBed, scenario: CapacityScenario, writer: RunWriter
) -> tuple[Predictor | None, str]:
    """The model to predict with and where it came from; measured first if none is named."""
    predict = scenario.capacity.predict
    if predict is None:
        return None, ""
    if predict.model is not None:
        rules, source = _named(work, predict.model)
        if predict.tunnel is None:
            return rules, source
        tunnel, behind = _named(work, predict.tunnel)
        return tunnelled(rules, tunnel), f"{source} with {behind} behind it"
    profiles.measured(bed, profile_of(scenario), writer, work.progress)
    return modelling.fit_run(writer.run, work.progress)[QueueingModel.name], writer.run_id


def _named(work: Work, source: str) -> tuple[QueueingModel, str]:
    """The queueing model of a file or a run, and what it came from."""
    device, run = modelling.find_device(work.store, source, inputs=work.inputs)
    model = device.models[QueueingModel.name]
    assert isinstance(model, QueueingModel)
    name = source if run is None else run.run_id
    return model, f"{name} (does not count: {device.unusable})" if device.unusable else name


def _foretold(scenario: CapacityScenario) -> tuple[list[str], float]:
    """How many trials of each part there are, in words, and their wall time in s if none is repeated."""
    wanted = scenario.capacity
    told, seconds = [], 0.0
    if wanted.predict is not None and wanted.predict.model is None:
        plan = profiles.to_measure(profile_of(scenario))
        told.append(f"{len(measuring.expected(plan)):,} of a profile")
        seconds += measuring.estimate_s(plan)
    if wanted.sweep is not None:
        what = wanted.sweep
        fixed = fixed_counts(scenario)
        each_position = len(what.fixed if fixed else what.around) * what.repetitions
        trials = each_position * len(wanted.positions)
        told.append(f"{'' if fixed else 'about '}{trials:,} of the sweep")
        seconds += trials * (what.warmup_s + what.trial_s + _EACH_S)
    if wanted.search is not None:
        each = to_search(scenario).expected_s()
        told.append(f"about {len(each) * len(wanted.positions):,} of the search")
        seconds += sum(each) * len(wanted.positions)
    return told, seconds


def _tell_time(scenario: CapacityScenario, bed: TestBed, progress: Progress) -> None:
    """Note, before anything is measured, how many trials there are and how long they take."""
    told, seconds = _foretold(scenario)
    # A simulated device takes no real time.
    took = "" if bed.lab == "sim" else f", about {seconds / 60:.0f} min if none has to be repeated"
    progress.note(f"trials: {', '.join(told)}{took}")


class CapacityStudy(Study[CapacityScenario, DeviceGround, CapacityFindings]):
    """A sweep over the number of calls, a search for the most, and what the model says."""

    key = "capacity"
    title = "how many calls a device carries, measured and predicted"

    def scenario(self) -> type[CapacityScenario]:
        return CapacityScenario

    def check(self, asked: CapacityScenario, work: Work) -> None:
        """Raise, before anything is built, if ``asked`` cannot be carried out."""
        wanted = asked.capacity
        setting = CallTraffic(asked.calls.calls(1), asked.dut.stateful)
        for what, count in (
            (wanted.sweep, max(wanted.sweep.fixed, default=1) if wanted.sweep else 0),
            (wanted.search, wanted.search.max_calls or wanted.search.min_calls if wanted.search else 0),
        ):
            if what is not None:
                spec = setting.spec(0, count, trial_s=what.trial_s, warmup_s=what.warmup_s)
                compile_plan(spec.traffic)
        if wanted.predict is not None and wanted.predict.model is not None:
            rules, _ = _named(work, wanted.predict.model)
            if wanted.predict.tunnel is not None:
                tunnelled(rules, _named(work, wanted.predict.tunnel)[0])
        elif wanted.predict is not None:
            profiles.refuse_impossible(profile_of(asked))

    def open(self, asked: CapacityScenario, work: Work) -> AbstractContextManager[DeviceGround]:
        """Open the bed, calibrated first if ``asked`` says so."""
        return beds.opened(work, asked.lab, asked.dut, asked.calibrate, calls=asked.calls.calls(1))

    def measure(
        self, ground: DeviceGround, asked: CapacityScenario, writer: RunWriter, work: Work
    ) -> CapacityFindings:
        """Sweep, search and predict, without repeating what the run already has."""
        scenario, bed, progress = asked, ground.bed, work.progress
        _tell_time(scenario, bed, progress)
        model, source = _model(work, bed, scenario, writer)
        places = testbeds.positions(bed, scenario.capacity.positions)
        capacity = scenario.capacity.model_copy(update={"positions": places})
        scenario = scenario.model_copy(update={"capacity": capacity})
        setting = CallTraffic(scenario.calls.calls(1), scenario.dut.stateful)
        wanted = scenario.capacity
        good_mos = wanted.search.mos if wanted.search and wanted.search.mos else 4.0
        keeper = CallRecorder(bed, writer, good_mos=good_mos)
        carried: tuple[CallCapacity, ...] = ()
        with _watched(bed, wanted.inside, progress):
            if fixed := fixed_counts(scenario):
                _sweep(bed, to_sweep(scenario, fixed), scenario, setting, writer, keeper, progress)
            if wanted.search is not None:
                carried = _search(bed, scenario, setting, writer, keeper, progress)
            if wanted.sweep is not None and not fixed:
                swept = to_sweep(scenario, _around(scenario, carried, writer))
                _sweep(bed, swept, scenario, setting, writer, keeper, progress)
        rows = _still_valid(writer, keeper)
        counted = [row.counters_agree for row in rows if row.counters_agree is not None]
        foretold: tuple[CapacityPrediction, ...] = ()
        if model is not None:
            trials = wanted.search or wanted.sweep
            trial_s, warmup_s = (trials.trial_s, trials.warmup_s) if trials else (1.0, 0.0)
            goals = goals_of(scenario)
            foretold = tuple(foretell(model, setting, goals, wanted.positions, trial_s, warmup_s))
        found = CapacityConclusions(
            sweep=tuple(dropping(rows, wanted.search.loss_ratio if wanted.search else 0.0)),
            search=carried,
            model=source,
            predicted=foretold,
            counters=CounterAgreement(len(counted), sum(counted)),
            losses=tuple(losses(rows)),
        )
        writer.put_json(RESULT, found)
        return CapacityFindings(ground.calibrated, found)

    def expected_s(self, asked: CapacityScenario) -> float:
        return _foretold(asked)[1]

    def summarize(self, outcome: Outcome[CapacityFindings]) -> Summary:
        from weirlab.calls.capacity import tables
        from weirlab.calls.capacity.findings import conclusion

        evidence = findings(outcome.run, outcome.found.results)
        return Summary(conclusion(outcome), tables.of(evidence))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.calls.capacity.findings import headlines

        return headlines(run, found(run))

    def page(self, run: Run) -> Story:
        from weirlab.calls.capacity.page import tell

        if not run.has_table(CAPACITY):
            raise InputError(
                f"run {run.run_id} was interrupted before its first trial with calls: go on with {RESUME} "
                f"{run.run_id}"
            )
        return tell(findings(run, found(run)))
