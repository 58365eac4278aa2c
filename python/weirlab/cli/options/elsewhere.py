"""Options about a device that Weir does not build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import typer

from weirlab.cli.options.groups import WORDS


@dataclass(frozen=True)
class ElsewhereOptions:
    """A login to the device, and who sets its rules; the fields are keys of ``dut`` in a scenario."""

    PANEL: ClassVar = "Device between two ports (--lab wired)"

    at: Annotated[
        str | None, typer.Option("--at", help="Login to your device: ssh://user@host:port.", metavar="URL")
    ] = None
    ports: Annotated[
        str | None,
        typer.Option(
            "--ports",
            help="Test ports of your device as it calls them (default: those with routes to test traffic).",
            metavar="PORT,PORT",
        ),
        WORDS,
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


NOT_ELSEWHERE: Final = ElsewhereOptions()
