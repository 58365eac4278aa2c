"""``weir campaign``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import ReportOptions, ResultOptions, ResumeOption

CAMPAIGN = """Measure a matrix: every scenario, on every device, with every setting.

FILE is YAML with the key 'campaign'. Each step of the matrix is a run; they are
measured one after the other, every cell once before any a second time. --plan
checks all of them and says how many steps and trials there are and how long
they take, without measuring.

The result ranks the devices in each scenario and setting, and says which differ
from the best by more than chance; the page has a chart for every measure. A
step that the host spoils is tried again later. Ctrl-C keeps every finished
step; --resume continues.

Examples:
  weir campaign firewalls.yaml --plan
  weir campaign firewalls.yaml --out firewalls.html
  weir campaign --resume last
"""


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    from weirlab.cli.options import grouped

    app.command("campaign", help=CAMPAIGN, rich_help_panel="Measure")(grouped(campaign))


def campaign(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="The campaign's YAML file.", metavar="FILE", show_default=False),
    ] = None,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Check and estimate; do not measure.")] = False,
    resume: ResumeOption = None,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    """Measure a campaign."""
    from weirlab.campaigns import CampaignStudy, study
    from weirlab.campaigns.section import CampaignScenario
    from weirlab.cli.options.results import work_of
    from weirlab.studies import runner, scenarios
    from weirlab.studies.commands.scenarios import show

    with result.session(ctx) as session:
        if (file is None) == (resume is None):
            raise InputError("give either the FILE of a campaign, or --resume RUN")
        work = work_of(session)
        if resume is not None:
            if plan:
                raise InputError("--plan goes with a FILE")
            show(session, runner.resume(CampaignStudy(), resume, work, out=report.out, plots=report.plots))
            return
        assert file is not None
        asked = scenarios.load(file)
        if not isinstance(asked, CampaignScenario):
            raise InputError(
                f"{file} is a scenario with the key '{asked.KEY}': measure it with weir run {file}"
            )
        if plan:
            found = study.estimate(asked, work)
            session.finish(found.document(), f"{found.sentence}.")
            return
        show(session, runner.run(CampaignStudy(), asked, work, out=report.out, plots=report.plots))
