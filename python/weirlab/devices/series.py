"""Trials at listed settings, each as often as the others: for a question that no other study asks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Final, Literal

import polars as pl
from pydantic import AfterValidator, Field

from weirlab.base import limits
from weirlab.base.errors import TrialError
from weirlab.base.quantities import plural
from weirlab.base.tables import Table
from weirlab.cli.quantities import count, duration, percent, rate
from weirlab.jobs import machine
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import passed_on
from weirlab.jobs.work import Work
from weirlab.measure import sequence
from weirlab.measure.progress import estimate_s
from weirlab.measure.terms import TrialTerms
from weirlab.records import RuleSetup, TrialSpec
from weirlab.report import courses
from weirlab.report.axes import extent
from weirlab.report.figure import Figure
from weirlab.report.rows import RowMark, RowText, intervals
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.scenario.conflicts import Conflict, of_device, of_lab
from weirlab.scenario.model import Dut, Lab, Root, Section, TrafficShape
from weirlab.scenario.values import (
    MayBeEmpty,
    NotEmpty,
    PlacesText,
    Position,
    RateText,
    Repetitions,
    Seconds,
    SizesText,
    WarmUp,
)
from weirlab.store import Run, RunWriter
from weirlab.store.steps import step_series
from weirlab.studies import beds
from weirlab.studies.beds import DeviceGround
from weirlab.studies.contract import Measure, Outcome, Study, Summary
from weirlab.traffic.load import parse_rate
from weirlab.traffic.places import parse_places
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import parse_sizes
from weirlab.traffic.spec import LoadStep, Traffic

PLAN: Final = "series-plan"


class SettingStep(Section):
    """A change while traffic is sent."""

    at_s: Seconds
    """Time from the start of recording, in s."""
    rate: RateText | None = None
    """The load from then on; left out: unchanged."""
    position: Annotated[int, Field(strict=True, ge=1, le=limits.MOST_RULES)] | None = None
    """The matching position from then on; left out: unchanged."""


class TrialSetting(Section):
    """One setting."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """What tables call it."""
    rate: RateText
    """Offered load."""
    sizes: SizesText = "64"
    """Frame size with FCS, or a mix."""
    position: Position = 0
    """Matching position: number of rules up to and including the one that accepts; 0: no rules."""
    places: PlacesText | None = None
    """Instead of ``position``: several at once, as ``position:weight``."""
    stateful: bool = False
    """Connection tracking comes before the rules."""
    cross_traffic: bool = False
    """A management session is open on the device."""
    l4: Literal["udp", "tcp"] | None = None
    """Left out: as in ``traffic``."""
    steps: Annotated[tuple[SettingStep, ...], MayBeEmpty] = ()
    """Changes in mid-trial."""
    trial_s: Seconds | None = None
    """Recorded part of its trials, in s; left out: as in ``series``."""


def _distinct(settings: tuple[TrialSetting, ...]) -> tuple[TrialSetting, ...]:
    names = [setting.name for setting in settings]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"several settings are called {', '.join(twice)}")
    return settings


class SeriesSection(Section):
    """The section ``series`` of a scenario."""

    settings: Annotated[tuple[TrialSetting, ...], NotEmpty, AfterValidator(_distinct)]
    """What to measure; each once before any a second time."""
    repetitions: Repetitions = 3
    """Trials per setting."""
    trial_s: Seconds = 0.1
    """Recorded part of a trial, in s."""
    warmup_s: WarmUp = 0.03
    """Time of traffic before recording, in s."""


class SeriesScenario(Root, title="Weir scenario: listed trials"):
    """A scenario that lists its trials."""

    KEY = "series"

    lab: Lab = Lab()
    dut: Dut = Dut()
    traffic: TrafficShape = TrafficShape()
    series: SeriesSection

    def conflicts(self) -> Iterator[Conflict]:
        positions = tuple(dict.fromkeys(setting.position for setting in self.series.settings))
        yield from of_lab(self.lab, self.dut)
        yield from of_device(self.dut, iter([(("series", "settings"), positions)]))

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        yield ("series",), len(self.series.settings) * self.series.repetitions

    def specs(self) -> list[TrialSpec]:
        """The trials, repetition after repetition."""
        section = self.series
        return [
            self._spec(setting, repetition)
            for repetition in range(section.repetitions)
            for setting in section.settings
        ]

    def _spec(self, setting: TrialSetting, repetition: int) -> TrialSpec:
        flows, section = self.traffic.demand(), self.series
        traffic = Traffic(
            parse_rate(setting.rate),
            parse_sizes(setting.sizes),
            replace(flows, l4=setting.l4 or flows.l4),
            self.traffic.arrivals,
            tuple(
                LoadStep(step.at_s, None if step.rate is None else parse_rate(step.rate), step.position)
                for step in setting.steps
            ),
            warmup_s=section.warmup_s,
            duration_s=setting.trial_s or section.trial_s,
            seed=self.traffic.seed + repetition,
        )
        stateful = setting.stateful or self.dut.stateful
        return TrialSpec(traffic, _rules(setting, stateful), setting.name, setting.cross_traffic)


def _rules(setting: TrialSetting, stateful: bool) -> RuleSetup:
    """A rule at each position of the setting; those of later steps have no share at first."""
    later = {step.position for step in setting.steps if step.position is not None}
    if setting.places is not None:
        shares = dict(parse_places(setting.places))
    elif later:
        shares = {setting.position: 1.0}
    else:
        return RuleSetup(setting.position, stateful)
    shares = {**dict.fromkeys(later, 0.0), **shares}
    return RuleSetup.mixed(tuple(sorted(shares.items())), stateful)


_MEASURES: Final[tuple[tuple[str, str, Literal["pps", "ratio", "ns"], Literal["more", "less"]], ...]] = (
    ("forwarding_pps", "forwarding rate", "pps", "more"),
    ("loss_ratio", "loss", "ratio", "less"),
    ("delay_p50_ns", "median delay", "ns", "less"),
    ("delay_p99_ns", "p99 delay", "ns", "less"),
)


@dataclass(frozen=True)
class ListedTrials:
    """The valid trials of each setting."""

    names: Sequence[str]
    valid: pl.DataFrame
    """Rows of the table ``trials``."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Medians over the trials of each setting, NaN without any."""
        columns = (
            "achieved_pps",
            "forwarding_pps",
            "loss_ratio",
            "delay_mean_ns",
            "delay_p50_ns",
            "delay_p99_ns",
        )
        found = []
        for name in self.names:
            own = self.valid.filter(label=name)
            medians = {column: own[column].median() for column in columns}
            found.append(
                {
                    "setting": name,
                    "trials": own.height,
                    **{column: math.nan if value is None else value for column, value in medians.items()},
                }
            )
        return found

    @property
    def measures(self) -> list[Measure]:
        """The medians that rank devices."""
        return [
            Measure(f"{name}, {row['setting']}", row[column], unit, better)
            for row in self.rows
            if row["trials"]
            for column, name, unit, better in _MEASURES
        ]

    @property
    def sentence(self) -> str:
        """How many settings were measured."""
        full = sum(row["trials"] > 0 for row in self.rows)
        trials = plural(self.valid.height, "valid trial")
        return f"{full} of {plural(len(self.names), 'setting')} measured, {trials}."

    @property
    def tables(self) -> Sequence[Table]:
        """Medians per setting."""
        columns = (
            "Setting", "Load", "Forwarded", "Lost", "Mean delay", "Median", "99th percentile", "Trials",
        )  # fmt: skip
        return (
            Table(
                "Medians of the trials",
                columns,
                [
                    (
                        row["setting"],
                        rate(row["achieved_pps"]),
                        rate(row["forwarding_pps"]),
                        percent(row["loss_ratio"]),
                        *(duration(row[name]) for name in ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns")),
                        count(row["trials"]),
                    )
                    for row in self.rows
                ],
                spare=("Forwarded", "Median"),
            ),
        )

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The delay in each setting."""
        title = "Mean delay in each setting."
        text = RowText(
            "delays", "settings", title, "Mean delay, µs", "Point: median of the trials; line: all of them."
        )
        delays = {row["setting"]: row["delay_mean_ns"] for row in self.rows}
        marks = []
        for name, median_ns in delays.items():
            if math.isfinite(median_ns):
                low_ns, high_ns = extent(self.valid.filter(label=name), "delay_mean_ns")
                marks.append(RowMark(name, median_ns / 1e3, low_ns / 1e3, high_ns / 1e3))
        return intervals(text, marks)

    def document(self) -> dict[str, Any]:
        return {"kind": "series", "settings": self.rows}

    def problem(self, run: Run) -> TrialError | None:
        """The error to report if a setting has no valid trial."""
        missing = [row["setting"] for row in self.rows if not row["trials"]]
        if not missing:
            return None
        return TrialError(f"run {run.run_id} has no valid trial of {', '.join(missing)}")


def stored(run: Run) -> ListedTrials:
    """The trials of a run, finished or not."""
    asked = scenario_of(run, SeriesScenario)
    valid = run.trials().filter("valid")
    return ListedTrials([setting.name for setting in asked.series.settings], valid)


def _course(run: Run, valid: pl.DataFrame) -> Iterator[Chapter]:
    """The trials with steps over time; their series are read only if there are any."""
    if not any(json.loads(text)["traffic"].get("steps") for text in valid["spec"]):
        return
    steps = step_series(valid, run.series())
    if figures := courses.figures(steps):
        note = courses.left_out(steps)
        yield Chapter(courses.SECTION, "Load and delay over time", "Course", figures=figures, note=note)


class SeriesStudy(Study[SeriesScenario, DeviceGround, ListedTrials]):
    """A series of trials."""

    key = "series"
    title = "trials at listed settings, to compare them"

    def scenario(self) -> type[SeriesScenario]:
        return SeriesScenario

    def check(self, asked: SeriesScenario, work: Work) -> None:
        """Raise ``InputError`` for traffic that cannot be sent, before anything is built."""
        for spec in asked.specs():
            compile_plan(spec.traffic, spec.rules.places)

    def open(self, asked: SeriesScenario, work: Work) -> AbstractContextManager[DeviceGround]:
        """Open the device's bed."""
        sizes = [parse_sizes(setting.sizes) for setting in asked.series.settings]
        return beds.opened(work, asked.lab, asked.dut, None, flows=asked.traffic.demand(), sizes=sizes)

    def measure(
        self, ground: DeviceGround, asked: SeriesScenario, writer: RunWriter, work: Work
    ) -> ListedTrials:
        """Make the trials that the run does not have yet, spoiled ones again while the time lasts."""
        specs, bed = asked.specs(), ground.bed
        terms = TrialTerms(machine.PROFILE_LIMITS, None, machine.time_for(bed, estimate_s(specs)))
        sequence.run(bed, specs, writer, sequence.Part("single", PLAN), passed_on(work.progress), terms=terms)
        return stored(writer.run)

    def summarize(self, outcome: Outcome[ListedTrials]) -> Summary:
        return Summary(outcome.found.sentence, outcome.found.tables)

    def expected_s(self, asked: SeriesScenario) -> float:
        return estimate_s(asked.specs())

    def measures(self, run: Run) -> Sequence[Measure]:
        return stored(run).measures

    def headlines(self, run: Run) -> Sequence[str]:
        return (stored(run).sentence,)

    def page(self, run: Run) -> Story:
        found = stored(run)
        facts = run.manifest.facts
        return Story(
            subject="Trials at listed settings",
            manifest=vars(run.manifest),
            simulated=run.simulated,
            answer=found.sentence,
            place=place(vars(run.manifest), facts["lab"], facts["dut"]),
            tiles=(Tile("settings", str(len(found.names)), "one after the other, repeated"),),
            chapters=(
                Chapter("settings", "Settings", figures=found.figures, tables=tuple(found.tables)),
                *_course(run, found.valid),
            ),
        )
