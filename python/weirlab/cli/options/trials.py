"""Options about trials: how many, how long, how often, and with which traffic."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.cli.options import reading
from weirlab.cli.options.groups import typed

if TYPE_CHECKING:
    from weirlab.traffic.sizes import SizeMix
    from weirlab.traffic.spec import Flows, LoadStep


MachineKind = Literal["usual", "noisy"]

PLAN: Final = "Plan"

LoadsOption = Annotated[
    str | None,
    typer.Option(
        "--loads",
        help="Loads as shares of the threshold, e.g. 10%,50%,90%,120%.",
        metavar="SHARE,...",
        rich_help_panel=PLAN,
    ),
]


@dataclass(frozen=True)
class TrialsOptions:
    """The trials of a plan; the fields have the names of the scenario keys and are None if not given."""

    PLAN: ClassVar = PLAN

    repetitions: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_REPETITIONS, help="Trials per setting.", metavar="N"),
    ] = None
    trial_s: Annotated[
        float | None,
        typer.Option(
            "--duration", min=0, max=limits.LONGEST_S, help="Recorded seconds per trial.", metavar="S"
        ),
    ] = None
    warmup_s: Annotated[
        float | None,
        typer.Option(
            "--warmup", min=0, max=limits.LONGEST_S, help="Seconds of traffic before recording.", metavar="S"
        ),
    ] = None
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--attempts", min=1, max=limits.MOST_ATTEMPTS, help="Maximum attempts per trial.", metavar="N"
        ),
    ] = None


Layer4 = Literal["udp", "tcp"]
IpVersion = Literal["4", "6"]
Arrivals = Literal["constant", "poisson"]
FlowOrder = Literal["advance", "random"]

PANEL: Final = "Traffic"

FramesOption = Annotated[
    str | None,
    typer.Option("--frame", help="Frame sizes, e.g. 64,1518.", metavar="BYTES,...", rich_help_panel=PANEL),
]
ArrivalsOption = Annotated[
    Arrivals,
    typer.Option("--arrivals", help="Equal or exponential gaps between packets.", rich_help_panel=PANEL),
]
PacketTimeOption = Annotated[
    str | None,
    typer.Option("--packet-time", help="Packet time of codecs that name none, e.g. 30ms.", metavar="TIME"),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        max=limits.HIGHEST_SEED,
        help="Seed of all random choices.",
        metavar="N",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class SizeOptions:
    """The frame sizes of one load."""

    PANEL: ClassVar = PANEL

    frame: Annotated[
        int | None,
        typer.Option(help="Frame size in bytes, FCS included (default: 64, or what the headers need)."),
    ] = None
    sizes: Annotated[str | None, typer.Option(help="Size mix: imix, 64:7,594:4,1518:1, poisson:64-200.")] = (
        None
    )

    @property
    def unspecified(self) -> bool:
        """Whether neither option is given."""
        return self.frame is None and self.sizes is None

    def mix(self, least_bytes: int) -> SizeMix:
        """The chosen frame sizes; 64 bytes by default, or ``least_bytes`` if the headers need more."""
        return reading.size_mix(self.frame, self.sizes, least_bytes)


@dataclass(frozen=True)
class SeveralSizesOptions:
    """Frame sizes to go through."""

    PANEL: ClassVar = PANEL

    frame: FramesOption = None
    sizes: Annotated[list[str] | None, typer.Option(help="A size mix, e.g. imix; repeatable.")] = None

    def listed(self) -> list[str]:
        """All sizes as text, single sizes first."""
        return [*map(str, reading.frames(self.frame) or ()), *(self.sizes or ())]


@dataclass(frozen=True)
class FlowOptions:
    """Options that apply to all traffic: the keys of the section ``traffic`` of scenarios."""

    PANEL: ClassVar = PANEL

    flows: Annotated[
        int,
        typer.Option(
            min=1,
            max=limits.MOST_FLOWS,
            help="Number of flows; packets are sent to them in turn.",
            metavar="N",
        ),
    ] = 1
    l4: Annotated[Layer4, typer.Option(help="UDP, or TCP segments without a connection.")] = "udp"
    ip: Annotated[IpVersion, typer.Option(help="IP version.")] = "4"
    arrivals: ArrivalsOption = "constant"
    order: Annotated[FlowOrder, typer.Option(help="Flow addresses count up or are random.")] = "advance"
    seed: SeedOption = 1
    answered: Annotated[
        bool,
        typer.Option(
            "--answered",
            help="The receiver answers: flows are known to connection tracking before the load begins.",
        ),
    ] = False
    new: Annotated[
        str | None,
        typer.Option(
            help="With --answered: share of the packets that each open a further flow, e.g. 10%; for a "
            "profile also several.",
            metavar="SHARE",
        ),
    ] = None

    @property
    def new_share(self) -> float:
        """``--new`` as a ratio; 0 without it."""
        return 0.0 if self.new is None else reading.one_share(self.new, "--new", "10%")

    @property
    def new_shares(self) -> tuple[float, ...]:
        """``--new`` as a list; empty unless there are several."""
        if self.new is None or "," not in self.new:
            return ()
        return reading.listed(self.new, reading.share, "--new", "0,1%,10%,50%,100%")

    def chosen(self) -> Flows:
        """The chosen flows."""
        from weirlab.traffic.spec import Flows

        version: Literal[4, 6] = 4 if self.ip == "4" else 6
        return Flows(
            count=self.flows,
            l4=self.l4,
            ip=version,
            order=self.order,
            seed=self.seed,
            answered=self.answered,
            new_share=self.new_share,
        )

    def section(self) -> dict[str, Any]:
        """The section ``traffic`` of a scenario, for ``scenario.from_options``."""
        chosen = {field.name: getattr(self, field.name) for field in fields(FlowOptions)}
        spelled = {name: f"--{name}" for name in chosen}
        share = 0.0 if self.new_shares else self.new_share
        return typed({**chosen, "ip": int(self.ip), "new": share}, **spelled)


@dataclass(frozen=True)
class StepOptions:
    """What changes while traffic is sent."""

    step: Annotated[
        list[str] | None,
        typer.Option(
            help="Change of the load after AT seconds, e.g. 1:600kpps; repeatable.",
            metavar="AT:RATE",
        ),
    ] = None
    position_step: Annotated[
        list[str] | None,
        typer.Option(
            help="Change of the matching position after AT seconds, e.g. 1:2000; repeatable.",
            metavar="AT:N",
        ),
    ] = None

    def steps(self) -> tuple[LoadStep, ...]:
        """All steps in order of time."""
        return reading.steps(self.step or [], self.position_step or [])
