"""Options shared by the commands of ``weir voice``, and functions that read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import DeviceOptions, completing

if TYPE_CHECKING:
    from weirlab.numbering.routing import PlanNetwork

DEFAULT_PLAN = Path("plan.yaml")

PlanOption = Annotated[
    Path,
    typer.Option(
        "--plan",
        help="The numbering plan: a file, or the name of a plan that comes with Weir.",
        metavar="PLAN",
    ),
]
PlanArgument = Annotated[
    Path | None, typer.Argument(help="The same as --plan.", metavar="PLAN", hidden=True, show_default=False)
]
DateOption = Annotated[
    str | None,
    typer.Option(
        "--date",
        help="Apply the plan as of this day (default: today).",
        metavar="YYYY-MM-DD",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class NumberingPlanOptions:
    """The plan and the day."""

    plan: PlanOption = DEFAULT_PLAN
    day: DateOption = None

    def section(self, plan: Path) -> dict[str, Any]:
        """The keys of a scenario about ``plan``."""
        return {"plan": str(plan), "date": None if self.day is None else day_of(self.day).isoformat()}


@dataclass(frozen=True)
class ThroughOptions(DeviceOptions):
    """The device that calls pass, if one is named."""

    PANEL: ClassVar = "Device that the calls pass"

    dut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Device between the caller and everybody else (default: none): iptables, nftables, forward, "
            "esp, wireguard, openvpn, ... (see weir doctor).",
            autocompletion=completing.devices,
        ),
    ] = None

    def through(self) -> dict[str, Any] | None:
        """The key ``through`` of a scenario; None without a device.

        Raises
        ------
        InputError
            There is no such device, or rules are given without one.
        """
        if not self.dut and self.ruleset is None:
            if self.rules is not None or self.stateful:
                raise InputError("--rules and --stateful need a device: name one with --dut")
            return None
        found = self.device()
        return {
            "name": found.name,
            "ruleset": None if found.ruleset is None else str(found.ruleset),
            "rules": self.rules or 0,
            "stateful": found.stateful,
        }


def chosen(plan: Path, argument: Path | None) -> Path:
    """The plan that --plan or the argument names."""
    if argument is None:
        return plan
    if plan != DEFAULT_PLAN:
        raise InputError(f"--plan {plan} and {argument}: name one plan")
    return argument


def network_of(plan: Path, day: str | None) -> PlanNetwork:
    """The network of a plan on a day."""
    from weirlab.numbering.plan import load, ready
    from weirlab.numbering.routing import PlanNetwork

    network = PlanNetwork(load(ready.find(plan)), day_of(day))
    network.is_dated = day is not None
    return network


def day_of(text: str | None) -> date:
    """The day that an option names, by default today."""
    if text is None:
        return date.today()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is not a date; write it as 2026-01-31") from None
