"""Options about the ports of the wired lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from weirlab.cli.options.groups import typed

if TYPE_CHECKING:
    from collections.abc import Mapping

PortsOption = Annotated[
    tuple[str, str] | None,
    typer.Option("--between", help="The two ports: the sender's, the receiver's.", metavar="A B"),
]


@dataclass(frozen=True)
class WiredOptions:
    """Two ports of this machine, with the user's own device between them."""

    PANEL: ClassVar = "Device between two ports (--lab wired)"

    between: PortsOption = None
    addresses: Annotated[
        str | None,
        typer.Option(
            "--addresses",
            help="Addresses that the ports get (default: 198.18.0.2/24,198.19.0.2/24).",
            metavar="ADDR,ADDR",
        ),
    ] = None
    gateways: Annotated[
        str | None,
        typer.Option(
            "--gateways",
            help="The device's addresses at the ports (default: 198.18.0.1,198.19.0.1).",
            metavar="ADDR,ADDR",
        ),
    ] = None
    mode: Annotated[
        Literal["routed", "bridge"] | None,
        typer.Option("--mode", help="Whether the device routes (default) or bridges."),
    ] = None
    take: Annotated[
        bool, typer.Option("--take", help="Take the ports' own addresses away during the test.")
    ] = False
    shared: Annotated[bool, typer.Option("--shared", help="Allow other hosts and switches at the ports.")] = (
        False
    )
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            help="Allow test traffic to this network, outside 198.18.0.0/15 and 2001:2::/48; repeatable.",
            metavar="NET",
        ),
    ] = None

    def section(self) -> Mapping[str, Any]:
        """These keys of the section ``lab`` of a scenario, as far as they were given."""
        lists = {name: _listed(getattr(self, name)) for name in ("addresses", "gateways")}
        return typed(
            {
                **lists,
                "between": None if self.between is None else list(self.between),
                "mode": self.mode,
                "allow": self.allow,
                "take": self.take or None,
                "shared": self.shared or None,
            },
            **{name: f"--{name}" for name in ("between", *lists, "mode", "allow", "take", "shared")},
        )


NO_PORTS: Final = WiredOptions()


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]
