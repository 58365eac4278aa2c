"""``weir failover``, and what scenarios about failover print."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from weirlab import limits
from weirlab.cli import options
from weirlab.cli.output import Session
from weirlab.errors import InputError

FAILOVER = """Measure what happens to ongoing calls when the active firewall of a pair goes down.

Two firewalls in network namespaces share their addresses by VRRP (keepalived)
or CARP (ucarp) and their connection states by conntrackd. While calls are in
progress, the master steps down (soft), dies (hard), or comes back after its
death (return). Each packet is logged, so that the gap, the losses, the jitter
and the MOS of every call are known. Every run begins with a newly built pair.

Weir first finds how many of the calls the pair carries without loss. To
compare several pairs: weir run failover

Examples:
  weir failover --protocol keepalived --advert 0.1
  weir failover --protocol ucarp --kinds hard --repetitions 3
  weir failover --states off --calls 500 --codec g711
  weir failover --kinds soft,hard,return --nat --directions forward
  weir failover --advert 0.1 --repetitions 1 --json
"""

_PAIR = "Pair"
_CALLS = "Calls"
_PLAN = "Plan"


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("failover", help=FAILOVER, rich_help_panel="Measure")(failover)


def failover(
    ctx: typer.Context,
    protocol: Annotated[
        Literal["keepalived", "ucarp"],
        typer.Option("--protocol", help="What shares the addresses.", rich_help_panel=_PAIR),
    ] = "keepalived",
    advert: Annotated[
        float | None,
        typer.Option(
            "--advert",
            min=0,
            max=limits.LONGEST_S,
            help="Seconds between advertisements (1).",
            rich_help_panel=_PAIR,
        ),
    ] = None,
    states: Annotated[
        Literal["direct", "cached", "off"],
        typer.Option(
            "--states",
            help="conntrackd straight into the other kernel, by its external cache, or no conntrackd.",
            rich_help_panel=_PAIR,
        ),
    ] = "direct",
    preempt: Annotated[
        bool | None,
        typer.Option(
            "--preempt/--no-preempt",
            help="Does the preferred firewall take over again?",
            show_default=False,
            rich_help_panel=_PAIR,
        ),
    ] = None,
    nat: Annotated[
        bool,
        typer.Option("--nat", help="Translate the callers' addresses (forward only).", rich_help_panel=_PAIR),
    ] = False,
    backend: options.BackendOption = "auto",
    calls: Annotated[
        int,
        typer.Option(
            "--calls", min=1, max=limits.MOST_CALLS, help="Calls in progress.", rich_help_panel=_CALLS
        ),
    ] = 3000,
    codec: Annotated[
        str,
        typer.Option("--codec", help="Codec, with its packet time if wanted.", rich_help_panel=_CALLS),
    ] = "g711:60ms",
    transport: Annotated[
        Literal["rtp", "iax2", "iax2-trunk"],
        typer.Option("--transport", help="What carries the speech.", rich_help_panel=_CALLS),
    ] = "rtp",
    directions: Annotated[
        Literal["forward", "both"],
        typer.Option("--directions", help="Who talks.", rich_help_panel=_CALLS),
    ] = "both",
    kinds: Annotated[
        str,
        typer.Option("--kinds", help="Some of soft,hard,return.", metavar="KIND,...", rich_help_panel=_PLAN),
    ] = "soft,hard",
    repetitions: Annotated[
        int,
        typer.Option(
            "--repetitions",
            min=1,
            max=limits.MOST_REPETITIONS,
            help="Valid runs of each.",
            rich_help_panel=_PLAN,
        ),
    ] = 7,
    event: Annotated[
        float | None,
        typer.Option(
            "--event",
            min=0,
            max=limits.LONGEST_S,
            help="Seconds from when all calls are in progress to the event (3).",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    after: Annotated[
        float | None,
        typer.Option(
            "--after",
            min=0,
            max=limits.LONGEST_S,
            help="Seconds from the event to the end (13).",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    find_load: Annotated[
        bool,
        typer.Option(
            "--find-load/--no-find-load",
            help="Find first how many calls the pair carries without loss.",
            rich_help_panel=_PLAN,
        ),
    ] = True,
    admission: Annotated[
        Literal["closed", "open"],
        typer.Option(
            "--admission",
            help="Whether the firewalls admit what they have no state of, from shortly before the event.",
            rich_help_panel=_PLAN,
        ),
    ] = "closed",
    attempts: options.AttemptsOption = None,
    seed: options.SeedOption = 1,
    out: options.OutOption = None,
    plots: options.PlotsOption = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Measure the failover of one pair."""
    from weirlab.scenario.load import from_plain
    from weirlab.studies import runner
    from weirlab.studies.commands.scenarios import show
    from weirlab.studies.failover.section import FailoverScenario

    with Session(ctx, as_json=json, store=store) as session:
        if plots is not None and out is None:
            raise InputError("--plots needs --out: plots belong to a report")
        pair = options.plan(protocol=protocol, states=states, nat=nat, advert_s=advert, preempt=preempt)
        plan = options.plan(
            pairs=[pair],
            kinds=[kind.strip() for kind in kinds.split(",")],
            repetitions=repetitions,
            event_s=event,
            after_s=after,
            find_load=find_load,
            close_admission=admission == "closed",
            max_attempts=attempts,
            seed=seed,
        )
        content: dict[str, Any] = {
            "name": f"failover of {protocol}",
            "lab": {"backend": backend},
            "calls": {
                "count": calls,
                "codec": codec,
                "transport": transport,
                "directions": directions,
                "seed": seed,
            },
            "failover": plan,
            "report": None,
        }
        scenario = from_plain(content, "the options", FailoverScenario)
        outcome = runner.run_scenario(
            session.store, scenario, session.progress, out=out, plots=plots, command=session.command
        )
        show(session, outcome)
