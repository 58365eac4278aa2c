"""``weir run``, ``weir demo`` and ``weir schema``: scenario files."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weirlab.base import programs
from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.cli.options import (
    AsOption,
    LabKind,
    ReportOptions,
    ResultOptions,
    ResumeOption,
    completing,
    given,
    grouped,
)
from weirlab.cli.output import Session, to_json
from weirlab.cli.quantities import words
from weirlab.cli.streams import tell
from weirlab.studies import ready
from weirlab.studies.registry import SCENARIO, providing

if TYPE_CHECKING:
    from weirlab.scenario.model import Root
    from weirlab.studies.contract import Outcome

_COLUMNS: Final = 78

RUN = """Run a scenario from calibration to report.

A scenario says what to test, and how. SCENARIO is a YAML file, or the name of
a scenario that comes with Weir:
{ready}

{keys}

Ctrl-C keeps every finished trial; --resume continues where it stopped. The
result of a profile begins with a verdict on the machine: good, usable or not
usable. The exit code is 5 if the machine was not usable, and 7 if there are
too few held-out trials to judge the models.

Examples:
  weir run firewall-rules
  weir run firewall-rules --lab sim                 without root
  weir run firewall-rules --print > mine.yaml       a start for your own
  weir run mine.yaml --out report.html --plots plots
  weir run --resume last
"""

DEMO = """Show what Weir does, with a simulated firewall: no root, half a minute.

The same as: weir run firewall-rules --lab sim. Weir runs trials at many
loads, frame sizes and numbers of rules, fits models to them, compares the
predictions with held-out trials, to which no model was fitted, and writes a
report, which opens in a browser on a desktop. Simulated numbers say nothing
about real devices. Without the extra weirlab[report], there is no report, but
the answer.

With --real, Weir measures this machine's packet filter instead: as root, in
network namespaces, in about five minutes.

Examples:
  weir demo
  weir demo --real --out report.html
"""

_DEMO = "firewall-rules"

SCHEMA = """Print the JSON Schema of scenario files, for editors and other programs.

Editors with a YAML language server check and complete a scenario that begins
with the line: # yaml-language-server: $schema=scenario.schema.json

Examples:
  weir schema > scenario.schema.json
"""


@dataclass(frozen=True)
class ScenarioLabOptions:
    """Where a scenario runs."""

    lab: Annotated[
        LabKind | None,
        typer.Option(help="Lab to use instead of that of the scenario.", show_default=False),
    ] = None
    as_: AsOption = None
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before ports, a login or a command are used.")
    ] = False


def _help() -> str:
    """The help of ``weir run``, with the scenarios of the installed studies."""
    phrases = ready.phrases()
    width = max(map(len, phrases), default=0) + 2
    lines = [
        fill(phrase, _COLUMNS, initial_indent=f"  {name:<{width}} ", subsequent_indent=" " * (width + 3))
        for name, phrase in phrases.items()
    ]
    keys = f"The key at the top of a file names the kind of measurement: {words(providing(SCENARIO))}."
    return RUN.format(ready="\n".join(lines), keys=fill(keys, _COLUMNS))


def add_to(app: typer.Typer) -> None:
    app.command("run", help=_help(), rich_help_panel="Measure")(grouped(run))
    app.command("demo", help=DEMO, rich_help_panel="Machine")(grouped(demo))
    app.command("schema", help=SCHEMA, rich_help_panel="Machine")(schema)


def run(
    ctx: typer.Context,
    *,
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="Name of a scenario, or a YAML file.",
            metavar="SCENARIO",
            show_default=False,
            autocompletion=completing.scenarios,
        ),
    ] = None,
    where: ScenarioLabOptions,
    report: ReportOptions,
    resume: ResumeOption = None,
    printed: Annotated[
        bool, typer.Option("--print", help="Print the file of the scenario; do not run it.")
    ] = False,
    result: ResultOptions,
) -> None:
    from weirlab.cli.options.wired import confirm_stored
    from weirlab.jobs.models import model_file
    from weirlab.studies import runner
    from weirlab.studies.scenarios import load

    out, plots = report.out, report.plots
    with result.session(ctx) as session:
        if (scenario is None) == (resume is None):
            raise InputError(f"give either --resume RUN or a scenario: a file, or one of {ready.listed()}")
        if printed:
            _print(scenario, as_json=result.json)
            return
        if scenario is not None:
            model = None if where.as_ is None else model_file(session.store, where.as_)
            what = in_lab(load(ready.find(scenario)), where.lab, model)
            _confirm(what, yes=where.yes)
            measure(session, what, report)
        else:
            assert resume is not None
            confirm_stored(*runner.begun(session.store, resume), yes=where.yes)
            outcome = runner.resume_scenario(
                session.store, resume, session.progress, out=out, plots=plots, inputs=HOST_FILES
            )
            show(session, outcome)


def demo(
    ctx: typer.Context,
    *,
    real: Annotated[
        bool, typer.Option("--real", help="Measure this machine's packet filter, as root.")
    ] = False,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.base.extras import REPORT
    from weirlab.studies.scenarios import load

    with result.session(ctx) as session:
        shown = in_lab(load(ready.find(Path(_DEMO))), "netns" if real else "sim")
        if (report.out or report.plots) is None and REPORT.missing():
            session.say(f"no report: it needs charts; install them with: {REPORT.remedy}")
            shown = shown.model_copy(update={"report": None})
        outcome = measure(session, shown, report)
        if outcome.report is not None and sys.stdout.isatty() and not result.json:
            _open(outcome.report.path)


def _open(page: Path) -> None:
    """Show ``page`` in a browser; not as root, and only in a graphical session."""
    if os.geteuid() == 0 or not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return
    if programs.find("xdg-open") is not None and programs.find("setsid") is not None:
        command = ["setsid", "--fork", "xdg-open", str(page.absolute())]
        programs.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _confirm(scenario: Root, *, yes: bool) -> None:
    """Ask before a scenario sends by real ports."""
    from weirlab.cli.options.wired import confirm
    from weirlab.scenario import Lab

    lab = getattr(scenario, "lab", None)
    if isinstance(lab, Lab) and lab.kind == "wired":
        confirm(lab.between, yes=yes)


def carry_out(session: Session, options: dict[str, Any], kind: type[Root], report: ReportOptions) -> None:
    """Run a scenario of ``kind`` from the options of a command; see ``scenario.from_options``."""
    from weirlab.scenario import from_options

    measure(session, from_options({**options, "report": None}, kind), report)


def measure(session: Session, asked: Root, report: ReportOptions) -> Outcome[Any]:
    """Run a scenario, and print what came out."""
    from weirlab.studies import runner

    outcome = runner.run_scenario(
        session.store,
        asked,
        session.progress,
        out=report.out,
        plots=report.plots,
        command=session.command,
        inputs=HOST_FILES,
    )
    show(session, outcome)
    return outcome


def show(session: Session, outcome: Outcome[Any]) -> None:
    """Print the outcome of a study, and leave with its exit code."""
    told, problem = outcome.summary(), outcome.problem()
    session.finish(outcome.document(), told.conclusion, told.tables, problem, remark=told.remark)
    session.complain(problem)


def _print(scenario: Path | None, *, as_json: bool) -> None:
    """The file of ``scenario`` as it is, comments included."""
    from weirlab.scenario import document

    if scenario is None:
        raise InputError("--print: give a scenario, not --resume")
    path = ready.find(scenario)
    text = document.source(path)
    print(to_json({"kind": "scenario file", "path": path, "text": text}) if as_json else text.rstrip("\n"))


def in_lab(what: Root, lab: LabKind | None, model: Path | None = None) -> Root:
    """``what`` in another lab than it says, or on the device in ``model``; refused if it has no lab."""
    changes = given({"kind": lab, "model": model})
    if not changes:
        return what
    from weirlab.scenario import Lab

    section = getattr(what, "lab", None)
    if not isinstance(section, Lab):
        raise InputError(
            f"{what.KEY} scenarios always run in network namespaces, as root; leave out --lab and --as"
        )
    if lab != section.kind and "wired" in (lab, section.kind) and lab is not None:
        raise InputError(
            "--lab: the ports and your own device are keys of a scenario; write there: lab: {kind: wired, "
            "between: [A, B]}"
        )
    moved = what.model_copy(update={"lab": section.model_copy(update=changes)})
    for _, why in moved.conflicts():
        raise InputError(f"--lab, --as: {why}")
    return moved


def schema(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="No effect: the schema is JSON.")] = False,
) -> None:
    from weirlab.studies.scenarios import json_schema

    tell(to_json(json_schema()))
