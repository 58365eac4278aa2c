"""``weir run`` and ``weir schema``: scenario files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weirlab.cli.options import JsonOption, LabKind, OutOption, PlotsOption, ResumeOption, StoreOption
from weirlab.cli.output import Session, Table, to_json
from weirlab.cli.streams import tell
from weirlab.errors import InputError

if TYPE_CHECKING:
    from weirlab.jobs.scenarios import AnyOutcome
    from weirlab.scenario import AnyScenario

RUN = """Carry out a scenario from calibration to report.

SCENARIO is a file, or the name of one that comes with Weir:
  firewall-rules   what rules cost: measured, modelled, predicted, verified
  full-profile     every trial that characterises a device
  call-capacity    how many calls a device carries, measured and predicted
  failover         redundant pairs: protocols, timers and states compared
  link-monitor     a link monitor put to the test, beside tcpdump

What a file is about shows in a key at its top: profile, capacity (in calls),
failover (of a redundant pair), or monitor (of a link).

Ctrl-C keeps every finished trial; --resume goes on where it stopped. A profile
says first what the machine was good for. Where it was not usable, or the
held-out trials are too few to judge the models, the exit code is 5 or 7.

Examples:
  weir run firewall-rules
  weir run firewall-rules --lab sim                 without root
  weir run firewall-rules --print > mine.yaml       a start for your own
  weir run mine.yaml --out report.html --plots plots
  weir run --resume last
"""

SCHEMA = """Print the JSON Schema of scenario files, for editors and other programs.

Editors with a YAML language server check and complete a scenario that begins
with the line: # yaml-language-server: $schema=scenario.schema.json

Examples:
  weir schema > scenario.schema.json
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("run", help=RUN, rich_help_panel="Measure")(run)
    app.command("schema", help=SCHEMA, rich_help_panel="Machine")(schema)


def run(
    ctx: typer.Context,
    scenario: Annotated[
        Path | None,
        typer.Argument(help="Scenario, by name or as a YAML file.", metavar="SCENARIO", show_default=False),
    ] = None,
    lab: Annotated[
        LabKind | None,
        typer.Option("--lab", help="Another lab than the scenario's.", show_default=False),
    ] = None,
    out: OutOption = None,
    plots: PlotsOption = None,
    resume: ResumeOption = None,
    printed: Annotated[
        bool, typer.Option("--print", help="Print the scenario's file instead of running it.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Run a scenario."""
    from weirlab import jobs
    from weirlab.cli import wording
    from weirlab.scenario import load, ready

    with Session(ctx, as_json=json, store=store) as session:
        if (scenario is None) == (resume is None):
            raise InputError(f"give either --resume RUN or a scenario: a file, or one of {ready.listed()}")
        if printed:
            _print(scenario, as_json=json)
            return
        if scenario is not None:
            what = _in_lab(load(ready.find(scenario)), lab)
            outcome = jobs.run_scenario(
                session.store, what, session.progress, out=out, plots=plots, command=session.command
            )
        else:
            assert resume is not None
            outcome = jobs.resume_scenario(session.store, resume, session.progress, out=out, plots=plots)
        conclusion, tables = _told(outcome)
        problem = outcome.problem()
        lead = wording.machine(outcome.verdict) if isinstance(outcome, jobs.ScenarioOutcome) else ""
        session.finish(outcome.document(), conclusion, tables, problem, lead)
        session.complain(problem)


def _print(scenario: Path | None, *, as_json: bool) -> None:
    """The file of ``scenario`` as it is, comments included."""
    from weirlab.scenario import document, ready

    if scenario is None:
        raise InputError("--print: give a scenario, not --resume")
    path = ready.find(scenario)
    text = document.source(path)
    print(to_json({"kind": "scenario file", "path": path, "text": text}) if as_json else text.rstrip("\n"))


def _in_lab(what: AnyScenario, lab: LabKind | None) -> AnyScenario:
    """``what`` in another lab than it says; refused where it has none to choose."""
    if lab is None:
        return what
    from weirlab.scenario import Lab

    section = getattr(what, "lab", None)
    if not isinstance(section, Lab):
        raise InputError(
            f"--lab: {what.KEY} scenarios always run in network namespaces, as root; leave --lab out"
        )
    return what.model_copy(update={"lab": section.model_copy(update={"kind": lab})})


def _told(outcome: AnyOutcome) -> tuple[str, list[Table]]:
    """Conclusion and tables in the manner of the scenario's kind."""
    from weirlab import jobs

    if isinstance(outcome, jobs.CapacityOutcome):
        from weirlab.cli.calls import capacity

        return capacity.conclusion(outcome), capacity.tables(outcome)
    if isinstance(outcome, jobs.FailoverOutcome):
        from weirlab.cli.calls import failover

        return failover.conclusion(outcome), failover.tables(outcome)
    if isinstance(outcome, jobs.MonitorOutcome):
        from weirlab.cli import monitored

        return monitored.conclusion(outcome), monitored.tables(outcome)
    from weirlab.cli import tables, wording

    return wording.scenario(outcome), tables.scenario(outcome)


def schema(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Without effect: the schema is JSON.")] = False,
) -> None:
    """Print the JSON Schema."""
    from weirlab.scenario import json_schema

    tell(to_json(json_schema()))
