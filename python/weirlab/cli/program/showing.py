"""The options ``--wide`` and ``--details`` of every command that prints tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from weirlab.cli.output import DETAILS, WIDE

WITHOUT_TABLES: Final = frozenset(
    {
        "add-user", "cat", "build", "check", "clean", "completion", "diff", "example", "export",
        "import", "label", "proxy", "remove-user", "report", "schema", "serve", "web",
    }
)  # fmt: skip
"""Commands that print sentences, lists or files."""


def add_to(commands: Mapping[str, Any]) -> None:
    """Add the options to ``commands``, given by name, and to the commands of groups among them."""
    for name, command in commands.items():
        if inner := getattr(command, "commands", None):
            add_to(inner)
        elif name not in WITHOUT_TABLES:
            command.params.extend(_parameters())


def _wide(ctx: typer.Context, wanted: bool) -> None:
    ctx.meta[WIDE] = wanted


def _details(ctx: typer.Context, wanted: bool) -> None:
    ctx.meta[DETAILS] = wanted


def _options(
    wide: Annotated[
        bool,
        typer.Option(
            "--wide", help="Show all columns of tables, however wide.", callback=_wide, expose_value=False
        ),
    ] = False,
    details: Annotated[
        bool,
        typer.Option("--details", help="Also show tables of details.", callback=_details, expose_value=False),
    ] = False,
) -> None: ...


@cache
def _parameters() -> list[Any]:
    """The options, as Typer builds them for a command."""
    alone = typer.Typer(add_completion=False)
    alone.command()(_options)
    return list(get_command(alone).params)
