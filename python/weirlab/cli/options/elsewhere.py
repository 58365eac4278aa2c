"""Options about a device that Weir does not build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from weirlab.cli.options.groups import typed

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ElsewhereOptions:
    """A login to the device, and who sets its rules."""

    PANEL: ClassVar = "Device between two ports (--lab wired)"

    at: Annotated[
        str | None,
        typer.Option("--at", help="Login to your device: ssh://user@host:port.", metavar="URL"),
    ] = None
    ports: Annotated[
        str | None,
        typer.Option(
            "--ports",
            help="Test ports of your device as it calls them (default: those with routes to test traffic).",
            metavar="PORT,PORT",
        ),
    ] = None
    change: Annotated[
        str | None,
        typer.Option(
            "--change",
            help="Who sets the rules of your device: none (default); rules: Weir, by --at; ask: you; or a "
            "command, which gets them as JSON.",
            metavar="WHO",
        ),
    ] = None

    def section(self) -> Mapping[str, Any]:
        """These keys of the section ``dut`` of a scenario, as far as they were given."""
        ports = None if self.ports is None else [part.strip() for part in self.ports.split(",")]
        keys = {"at": self.at, "ports": ports, "change": self.change}
        return typed(keys, at="--at", ports="--ports", change="--change")


NOT_ELSEWHERE: Final = ElsewhereOptions()
