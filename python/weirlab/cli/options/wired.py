"""Options about the ports of the wired lab."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quantities import words
from weirlab.cli.options.groups import typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weirlab.scenario import Lab
    from weirlab.scenario.model import Root

PortsOption = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--between", help="Two ports of this machine: first the sender's, then the receiver's.", metavar="A B"
    ),
]


@dataclass(frozen=True)
class WiredOptions:
    """Two ports of this machine, with the user's own device between them."""

    PANEL: ClassVar = "Device between two ports (--lab wired)"

    between: PortsOption = None
    addresses: Annotated[
        str | None,
        typer.Option(
            help="Addresses of the two ports (default: 198.18.0.2/24,198.19.0.2/24).",
            metavar="ADDR,ADDR",
        ),
    ] = None
    gateways: Annotated[
        str | None,
        typer.Option(
            help="Addresses of the device at the two ports (default: 198.18.0.1,198.19.0.1).",
            metavar="ADDR,ADDR",
        ),
    ] = None
    mode: Annotated[
        Literal["routed", "bridge"] | None,
        typer.Option(help="Whether the device routes (default) or bridges."),
    ] = None
    senders: Annotated[
        int | None,
        typer.Option(
            "--senders",
            min=1,
            max=limits.MOST_SENDERS,
            help="CPUs that send, each with flows of its own (default: 1).",
            metavar="N",
        ),
    ] = None
    take: Annotated[
        bool, typer.Option("--take", help="Use ports that have addresses, and remove these during the test.")
    ] = False
    shared: Annotated[bool, typer.Option("--shared", help="Allow switches and other hosts at the ports.")] = (
        False
    )
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Also allow test traffic to this network (default: 198.18.0.0/15, 2001:2::/48); repeatable.",
            metavar="NET",
        ),
    ] = None

    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask whether each cable leads to the device alone.")
    ] = False

    def confirm(self) -> None:
        """Ask before traffic leaves by real ports; see :func:`confirm`."""
        if self.between is not None:
            confirm(self.between, yes=self.yes)

    def lab(self, backend: str) -> Lab:
        """The wired lab between these ports; raises ``InputError`` for options that do not fit."""
        from weirlab.scenario import Lab, section

        return section(Lab, {"kind": "wired", "backend": backend, **self.section()})

    def typed_again(self) -> str:
        """The options as they are typed for the next command."""
        words = ["--between", *(self.between or ())]
        for name in ("addresses", "gateways", "mode", "senders"):
            if value := getattr(self, name):
                words += [f"--{name}", str(value)]
        words += [f"--{name}" for name in ("take", "shared") if getattr(self, name)]
        for network in self.allow or ():
            words += ["--allow", network]
        return shlex.join(words)

    def section(self) -> Mapping[str, Any]:
        """These keys of the section ``lab`` of a scenario, as far as they were given."""
        lists = {name: _listed(getattr(self, name)) for name in ("addresses", "gateways")}
        return typed(
            {
                **lists,
                "between": None if self.between is None else list(self.between),
                "mode": self.mode,
                "senders": self.senders,
                "allow": self.allow,
                "take": self.take or None,
                "shared": self.shared or None,
            },
            **{
                name: f"--{name}"
                for name in ("between", *lists, "mode", "senders", "allow", "take", "shared")
            },
        )


def confirm(between: Sequence[str], *, yes: bool) -> None:
    """Ask whether test traffic may leave by these ports; raises ``InputError`` if not, or nobody is there."""
    if yes:
        return
    ports = " and ".join(between)
    if not _agreed(
        f"Test traffic is about to leave by {ports}. Does each cable lead to the device alone?",
        f"test traffic is about to leave by {ports}: if each cable leads to the device alone, confirm "
        "that with --yes",
    ):
        raise InputError("nothing was sent: plug the cables first, then weir check --between A B")


def confirm_stored(run_id: str, scenario: Root, *, yes: bool) -> None:
    """Ask before the ports, the login and the command that a stored run names are used: it may be anybody's.

    Raises
    ------
    InputError
        The answer is no, or nobody is there to answer.
    """
    from weirlab.scenario import Dut, Lab

    lab, dut = getattr(scenario, "lab", None), getattr(scenario, "dut", None)
    uses = []
    if isinstance(lab, Lab) and lab.kind == "wired":
        uses.append(f"sends test traffic by {' and '.join(lab.between)}")
    if isinstance(dut, Dut) and dut.at is not None:
        uses.append(f"logs in to {dut.at}")
    uses += [f"starts the program {command!r}" for command in scenario.commands()]
    if not uses or yes:
        return
    what = f"run {run_id} {words(uses)}"
    if not _agreed(f"{what[0].upper()}{what[1:]}. Go on?", f"{what}: confirm that with --yes"):
        raise InputError(f"nothing was sent, and run {run_id} is as it was")


def _agreed(question: str, unattended: str) -> bool:
    """Whether the user agrees; raises ``InputError`` with ``unattended`` if nobody is there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(unattended)
    return typer.confirm(question, err=True)


NO_PORTS: Final = WiredOptions()


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]
