"""``weir reproduce``."""

from __future__ import annotations

from typing import Annotated

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import ReportOptions, ResultOptions, ResumeOption

REPRODUCE = """Repeat the experiments of a publication, and show its numbers beside ours.

Without PUBLICATION, list the publications. Otherwise measure its experiments
on this machine, with its settings where they can be had: one row for each
published value or claim, with what was measured here. A claim is decided by
a test of its shape, which is shown; a value that belongs to the authors'
hardware stands beside ours and is not judged.

Ctrl-C keeps every finished experiment; --resume continues.

Examples:
  weir reproduce
  weir reproduce ubik-psock-2007 --quick --out psock.html
  weir reproduce woernhard-2006 --only failover-soft
  weir reproduce --resume last
"""


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    from weirlab.cli.options import grouped

    app.command("reproduce", help=REPRODUCE, rich_help_panel="Model")(grouped(reproduce))


def reproduce(
    ctx: typer.Context,
    publication: Annotated[str | None, typer.Argument(help="The publication.", metavar="PUBLICATION")] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="In ten minutes at most.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only this experiment; repeatable.", metavar="EXPERIMENT"),
    ] = None,
    resume: ResumeOption = None,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    """Reproduce."""
    from weirlab.jobs.work import Work
    from weirlab.publications import key_of
    from weirlab.reproduction import study, tables
    from weirlab.studies import runner
    from weirlab.studies.commands.scenarios import carry_out, show

    with result.session(ctx) as session:
        if resume is not None:
            if publication is not None or only or quick:
                raise InputError("--resume continues a run as it was begun: leave the other options out")
            work = Work(session.store, session.progress)
            outcome = runner.resume(
                study.ReproductionStudy(), resume, work, out=report.out, plots=report.plots
            )
            show(session, outcome)
        elif publication is None:
            listed = study.listed()
            document = {"kind": "publications", "publications": [each.document() for each in listed]}
            sentence = "Measure one here: weir reproduce PUBLICATION --quick"
            session.finish(document, sentence, tables.overview(listed))
        else:
            publication = key_of(publication)
            about = {"publication": publication, "quick": quick, "only": only or ()}
            name = f"reproduction of {publication}"
            carry_out(session, {"name": name, "reproduction": about}, study.ReproductionScenario, report)
