"""The commands put together, and the one place where exceptions become exit codes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weirlab import __version__
from weirlab.cli import (
    failures,
    machine,
    measuring,
    modelling,
    planning,
    scenarios,
    searching,
    stored,
    transients,
)
from weirlab.cli.calls import failover, generate, quality
from weirlab.cli.output import Globals

_CODES = "\n".join(f"{code:>3}  {meaning}" for code, meaning in failures.EXIT_CODES.items())

OVERVIEW = f"""Measure, model and predict what network gear does to real-time traffic.

Examples:
  weir doctor                                      what works on this machine
  weir run scenarios/firewall-rules.yaml           from trials to report
  weir trial --dut iptables --rules 400 --rate 500kpps
  weir predict last --rate 300kpps --frame 214 --rules 200

Every command has --help with examples, and --json for one JSON document
on stdout; messages and progress go to stderr.

Exit codes:
{_CODES}
"""


class Weir(TyperGroup):
    """The group of all commands."""

    argv: Sequence[str] = ()
    """What the user typed behind ``weir``."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """In the order in which they were added, which is the order of work."""
        return list(self.commands)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise failures.Stopped(interrupt) from interrupt

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        self.argv = argv = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(argv, "weir", complete_var, standalone_mode=False, **extra)
        except Exception as error:
            code = failures.report(error, as_json="--json" in argv, debug=failures.debugging(argv))
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=Weir,
    help=OVERVIEW,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"weir {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run store (default: ~/.local/share/weir).", envvar="WEIR_STORE", metavar="DIR"
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks of errors (also: WEIR_DEBUG=1).")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    typed = ctx.command.argv if isinstance(ctx.command, Weir) else ()
    ctx.obj = Globals(store=store, command=shlex.join(["weir", *typed]))


for _part in (
    *(measuring, searching, generate, quality, failover, scenarios),
    *(modelling, planning, transients, stored, machine),
):
    _part.add_to(app)
