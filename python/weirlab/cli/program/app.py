"""The assembled commands, and the one place where exceptions become exit codes."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from weirlab.base import interrupts
from weirlab.base.errors import InputError
from weirlab.base.quoting import printable
from weirlab.cli.options.values import quicken, reshape
from weirlab.cli.output import CommandResult, Globals, collected, to_json
from weirlab.cli.program import completion, failures, showing
from weirlab.cli.program.help import HELP_OPTIONS, prepare_help
from weirlab.cli.streams import guarded, tell

PARTS: Final[Mapping[str, Sequence[str]]] = {
    "weirlab.devices.profile.command": ("calibrate", "trial", "profile"),
    "weirlab.devices.search.command": ("search", "rfc2544"),
    "weirlab.calls.calls.command": ("calls",),
    "weirlab.calls.quality.command": ("quality",),
    "weirlab.calls.capacity.command": ("capacity",),
    "weirlab.calls.failover.command": ("failover",),
    "weirlab.transfers.trace.command": ("trace",),
    "weirlab.transfers.tcp.command": ("tcp",),
    "weirlab.calls.ipsec.command": ("ipsec",),
    "weirlab.links.emulator.command": ("link",),
    "weirlab.transfers.psock.command": ("psock",),
    "weirlab.numbering.command": ("voice",),
    "weirlab.devices.prediction.command": ("fit", "predict", "verify"),
    "weirlab.devices.prediction.transients_command": ("transients",),
    "weirlab.devices.planning.command": ("plan",),
    "weirlab.devices.choice.command": ("choose",),
    "weirlab.devices.library.command": ("library",),
    "weirlab.devices.simulation.command": ("simulate",),
    "weirlab.devices.comparison.command": ("compare",),
    "weirlab.reproduction.command": ("reproduce",),
    "weirlab.campaigns.command": ("campaign", "worker"),
    "weirlab.studies.commands.scenarios": ("run", "demo", "schema"),
    "weirlab.cli.link.commands": ("tap", "log"),
    "weirlab.studies.commands.stored": ("report", "runs", "label", "show", "export"),
    "weirlab.studies.commands.queries": ("ask",),
    "weirlab.web.command": ("web",),
    "weirlab.studies.commands.machine": ("doctor", "lab"),
    "weirlab.devices.wired.command": ("ports", "check", "cable"),
    "weirlab.cli.program.completion": ("completion",),
}
"""Weir's own modules with commands, and the commands that their ``add_to`` adds, in the order of the help.

A module is imported only when one of its commands is used: the others would delay the start.
"""

SUMMARIES: Final = Path(__file__).with_name("summaries.json")
"""First lines of the help of Weir's own commands, by panel; ``make manual`` writes them."""

_SECRETS: Final = ("--token", "--client-token")


@cache
def parts(only_own: bool = False) -> Mapping[str, Sequence[str]]:
    """Every module with commands; ``only_own`` leaves out those of other packages, slow to find."""
    if only_own:
        return PARTS
    # The registry is in a layer above this package.
    outside = import_module("weirlab.studies.registry").outside().values()
    return {**PARTS, **{module: names for study in outside for module, names in study.commands.items()}}


_CODES = "\n".join(f"{code:>3}  {meaning}" for code, meaning in failures.EXIT_CODES.items())

OVERVIEW = f"""Measure, model and predict what network gear does to real-time traffic.

Examples:
  weir demo                                        a simulated firewall, no root
  weir doctor                                      what works on this machine
  weir run firewall-rules                          from trials to report
  weir trial --dut iptables --rules 400 --rate 500kpps
  weir predict last --rate 300kpps --frame 214 --rules 200

Every command takes --help, which shows examples, and --json, which prints one
JSON document on stdout (weir web and weir tcp watch, send and serve: one per
line, the result last). Messages and progress go to stderr.

Exit codes:
{_CODES}
"""


FIRST = """Weir measures, models and predicts what network gear does to real-time traffic.

Three things to try:
  weir demo               a simulated firewall measured, modelled and predicted
  weir doctor             what works on this machine, and how to get the rest
  weir trace FILE.pcap    why a transfer in a capture was slow

All commands: weir --help
"""


class Weir(TyperGroup):
    """The group of all commands."""

    argv: Sequence[str] = ()
    """What the user typed after ``weir``."""
    _listed: Mapping[str, Any] | None = None
    """All commands without options, while only their names and first lines are needed."""

    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Options before the command's name, ``--help`` among them."""
        params = super().get_params(ctx)
        quicken(params)
        reshape(params)
        return params

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The commands' names, in the order in which they are used."""
        return [name for names in parts().values() for name in names]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """The command, after importing its module; for an unknown name, all modules, to suggest a command."""
        if self._listed is not None:
            return self._listed.get(cmd_name)
        if cmd_name not in self.commands:
            known = _having(cmd_name, parts(only_own=True)) or _having(cmd_name, parts())
            for module in known:
                self.commands.update(commands_of(module))
            if not known:
                for commands in _each(parts()).values():
                    self.commands.update(commands)
        found = self.commands.get(cmd_name)
        inner = getattr(found, "commands", {})
        for command in (found, *inner.values()) if found else ():
            params = command.get_params(ctx)
            quicken(params)
            reshape(params)
        return found

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """The overview, without importing any command, which takes longer than everything else."""
        self._listed = _summaries()
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listed = None

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise failures.InterruptCarrier(interrupt) from interrupt
        except BaseException as error:
            if isinstance(error, typer.Exit | TyperException | SystemExit):
                raise
            if interrupts.behind(error):
                raise failures.InterruptCarrier(KeyboardInterrupt()) from error
            if isinstance(error, OSError):
                raise failures.OsErrorCarrier(error) from error
            raise

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
        if completion.VARIABLE in os.environ:
            completion.answer()
        elif not argv:
            with guarded():
                tell(FIRST.rstrip())
            sys.exit(0)
        else:
            prepare_help(argv)
        with guarded():
            try:
                code = super().main(argv, "weir", complete_var, standalone_mode=False, **extra)
                sys.stdout.flush()
            except Exception as error:
                code = failures.report(error, as_json="--json" in argv, debug=failures.debugging(argv))
        sys.exit(code if isinstance(code, int) else 0)


def result_of(words: Sequence[str]) -> CommandResult:
    """Run the command in ``words`` within this process, and return what it would have printed.

    Raises what the command raises; ``InputError`` for a mistake in ``words``.
    """
    group = get_group(app)
    with collected() as result:
        try:
            with group.make_context("weir", list(words)) as context:
                group.invoke(context)
        except typer.Exit:
            pass
        except TyperException as error:
            raise InputError(failures.explain(error).message) from None
        except failures.OsErrorCarrier as carrier:
            raise carrier.error from None
        except failures.InterruptCarrier as carrier:
            raise carrier.interrupt from None
    result.document = json.loads(to_json(result.document))
    return result


def _having(name: str, modules: Mapping[str, Sequence[str]]) -> list[str]:
    """The ``modules`` that have the command ``name``."""
    return [module for module, names in modules.items() if name in names]


app = typer.Typer(
    cls=Weir,
    help=OVERVIEW,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": list(HELP_OPTIONS)},
)


def commands_of(part: str) -> dict[str, Any]:
    """The commands that a module adds, by name."""
    alone = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    import_module(part).add_to(alone)
    found = dict(get_group(alone).commands)
    showing.add_to(found)
    return found


def _summaries() -> Mapping[str, Any]:
    """Every command by its name; Weir's own without options, from their first lines in a file."""
    lines = json.loads(SUMMARIES.read_text(encoding="utf-8"))
    own = {
        name: TyperCommand(name, help=line, rich_help_panel=panel)
        for panel, commands in lines.items()
        for name, line in commands.items()
    }
    return own | {
        name: command
        for part, commands in _each(set(parts()) - set(parts(only_own=True))).items()
        for name, command in commands.items()
    }


def _each(modules: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
    """The commands of the ``modules``, except those of other packages that fail; see :func:`broken`."""
    own, found = parts(only_own=True), {}
    for part in modules:
        try:
            found[part] = commands_of(part)
        except Exception:
            if part in own:
                raise
    return found


def broken() -> Sequence[str]:
    """Why commands of other packages are missing, one sentence each."""
    problems = []
    own = parts(only_own=True)
    for part, names in parts().items():
        if part in own:
            continue
        try:
            added = commands_of(part)
        except Exception as error:
            problems.append(f"the commands of {part} cannot be loaded: {type(error).__name__}: {error}")
            continue
        if lacking := [name for name in names if name not in added]:
            problems.append(f"{part} does not add the commands that its study names: {', '.join(lacking)}")
    return problems


def _show_version(wanted: bool) -> None:
    if wanted:
        from weirlab import __version__

        tell(f"weir {__version__}")
        raise typer.Exit


def _unsecret(typed: Sequence[str]) -> Iterator[str]:
    """The typed words without secrets: they are kept with runs and shown on pages that users share."""
    hidden = False
    for word in typed:
        if hidden:
            yield "..."
        else:
            option, equals, _ = word.partition("=")
            yield f"{option}=..." if equals and option in _SECRETS else word
        hidden = word in _SECRETS and not hidden


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
    ctx.obj = Globals(store=store, command=printable(shlex.join(["weir", *_unsecret(typed)])))
