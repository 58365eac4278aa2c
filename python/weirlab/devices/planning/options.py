"""Options of ``weir plan``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.cli.options import (
    Arrivals,
    DeviceOption,
    IncludeOption,
    PacketTimeOption,
    SizeOptions,
    TunnelCpusOption,
    completing,
)

Class = Literal["isochronous", "cyclic", "acyclic"]
Sought = Literal["rate", "calls", "rules", "frame", "delay", "loss", "device"]
Kind = Literal["queueing", "piecewise", "lohmiller"]

GIVEN: Final = ("rate", "calls", "codec", "frame", "sizes", "rules", "device")
"""What ``--given`` takes, each as the option of that name does."""


@dataclass(frozen=True)
class ModelOptions:
    """The devices that the plan is about."""

    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Model files, run IDs, 'last' or library:NAME; or one path.yaml.",
            metavar="MODEL",
            autocompletion=completing.runs,
        ),
    ] = None
    more: Annotated[
        list[str] | None, typer.Option("--models", help="The same as MODEL.", metavar="MODEL")
    ] = None
    device: DeviceOption = None
    tunnel: Annotated[
        list[str] | None,
        typer.Option(
            help="Model of a tunnel behind the rules of MODEL; repeatable.",
            metavar="MODEL",
            autocompletion=completing.runs,
        ),
    ] = None
    cpus: TunnelCpusOption = None


@dataclass(frozen=True)
class QuestionOptions:
    """The question about them."""

    PANEL: ClassVar = "Question"

    find: Annotated[Sought | None, typer.Option(help="Quantity to find.")] = None
    given: Annotated[
        list[str] | None, typer.Option(help=f"KEY=VALUE: {', '.join(GIVEN)}.", metavar="KEY=VALUE")
    ] = None
    certainty: Annotated[str, typer.Option(help="Share of trials that meet the answer, 50% to 99.5%.")] = (
        "95%"
    )
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Also answer outside the profiled range.")
    ] = False
    using: Annotated[Kind, typer.Option(help="Which of the fitted models to use.")] = "queueing"


@dataclass(frozen=True, kw_only=True)
class PlanLoadOptions:
    """The load, unless it is to be found."""

    PANEL: ClassVar = "Traffic"

    rate: Annotated[str | None, typer.Option(help="Offered load: 300kpps, 40%@1Gbit/s, ...")] = None
    size: SizeOptions
    rules: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=limits.MOST_RULES,
            help="Mean matching position: rules compared up to and including the one that matches "
            "(0: no rules).",
        ),
    ] = None
    calls: Annotated[
        str | None, typer.Option(help="Calls at once: 300, 3,000, 20erl, 1200bhca@180s.", metavar="N")
    ] = None
    codec: Annotated[
        str | None,
        typer.Option(
            help="g711, g729:40ms, g711:60,g729:40 (shares), ...; also sets the requirement.",
            metavar="CODEC,...",
        ),
    ] = None
    packet_time: PacketTimeOption = None
    directions: Annotated[int, typer.Option(min=1, max=2, help="Streams per call through the device.")] = 2
    arrivals: Annotated[
        Arrivals | None,
        typer.Option(help="Gaps between packets (default: poisson for calls, else constant)."),
    ] = None


@dataclass(frozen=True)
class RequirementOptions:
    """What the device must keep to."""

    PANEL: ClassVar = "Requirement"

    require: Annotated[
        list[str] | None,
        typer.Option(
            help="p99<1ms, mean<80us, jitter<50us, loss<0.1%, loss=0, calls>=300, ...; repeatable.",
            metavar="LIMIT",
        ),
    ] = None
    traffic_class: Annotated[
        Class | None, typer.Option("--class", help="Traffic class of IEC/IEEE 60802.")
    ] = None
    cycle: Annotated[str | None, typer.Option(help="Cycle of that class, e.g. 4ms.")] = None
    share: Annotated[
        str | None,
        typer.Option(help="This device's share of the cycle (default 50%) or of the calls' delay (10%)."),
    ] = None


@dataclass(frozen=True)
class RulesetOptions:
    """A ruleset to put into a better order."""

    ruleset: Annotated[
        Path | None,
        typer.Option(help="Rules with counters, from iptables-save -c or nft.", metavar="FILE"),
    ] = None
    before: Annotated[
        Path | None,
        typer.Option(
            help="Compare --ruleset with these rules: do packets meet more of them?",
            metavar="FILE",
        ),
    ] = None
    margin: Annotated[
        str | None,
        typer.Option(help="Growth of rules per packet that --before accepts (default 8%)."),
    ] = None
    include: IncludeOption = None
    reordered: Annotated[
        Path | None,
        typer.Option(
            help="Write the ruleset in its better order here; as NAME.diff, only what changes.",
            metavar="FILE",
        ),
    ] = None
