"""``weir campaign``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weirlab.base.errors import InputError, TrialError
from weirlab.cli.options import JsonOption, ReportOptions, ResultOptions, ResumeOption
from weirlab.cli.options.cluster import ClusterOptions, ProtectionOptions
from weirlab.cli.output import Session

CAMPAIGN = """Measure a matrix: every scenario, on every device, with every setting.

FILE is YAML with the key 'campaign'. Each step of the matrix is a run; they
are measured one after the other, every cell once before any a second time.
--plan checks all of them and says how many steps and trials there are and how
long they take, without measuring.

The result ranks the devices in each scenario and setting, and says which
differ from the best by more than chance; the page has a chart for every
measure. A step that the host spoils is tried again later. Ctrl-C keeps every
finished step; --resume continues.

With --cluster, the test beds of a Dask scheduler measure the steps (see weir
worker). The runs are kept here all the same, so any worker or the scheduler
may die: only the steps under way are measured again.

Examples:
  weir campaign firewalls.yaml --plan
  weir campaign firewalls.yaml --out firewalls.html
  weir campaign --resume last
  weir campaign firewalls.yaml --cluster tcp://127.0.0.1:8786
"""

WORKER = """Work for a Dask scheduler: measure, read captures or simulate.

With --testbed, this machine measures one step of a campaign at a time and
nothing else runs beside it; without, it reads captures (weir trace, weir
quality) and simulates (weir simulate) on one CPU. It works until Ctrl-C, and
looks for the scheduler again if that goes away. A test bed that fails twice
in a row is calibrated, and quarantined if packets are lost over a plain
cable; --calibrate does that before the first step. Campaigns say under
'requires' what a bed must have, such as kernel>=6.1; --tag says what this one
has besides its kernel.

Whoever reaches the scheduler can run code on its workers. So addresses other
than of this machine need tls:// and certificates, or --plain.

Examples:
  dask scheduler --host 127.0.0.1
  weir worker tcp://127.0.0.1:8786 --testbed
  weir worker tls://lab:8786 --tls-ca ca.pem --tls-cert w.pem --tls-key w.key
  weir worker tcp://127.0.0.1:8786 --testbed --tag nic=mlx5 --calibrate
"""


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    from weirlab.cli.options import grouped

    app.command("campaign", help=CAMPAIGN, rich_help_panel="Measure")(grouped(campaign))
    app.command("worker", help=WORKER, rich_help_panel="Machine")(grouped(worker))


def campaign(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="The campaign's YAML file.", metavar="FILE", show_default=False),
    ] = None,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Check and estimate; do not measure.")] = False,
    resume: ResumeOption = None,
    cluster: ClusterOptions,
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
        work, study_here = work_of(session), CampaignStudy(cluster.chosen())
        if resume is not None:
            if plan:
                raise InputError("--plan goes with a FILE")
            show(session, runner.resume(study_here, resume, work, out=report.out, plots=report.plots))
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
        show(session, runner.run(study_here, asked, work, out=report.out, plots=report.plots))


def worker(
    ctx: typer.Context,
    scheduler: Annotated[str, typer.Argument(help="Address of the scheduler.", metavar="tcp://HOST:PORT")],
    *,
    testbed: Annotated[bool, typer.Option("--testbed", help="Measure, one step at a time.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate first; end with exit code 5 if the bed is bad.")
    ] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="What this worker has, for 'requires'; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    protection: ProtectionOptions,
    json: JsonOption = False,
) -> None:
    """Work for a scheduler."""
    from weirlab.campaigns.steps import check_bed
    from weirlab.jobs import worker as working
    from weirlab.scenario import Lab

    with Session(ctx, as_json=json) as session:
        parts = [working.parse_requirement(text) for text in tag or ()]
        if wrong := [name + sign + value for name, sign, value in parts if sign != "="]:
            raise InputError(f"--tag {wrong[0]}: write NAME=VALUE")
        address = protection.address(scheduler)
        security = address.security()
        if calibrate and (why := check_bed(Lab(kind="netns"))):
            raise TrialError(f"this test bed is quarantined: {why}")
        offered = "measures steps" if testbed else "reads captures and simulates"
        session.say(f"worker of {scheduler}; it {offered} until Ctrl-C")
        working.serve(
            address.url,
            security,
            testbed=testbed,
            tags={name: value for name, _, value in parts},
            tell=session.say,
        )
