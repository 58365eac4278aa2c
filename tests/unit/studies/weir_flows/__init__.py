"""Does a device mind how many flows its packets belong to? A study in a package of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import typer

from weirlab.base.errors import TrialError
from weirlab.base.tables import Table
from weirlab.cli.options import JsonOption, StoreOption
from weirlab.cli.output import Session
from weirlab.cli.quantities import count, duration
from weirlab.jobs.progress import passed_on
from weirlab.measure import sequence
from weirlab.records import RuleSetup, TrialSpec
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.scenario.model import Dut, Lab, Root, Section
from weirlab.scenario.values import RateText, Seconds
from weirlab.store import Run, RunWriter
from weirlab.studies import Outcome, Study, Summary, Work
from weirlab.studies.beds import DeviceGround, opened
from weirlab.studies.runner import run_scenario
from weirlab.traffic.load import parse_rate
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Traffic

FRAME_BYTES = 218
"""Of a G.711 packet of 20 ms."""


class FlowCounts(Section):
    """The section ``flows`` of a scenario."""

    counts: tuple[int, ...] = (1, 100, 10_000)
    """Numbers of flows."""
    rate: RateText = "50kpps"
    """The load, the same for each of them."""
    trial_s: Seconds = 0.2
    """Recorded part of a trial, in s."""


class FlowsScenario(Root):
    """A scenario about the number of flows."""

    KEY = "flows"

    lab: Lab = Lab()
    dut: Dut = Dut()
    flows: FlowCounts = FlowCounts()

    def specs(self) -> list[TrialSpec]:
        """A trial for each number of flows."""
        asked = self.flows
        traffic = Traffic(parse_rate(asked.rate), Constant(FRAME_BYTES), duration_s=asked.trial_s)
        many = [replace(traffic, flows=Flows(number)) for number in asked.counts]
        return [TrialSpec(each, RuleSetup(stateful=self.dut.stateful)) for each in many]


@dataclass(frozen=True)
class FlowsFindings:
    """The median delay in ns by the number of flows."""

    delay_ns: dict[int, float]
    planned: int

    def document(self) -> dict[str, Any]:
        return {"median_delay_ns": {str(number): ns for number, ns in self.delay_ns.items()}}

    def problem(self, run: Run) -> TrialError | None:
        missing = self.planned - len(self.delay_ns)
        return TrialError(f"{missing} trials of run {run.run_id} have no valid attempt") if missing else None

    def rows(self) -> list[tuple[str, str]]:
        return [(count(number), duration(ns)) for number, ns in self.delay_ns.items()]

    def table(self) -> Table:
        return Table("Delay", ("Flows", "Median delay"), self.rows())

    @property
    def sentence(self) -> str:
        if len(self.delay_ns) < 2:
            return "Too few trials were valid to compare numbers of flows."
        (few, first), *_, (many, last) = self.delay_ns.items()
        return (
            f"With {count(many)} flows the median delay is {last / first:.2f} times that with {count(few)}."
        )


def found_in(run: Run, planned: int) -> FlowsFindings:
    valid = run.trials().filter(pl.col("valid")).sort("flows")
    return FlowsFindings(dict(valid.select("flows", "delay_p50_ns").iter_rows()), planned)


class FlowsStudy(Study[FlowsScenario, DeviceGround, FlowsFindings]):
    """Delay over the number of flows, at one load."""

    key = "flows"
    title = "whether a device minds how many flows there are"
    commands = {"weir_flows": ("flows",)}
    ready = {"many-flows": "whether a device minds how many flows there are"}

    def scenario(self) -> type[FlowsScenario]:
        return FlowsScenario

    def open(self, asked: FlowsScenario, work: Work) -> AbstractContextManager[DeviceGround]:
        return opened(work, asked.lab, asked.dut, None)

    def measure(
        self, ground: DeviceGround, asked: FlowsScenario, writer: RunWriter, work: Work
    ) -> FlowsFindings:
        specs = asked.specs()
        told = passed_on(work.progress)
        sequence.run(ground.bed, specs, writer, sequence.Part("single", "flows-plan"), told)
        return found_in(writer.run, len(specs))

    def summarize(self, outcome: Outcome[FlowsFindings]) -> Summary:
        return Summary(outcome.found.sentence, [outcome.found.table()])

    def page(self, run: Run) -> Story:
        found = found_in(run, 0)
        facts = run.manifest.facts
        return Story(
            subject="Flows and delay",
            manifest=vars(run.manifest),
            simulated=run.simulated,
            answer=found.sentence,
            place=place(vars(run.manifest), facts["lab"], facts["dut"]),
            tiles=tuple(Tile(f"{number} flows", delay, "median delay") for number, delay in found.rows()),
            chapters=(Chapter("delay", "Delay", tables=(found.table(),)),),
        )


def add_to(app: typer.Typer) -> None:
    """Add the command; Weir calls this for the modules in ``commands``."""
    app.command("flows", rich_help_panel="Measure")(flows)


def flows(ctx: typer.Context, store: StoreOption = None, json: JsonOption = False) -> None:
    """Compare the delay of few flows and of many, through a simulated device."""
    from weirlab.studies.commands.scenarios import show

    with Session(ctx, as_json=json, store=store) as session:
        asked = FlowsScenario(name="many flows", lab=Lab(kind="sim"), report=None)
        show(session, run_scenario(session.store, asked, session.progress, command=session.command))
