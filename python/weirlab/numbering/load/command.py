"""``weir voice load``: how many calls per second the engines of a plan set up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from weirlab.cli.options import PERCENT, ReportOptions, ResultOptions, grouped, only, typed
from weirlab.numbering.options import NumberingPlanOptions, PlanArgument, ThroughOptions, chosen

LOAD = """Find how many calls per second the engines of a plan set up.

SIPp calls a test number through the engines of the plan. A search (RFC 9971)
chooses the rates, and ends where too many calls fail or are slow. A few calls
with speech run beside them. By default, the numbers are one that a route
decides, one that ENUM decides, and one for each translation between SIP and
H.323; --number names others. An MGCP line carries one call at a time, so
translations to such a line have no rate. With --dut, all signalling and
speech of the caller pass a device under test.

The result holds only for this machine, because callers, callees and engines
share its CPUs. The table shows how much of a core each engine used. Needs
root and Debian's packages bind9, kamailio and sip-tester. Gateways need weir
voice install.

Examples:
  weir voice load --plan campus
  weir voice load --plan translations --highest 300
  weir voice load --plan mine.yaml --number +420111222001 --out load.html
  weir voice load --plan campus --setup-limit 100 --bad 0.1 --trial 10 --json
  weir voice load --plan campus --dut nftables --rules 1000
"""


@dataclass(frozen=True)
class LoadRateOptions:
    """Which rates are tried, and when one is too high; the fields are keys of ``voice_load``."""

    PANEL: ClassVar = "Rates"

    numbers: Annotated[
        list[str] | None,
        typer.Option("--number", help="Test number to call; may be repeated.", metavar="NUMBER"),
    ] = None
    lowest: Annotated[int, typer.Option(min=1, help="Lowest rate to try.", metavar="CALLS/S")] = 10
    highest: Annotated[int, typer.Option(min=2, help="Highest rate to try.", metavar="CALLS/S")] = 2000
    setup_limit_ms: Annotated[
        int, typer.Option("--setup-limit", min=1, help="Longest set-up of a good call.", metavar="MS")
    ] = 500
    bad_share: Annotated[
        float,
        typer.Option(
            "--bad", min=0.001, max=99, help="Share of bad calls that a trial may have.", metavar="PERCENT"
        ),
        PERCENT,
    ] = 1.0
    trial_s: Annotated[
        float, typer.Option("--trial", min=1, help="Seconds per trial in which calls begin.", metavar="S")
    ] = 5.0
    trials: Annotated[
        int,
        typer.Option(min=1, max=99, help="Maximum trials at a rate; fewer if they agree.", metavar="COUNT"),
    ] = 3
    width: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=50,
            help="Distance of the bounds at which the search ends.",
            metavar="PERCENT",
        ),
        PERCENT,
    ] = 5.0
    media_calls: Annotated[
        int,
        typer.Option(min=0, max=50, help="Calls with speech during each trial.", metavar="COUNT"),
    ] = 4


def add_to(voice: typer.Typer) -> None:
    voice.command("load", help=LOAD)(grouped(load))


def load(
    ctx: typer.Context,
    *,
    argument: PlanArgument = None,
    asked: NumberingPlanOptions,
    rates: LoadRateOptions,
    device: Annotated[ThroughOptions, only("dut", "rules", "stateful", "ruleset")],
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.numbering.section import LoadScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        plan = chosen(asked.plan, argument)
        section = {**asked.section(plan), **typed(rates), "through": device.through()}
        content = {"name": f"load of {plan.stem}", "voice_load": section}
        carry_out(session, content, LoadScenario, report)
