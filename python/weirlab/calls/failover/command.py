"""``weir failover``, and what scenarios about failover print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.cli.options import (
    WORDS,
    DeviceOptions,
    OptionReading,
    ReportOptions,
    ResultOptions,
    SeedOption,
    TrialsOptions,
    grouped,
    only,
    typed,
)

FAILOVER = """Measure what happens to calls when the active firewall of a pair goes down.

Two firewalls in network namespaces share their addresses by VRRP (keepalived)
or CARP (ucarp) and their connection states by conntrackd. While calls are in
progress, the master steps down (soft), dies (hard), or comes back after its
death (return). Weir logs every packet and reports gap, losses, jitter and MOS
of every call. Every run starts with a newly built pair.

Weir first finds how many of the calls the pair carries without loss. To
compare several pairs, use weir run failover.

A pair of your own stands between two ports of this machine (--between), and
your commands switch it (--protocol external).

Examples:
  weir failover --protocol keepalived --advert 0.1
  weir failover --protocol ucarp --kinds hard --repetitions 3
  weir failover --states off --calls 500 --codec g711
  weir failover --kinds soft,hard,return --nat --directions forward
  weir failover --between eth1 eth2 --shared --protocol external --kinds soft
    --soft "ssh fw1 systemctl stop keepalived" --admission open
    --restore "ssh fw1 systemctl start keepalived"
  weir failover --advert 0.1 --repetitions 1 --json
"""


_CLOSED: Final = OptionReading(lambda admission: admission == "closed")


@dataclass(frozen=True)
class PairOptions:
    """The pair; the fields are keys of ``failover.pairs`` in a scenario."""

    PANEL: ClassVar = "Pair"

    protocol: Annotated[
        Literal["keepalived", "ucarp", "external"],
        typer.Option(help="Protocol that shares the addresses; external: a pair of your own."),
    ] = "keepalived"
    advert_s: Annotated[
        float | None,
        typer.Option(
            "--advert", min=0, max=limits.LONGEST_ADVERT_S, help="Seconds between advertisements (1)."
        ),
    ] = None
    states: Annotated[
        Literal["direct", "cached", "off"],
        typer.Option(
            help="conntrackd writes straight into the other kernel, uses its external cache, or is off.",
        ),
    ] = "direct"
    preempt: Annotated[
        bool | None,
        typer.Option(
            "--preempt/--no-preempt",
            help="Whether the preferred firewall takes over again.",
            show_default=False,
        ),
    ] = None
    nat: Annotated[bool, typer.Option("--nat", help="Translate the callers' addresses (forward only).")] = (
        False
    )
    soft: Annotated[
        str | None,
        typer.Option(help="Has the master of your own pair step down.", metavar="COMMAND"),
    ] = None
    hard: Annotated[
        str | None, typer.Option(help="Has the master of your own pair die.", metavar="COMMAND")
    ] = None
    restore: Annotated[str | None, typer.Option(help="Undoes --soft and --hard.", metavar="COMMAND")] = None


@dataclass(frozen=True)
class OngoingOptions:
    """The calls in progress; the fields are keys of ``calls`` in a scenario."""

    PANEL: ClassVar = "Calls"

    count: Annotated[
        int | None,
        typer.Option(
            "--calls",
            min=1,
            max=limits.MOST_CALLS,
            help="Calls in progress (default: 60 % of those that the pair carries).",
        ),
    ] = None
    codec: Annotated[
        str, typer.Option(help="Codec, with an optional packet time, or a mix (see weir calls).")
    ] = "g711:60ms"
    transport: Annotated[
        Literal["rtp", "iax2", "iax2-trunk"],
        typer.Option(help="Transport of the speech."),
    ] = "rtp"
    directions: Annotated[Literal["forward", "both"], typer.Option(help="Who talks.")] = "both"


@dataclass(frozen=True, kw_only=True)
class SwitchOptions:
    """The switches to measure."""

    PANEL: ClassVar = "Plan"

    kinds: Annotated[str, typer.Option(help="Some of soft,hard,return.", metavar="KIND,..."), WORDS] = (
        "soft,hard"
    )
    repetitions: Annotated[
        int,
        typer.Option(min=1, max=limits.MOST_REPETITIONS, help="Valid runs of each kind."),
    ] = 7
    event_s: Annotated[
        float | None,
        typer.Option(
            "--event",
            min=0,
            max=limits.LONGEST_S,
            help="Seconds from when all calls are in progress to the event (3).",
        ),
    ] = None
    after_s: Annotated[
        float | None,
        typer.Option("--after", min=0, max=limits.LONGEST_S, help="Seconds from the event to the end (13)."),
    ] = None
    find_load: Annotated[
        bool,
        typer.Option(
            "--find-load/--no-find-load", help="First find how many calls the pair carries without loss."
        ),
    ] = True
    close_admission: Annotated[
        Literal["closed", "open"],
        typer.Option(
            "--admission",
            help="Whether the firewalls admit calls without a state, from shortly before the event.",
        ),
        _CLOSED,
    ] = "closed"
    trials: Annotated[TrialsOptions, only("max_attempts")]
    seed: SeedOption = 1

    def section(self) -> dict[str, Any]:
        """The section ``failover`` of a scenario, but for the pairs."""
        return {**typed(self), **typed(self.trials)}


def add_to(app: typer.Typer) -> None:
    app.command("failover", help=FAILOVER, rich_help_panel="Measure")(grouped(failover))


def failover(
    ctx: typer.Context,
    pair: PairOptions,
    bed: Annotated[DeviceOptions, only("backend", "wired")],
    calls: OngoingOptions,
    switches: SwitchOptions,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.calls.failover.section import FailoverScenario
    from weirlab.scenario import OptionValue
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        content: dict[str, Any] = {
            "name": f"failover of {pair.protocol}",
            "lab": bed.lab_section(session.store),
            "calls": {**typed(calls), "seed": switches.seed},
            "failover": {"pairs": [OptionValue("--protocol", typed(pair))], **switches.section()},
        }
        carry_out(session, content, FailoverScenario, report)
