"""Runs the experiments of a publication one after the other, and answers its values and claims."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from weirlab.base.documents import typed
from weirlab.base.errors import (
    InputError,
    LabError,
    MissingCapability,
    ModelError,
    StoreError,
    TrialError,
    Undecided,
)
from weirlab.base.files import HOST_FILES
from weirlab.base.quantities import plural, words
from weirlab.base.tables import Table
from weirlab.jobs import machine, profiles, testbeds
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.work import Work
from weirlab.publications import KEYS, Publication, PublishedExperiment, publication
from weirlab.report.story import Story
from weirlab.reproduction.contract import (
    NOT_MADE,
    ROWS,
    Answer,
    ReproducedExperiment,
    ReproductionRow,
    Runs,
    rows,
)
from weirlab.reproduction.findings import (
    ExperimentDisplay,
    ReproduciblePublication,
    ReproductionFindings,
    ReproductionSection,
)
from weirlab.reproduction.pace import ReproductionPace, ReproductionTime, WholeProgress, root_of
from weirlab.scenario.model import Root
from weirlab.store import Run, RunWriter, Store
from weirlab.store.frames import frame_of
from weirlab.studies.contract import Ground, Outcome, Study, Summary
from weirlab.studies.runner import resume_scenario, run_scenario

MODULES: Final[Mapping[str, str]] = {
    "lohmiller-2022": "weirlab.reproduction.firewall",
    "ubik-psock-2007": "weirlab.reproduction.parallel",
    "ubik-tbwtools-2007": "weirlab.reproduction.debugging",
    "cesnet-routing-2007": "weirlab.reproduction.routing",
    "chertov-link-monitor": "weirlab.reproduction.monitor",
    "woernhard-2006": "weirlab.reproduction.voice",
    "kazemi-ipsec-voip": "weirlab.reproduction.ipsec",
}
"""The modules of experiments, by publication."""

clock: Callable[[], float] = time.monotonic
"""Seconds."""

_UNFINISHED: Final = ("interrupted", "failed")
"""A run fails on a full disk, for instance."""

RUNS: Final = "runs"
"""What became of every scenario: the run's ID, or why there is none."""


class ReproductionScenario(Root, title="Weir scenario: publication"):
    """A scenario that repeats a publication."""

    KEY = "reproduction"

    reproduction: ReproductionSection


def experiments(key: str) -> Sequence[ReproducedExperiment]:
    """The experiments that are made here for a publication, in the order of its file.

    Raises
    ------
    InputError
        There is no such publication.
    """
    about = publication(key)
    if key not in MODULES:
        return ()
    own = {each.key: each for each in import_module(MODULES[key]).EXPERIMENTS}
    return [own[name] for name in about.experiments if name in own]


def left_out(about: Publication) -> Mapping[str, str]:
    """The experiments of a publication that are not made here, and why."""
    made = {experiment.key for experiment in experiments(about.key)}
    return {
        key: published.reasons or NOT_MADE for key, published in about.experiments.items() if key not in made
    }


def chosen(asked: ReproductionSection) -> Sequence[ReproducedExperiment]:
    """The experiments of ``asked``; raises ``InputError`` for one that there is not."""
    made = experiments(asked.publication)
    known = {experiment.key for experiment in made}
    if unknown := [name for name in asked.only if name not in known]:
        absent = left_out(publication(asked.publication))
        why = "".join(f" ({name}: {absent[name]})" for name in unknown if name in absent)
        raise InputError(
            f"{asked.publication} has no experiment {words(unknown, 'or')} that is made here{why}; choose "
            f"from {', '.join(sorted(known))}"
        )
    return [experiment for experiment in made if not asked.only or experiment.key in asked.only]


def _planned(asked: ReproductionSection) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for experiment in chosen(asked):
        for name, scenario in experiment.scenarios(asked.quick).items():
            yield f"{experiment.key}/{name}", scenario


def expected(asked: ReproductionSection) -> ReproductionTime:
    """What the measurements of ``asked`` take."""
    return ReproductionPace(_planned(asked)).whole


def _run(scenario: Mapping[str, Any], place: str, within: Run, work: Work) -> Run:
    """The run of a scenario: begun earlier within this reproduction, also if it failed, or new."""
    name = f"{within.run_id}: {place}"
    for entry in work.store.runs():
        if entry.status in _UNFINISHED and entry.name == name:
            return resume_scenario(work.store, entry.run_id, work.progress, inputs=HOST_FILES).run
    asked = root_of(scenario, place, name)
    return run_scenario(work.store, asked, work.progress, command=work.command, inputs=HOST_FILES).run


def stored(run: Run) -> ReproductionFindings:
    """The findings of a run, finished or not, from the runs of its experiments."""
    asked = scenario_of(run, ReproductionScenario).reproduction
    about = publication(asked.publication)
    kept = _kept(run)
    tried = {experiment.key: experiment for experiment in chosen(asked)}
    answered: list[ReproductionRow] = []
    for key, published in about.experiments.items():
        if asked.only and key not in asked.only:
            continue
        if key not in tried:
            answered += rows(published, {}, NOT_MADE)
            continue
        runs, problems = _runs(run, kept, key)
        answers: dict[str, Answer] = {}
        try:
            answers.update((answer.key, answer) for answer in tried[key].answers(runs, published))
        except ModelError as error:
            # Too few trials of a profile are left for a model.
            problems.append(str(error))
        if unknown := answers.keys() - published.values.keys() - published.claims.keys():
            raise ValueError(f"{about.key}/{key} has no {', '.join(sorted(unknown))}")
        answered += rows(published, answers, "; ".join(problems) or "no valid measurement")
    return ReproductionFindings(
        about=about,
        asked=asked,
        rows=tuple(answered),
        deviations=tuple(dict.fromkeys(text for each in tried.values() for text in each.deviations)),
        left_out={} if asked.only else left_out(about),
        runs={place: each["run"] for place, each in kept.items() if "run" in each},
        problems={place: each["problem"] for place, each in kept.items() if "problem" in each},
        left=len([place for place, _ in _planned(asked) if place not in kept]),
    )


def _kept(run: Run) -> Mapping[str, Mapping[str, str]]:
    return run.get_json(RUNS, partial(typed, dict[str, dict[str, str]])) if run.has(RUNS) else {}


def _runs(run: Run, kept: Mapping[str, Mapping[str, str]], key: str) -> tuple[dict[str, Run], list[str]]:
    """The runs of one experiment, and why others are missing."""
    store = Store(run.path.parent)
    runs, problems = {}, []
    for place, became in kept.items():
        experiment, _, name = place.partition("/")
        if experiment != key:
            continue
        try:
            if "run" in became:
                found = store.open(became["run"])
                # What a profile says on a machine that was not usable is not to be compared.
                if found.manifest.kind == profiles.KIND and (refused := machine.refusal(found)):
                    problems.append(refused)
                else:
                    runs[name] = found
            else:
                problems.append(became["problem"])
        except StoreError as error:
            problems.append(str(error))
    return runs, problems


def _carried_out(run: Run) -> Iterator[tuple[ReproducedExperiment, Runs, PublishedExperiment]]:
    """Each experiment of a reproduction with its runs."""
    asked = scenario_of(run, ReproductionScenario).reproduction
    about, kept = publication(asked.publication), _kept(run)
    for experiment in chosen(asked):
        yield experiment, _runs(run, kept, experiment.key)[0], about.experiments[experiment.key]


def further_tables(run: Run) -> Iterator[Table]:
    """The tables of the experiments beside that of the answers."""
    for experiment, runs, published in _carried_out(run):
        with suppress(ModelError):
            yield from experiment.tables(runs, published)


def shown(run: Run) -> Mapping[str, ExperimentDisplay]:
    """What the page shows of each experiment beside its answers."""
    found = {}
    for experiment, runs, published in _carried_out(run):
        with suppress(ModelError):
            found[experiment.key] = ExperimentDisplay(
                tuple(experiment.figures(runs, published)),
                tuple(experiment.tables(runs, published)),
                experiment.drawing(runs),
            )
    return found


def listed() -> Sequence[ReproduciblePublication]:
    """Every publication."""
    return [
        ReproduciblePublication(
            publication(key),
            experiments(key),
            left_out(publication(key)),
            *(expected(ReproductionSection(publication=key, quick=quick)) for quick in (True, False)),
        )
        for key in KEYS
    ]


class ReproductionStudy(Study[ReproductionScenario, Ground[None], ReproductionFindings]):
    """The experiments of one publication, each a run of its own."""

    key = "reproduction"
    title = "the experiments of a publication, measured here"

    def scenario(self) -> type[ReproductionScenario]:
        return ReproductionScenario

    def check(self, asked: ReproductionScenario, work: Work) -> None:
        chosen(asked.reproduction)

    def open(self, asked: ReproductionScenario, work: Work) -> AbstractContextManager[Ground[None]]:
        # Before Weir's own work is part of the load.
        testbeds.tell_if_busy("netns", work.progress)
        return nullcontext(
            Ground(None, {"lab": "see its runs", "dut": asked.reproduction.publication, "backend": ""})
        )

    def expected_s(self, asked: ReproductionScenario) -> float:
        return expected(asked.reproduction).known_s

    def measure(
        self, ground: Ground[None], asked: ReproductionScenario, writer: RunWriter, work: Work
    ) -> ReproductionFindings:
        """Measure the scenarios that the run does not have yet, each once for all its experiments."""
        kept = dict(_kept(writer.run))
        planned = list(_planned(asked.reproduction))
        writer.finished_beside, writer.items = len(kept), "measurement"
        first = {json.dumps(scenario, sort_keys=True): place for place, scenario in reversed(planned)}
        pace = ReproductionPace(planned)
        for place in kept:
            pace.skip(place)
        if left := sum(place not in kept for place in first.values()):
            work.progress.stage(
                f"{plural(left, 'measurement')}, {pace.left().text} if no trial is repeated, run "
                f"{writer.run_id}"
            )
        for place, scenario in planned:
            if place in kept:
                continue
            if (same := first[json.dumps(scenario, sort_keys=True)]) != place:
                kept[place] = kept[same]
                writer.put_json(RUNS, kept)
                continue
            which = f"measurement {sum(one in kept for one in first.values()) + 1} of {len(first)}"
            work.progress.note(f"{place}: {which}, {pace.left().text} left")
            progress = WholeProgress(work.progress, which, pace.step_s(place), pace.left(place).known_s)
            began_s = clock()
            try:
                run = _run(scenario, place, writer.run, replace(work, progress=progress))
                kept[place] = {"run": run.run_id}
            except (MissingCapability, LabError, TrialError, ModelError, Undecided) as error:
                kept[place] = {"problem": str(error)}
                work.progress.note(f"{place}: {error}")
                pace.skip(place)
            pace.learn(place, clock() - began_s)
            writer.put_json(RUNS, kept)
            writer.finished_beside = len(kept)
        return stored(writer.run)

    def conclude(
        self, run: Run, asked: ReproductionScenario, found: ReproductionFindings
    ) -> ReproductionFindings:
        """Store the rows with the run, for ``weir export``."""
        run.put_table(ROWS, frame_of(ReproductionRow, found.rows))
        return found

    def summarize(self, outcome: Outcome[ReproductionFindings]) -> Summary:
        from weirlab.reproduction import tables

        found = outcome.found
        own = [replace(table, details=True) for table in further_tables(outcome.run)]
        return Summary(found.sentence, [*tables.tables(found.rows), *own], "\n".join(found.remarks))

    def headlines(self, run: Run) -> Sequence[str]:
        return (stored(run).sentence,)

    def page(self, run: Run) -> Story:
        from weirlab.reproduction import page

        return page.page(run, stored(run), shown(run))
