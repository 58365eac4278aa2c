"""Searches for throughput (RFC 9971) and the tests of RFC 2544, from options to a stored run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.base.documents import document_of, plain
from weirlab.base.errors import TrialError
from weirlab.devices.search.rfc2544.suite import Result, Rfc2544Suite, run_suite
from weirlab.jobs import testbeds
from weirlab.jobs.calibrations import in_force
from weirlab.jobs.progress import kept, passed_on
from weirlab.jobs.trials import wire_ns
from weirlab.jobs.work import Work
from weirlab.measure.search.goal import SearchGoal
from weirlab.measure.search.throughput import Point, SearchShape, Setting, expected_s, search_setting, whole
from weirlab.measure.search.trials import MAX_ATTEMPTS, SearchTrialRunner
from weirlab.measure.terms import TrialTerms
from weirlab.records import device_in_words
from weirlab.scenario import Dut, Lab
from weirlab.store import Run
from weirlab.traffic.schedule import compile_plan

SEARCH: Final = "search"
RFC2544: Final = "rfc2544"
RESULT: Final = "result"
"""Name under which a run keeps what was found."""


@dataclass(frozen=True)
class SearchConditions:
    """What a result was measured with."""

    lab: str
    dut: str
    backend: str
    calibration: str | None


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found in each setting."""

    run: Run
    conditions: SearchConditions
    shape: SearchShape
    goals: tuple[SearchGoal, ...]
    points: tuple[Point, ...]
    trials: int
    elapsed_s: float

    def document(self) -> dict[str, Any]:
        return dict(plain({**_head(self, SEARCH), "goals": self.goals, "points": self.points}))

    def problem(self) -> TrialError | None:
        """The error to report if the host spoiled a search."""
        return _problem(
            [f"{point.setting.text}: {point.problem}" for point in self.points if point.problem],
            self.run.run_id,
        )


@dataclass(frozen=True)
class Rfc2544Outcome:
    """What the tests of RFC 2544 found in each setting."""

    run: Run
    conditions: SearchConditions
    shape: SearchShape
    suite: Rfc2544Suite
    results: tuple[Result, ...]
    trials: int
    elapsed_s: float

    def document(self) -> dict[str, Any]:
        facts = self.run.manifest.facts
        on_wire = [wire_ns(facts, result.setting.frame_bytes) for result in self.results]
        known = {"wire_ns": on_wire} if any(on_wire) else {}
        return dict(plain({**_head(self, RFC2544), "suite": self.suite, "results": self.results, **known}))

    def problem(self) -> TrialError | None:
        """The error to report if a test has no result."""
        return _problem(
            [f"{result.setting.text}: {text}" for result in self.results for text in result.problems],
            self.run.run_id,
        )


@dataclass(frozen=True)
class SearchPlan:
    """What is measured: the device, its lab, the settings, and what all trials have in common."""

    lab: Lab
    dut: Dut
    settings: Sequence[Setting]
    shape: SearchShape
    any_size: bool = False
    """Frames may be longer than the settings say, if those that the user's rules take need more room."""


def search(
    work: Work, asked: SearchPlan, goals: Sequence[SearchGoal], *, attempts: int = MAX_ATTEMPTS
) -> SearchOutcome:
    """Search ``goals`` in each setting; every trial and the result are kept in a run.

    A setting whose search the host spoiled is searched once more after all the others.

    Raises
    ------
    FailedTrial
        The device forwards nothing.
    """
    shape = asked.shape
    _check(asked, [goal.trial_s for goal in goals])
    points: list[Point] = []

    def measure(
        settings: Sequence[Setting], trials: SearchTrialRunner, keep: Callable[[Any], object]
    ) -> None:
        each_s = expected_s(shape, goals)
        for i, setting in enumerate(settings):
            trials.expect(each_s * (len(settings) - i))
            points.append(search_setting(trials, setting, shape, goals))
            keep(points)
        spoiled = [i for i, point in enumerate(points) if point.problem]
        for done, i in enumerate(spoiled):
            work.progress.note(f"the host spoiled the search at {settings[i].text}: searching there again")
            trials.expect(each_s * (len(spoiled) - done))
            points[i] = points[i].then(search_setting(trials, settings[i], shape, goals))
            keep(points)

    what = {"goals": goals}

    def finding(dut: str) -> str:
        from weirlab.devices.search.findings import search_finding

        return search_finding(points, dut) if points else ""

    done = _carry_out(work, asked, _SearchKind(SEARCH, what, measure, finding), attempts)
    return SearchOutcome(done.run, done.conditions, shape, tuple(goals), tuple(points), done.trials, done.s)


def rfc2544(
    work: Work, asked: SearchPlan, suite: Rfc2544Suite, *, attempts: int = MAX_ATTEMPTS
) -> Rfc2544Outcome:
    """Do the tests of ``suite`` in each setting; every trial and the result are kept in a run.

    Raises
    ------
    FailedTrial
        The device forwards nothing.
    """
    shape = asked.shape
    _check(asked, [suite.goal.trial_s, suite.latency_s, suite.loss_s])
    results: list[Result] = []

    def measure(
        settings: Sequence[Setting], trials: SearchTrialRunner, keep: Callable[[Any], object]
    ) -> None:
        for result in run_suite(trials, settings, shape, suite):
            results.append(result)
            keep(results)

    def finding(dut: str) -> str:
        from weirlab.devices.search.findings import rfc2544_finding

        return rfc2544_finding(results[0], dut) if results else ""

    what = _SearchKind(RFC2544, document_of(suite), measure, finding)
    done = _carry_out(work, asked, what, attempts)
    return Rfc2544Outcome(done.run, done.conditions, shape, suite, tuple(results), done.trials, done.s)


@dataclass(frozen=True)
class _SearchKind:
    """The kind of the run, what its manifest says about the goals, and the function that makes the trials."""

    kind: str
    goals: Mapping[str, Any]
    measure: Callable[[Sequence[Setting], SearchTrialRunner, Callable[[Any], object]], None]
    finding: Callable[[str], str]
    """What was found of a device so far, without a full stop; empty if nothing is finished."""


@dataclass(frozen=True)
class _SearchRun:
    run: Run
    conditions: SearchConditions
    trials: int
    s: float


def _carry_out(work: Work, asked: SearchPlan, what: _SearchKind, attempts: int) -> _SearchRun:
    """Build the bed, begin a run, let ``what`` make the trials, and report what the host did meanwhile."""
    store, progress, kind = work.store, work.progress, what.kind
    settings = list(asked.settings)
    sizes = [] if asked.any_size else [setting.sizes for setting in settings]
    flows, inputs = asked.shape.flows, work.inputs
    with testbeds.open_bed(asked.lab, asked.dut, progress, flows, sizes=sizes, inputs=inputs) as bed:
        if asked.any_size:
            settings = [
                replace(each, sizes=testbeds.roomy(bed, flows, (each.sizes,))[0]) for each in settings
            ]
        settings = [replace(each, rules=testbeds.rule_setup(bed, each.rules)) for each in settings]
        bed.set_rules(settings[0].rules)  # If it refuses them, there is nothing to keep.
        calibration = in_force(store, bed)
        conditions = SearchConditions(bed.lab, bed.dut, bed.backend, calibration.id if calibration else None)
        scenario = {
            "name": work.run_name(
                "RFC 2544 tests of" if kind == RFC2544 else "search of", asked.dut, device_in_words(bed.dut)
            ),
            "lab": asked.lab.model_dump(mode="json"),
            "dut": asked.dut.model_dump(mode="json"),
            kind: {**what.goals, "settings": settings, **document_of(asked.shape)},
        }
        facts = testbeds.facts(bed, work.command)
        with kept(lambda: store.create(kind, scenario, facts, calibration=conditions.calibration)) as writer:
            device = device_in_words(bed.dut)
            progress.stage(f"{_TITLES[kind]} of {device} in the lab {bed.lab}, run {writer.run_id}")
            trials = SearchTrialRunner(
                bed, writer, passed_on(progress), terms=TrialTerms(max_attempts=attempts)
            )
            try:
                what.measure(settings, trials, lambda found: writer.put_json(RESULT, found))
            except KeyboardInterrupt:
                if finding := what.finding(bed.dut):
                    progress.note(f"found so far: {finding}; all of it: weir report {writer.run_id}")
                raise
    apart = len(writer.done) - int(writer.run.trials()["valid"].sum())
    if apart > 0:
        progress.note(
            f"the host was in another state during {apart} of {trials.done} trials (see weir show): bounds "
            "found meanwhile may belong to that state; search again if it matters"
        )
    return _SearchRun(writer.run, conditions, trials.done, trials.elapsed_s)


_TITLES: Final = {SEARCH: "searching the throughput", RFC2544: "RFC 2544 tests"}


def _check(asked: SearchPlan, durations_s: Sequence[float]) -> None:
    """Refuse impossible traffic before anything is built."""
    shape = asked.shape
    for setting in asked.settings:
        for duration_s in durations_s:
            compile_plan(shape.spec(setting, whole(shape.min_load_pps), duration_s, "").traffic)


def _head(outcome: SearchOutcome | Rfc2544Outcome, kind: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "run_id": outcome.run.run_id,
        "path": outcome.run.path,
        **vars(outcome.conditions),
        "trials": outcome.trials,
        "elapsed_s": outcome.elapsed_s,
    }


def _problem(problems: Sequence[str], run_id: str) -> TrialError | None:
    if not problems:
        return None
    return TrialError(f"not everything was found: {'; '.join(problems)} (run {run_id})")
