"""``weir run`` and ``weir schema``: scenario files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weirlab.cli.options import JsonOption, LabKind, OutOption, PlotsOption, ResumeOption, StoreOption
from weirlab.cli.output import Session, to_json
from weirlab.errors import InputError

RUN = """Carry out a scenario from calibration to report.

Ctrl-C keeps every finished trial; --resume goes on where it stopped.

Examples:
  weir run scenarios/firewall-rules.yaml
  weir run scenarios/firewall-rules.yaml --lab sim       without root
  weir run scenarios/firewall-rules.yaml --out report.html --plots plots
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
        Path | None, typer.Argument(help="Scenario file (YAML).", metavar="SCENARIO.yaml", show_default=False)
    ] = None,
    lab: Annotated[
        LabKind | None,
        typer.Option("--lab", help="Another lab than the scenario's.", show_default=False),
    ] = None,
    out: OutOption = None,
    plots: PlotsOption = None,
    resume: ResumeOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Run a scenario."""
    from weirlab import jobs
    from weirlab.cli import tables, wording
    from weirlab.scenario import load

    with Session(ctx, as_json=json, store=store) as session:
        if (scenario is None) == (resume is None):
            raise InputError("give either a scenario file or --resume RUN")
        if scenario is not None:
            what = load(scenario)
            if lab is not None:
                what = what.model_copy(update={"lab": what.lab.model_copy(update={"kind": lab})})
            outcome = jobs.run_scenario(
                session.store, what, session.progress, out=out, plots=plots, command=session.command
            )
        else:
            assert resume is not None
            outcome = jobs.resume_scenario(session.store, resume, session.progress, out=out, plots=plots)
        session.finish(outcome.document(), wording.scenario(outcome), tables.scenario(outcome))


def schema(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Without effect: the schema is JSON.")] = False,
) -> None:
    """Print the JSON Schema."""
    from weirlab.scenario import json_schema

    print(to_json(json_schema()))
