"""The manual page weir(1) and the overview's lines, made from the help of all commands (``make manual``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer
from typer.main import get_command

from weirlab.cli.options.values import shape
from weirlab.cli.program import failures
from weirlab.cli.program.help import HELP_OPTIONS

_CONTROL: Final = re.compile(r"^([.'])", re.MULTILINE)


def page() -> str:
    """The page in the man(7) format."""
    from weirlab.cli.program.app import OVERVIEW, app, parts

    weir: Any = get_command(app)
    root = typer.Context(weir, info_name="weir", help_option_names=list(HELP_OPTIONS))
    about = OVERVIEW.split("\nExit codes:")[0]
    first, _, rest = about.partition("\n")
    lines = [
        '.TH WEIR 1 "" Weir "User Commands"',
        ".SH NAME",
        f"weir \\- {_text(first[0].lower() + first[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B weir",
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        *_prose(rest),
        ".SH OPTIONS",
        *_parameters(weir, root),
        ".SH COMMANDS",
    ]
    # Commands of other packages are not installed everywhere.
    own = [name for names in parts(only_own=True).values() for name in names]
    for command, context in _commands(weir, root, own):
        lines += [f".SS {_text(context.command_path)}", *_usage(command, context)]
        lines += [*_prose(command.help or ""), *_parameters(command, context)]
    lines.append(".SH EXIT STATUS")
    for code, meaning in failures.EXIT_CODES.items():
        lines += [".TP", f".B {code}", _text(meaning)]
    lines += [
        ".SH ENVIRONMENT",
        ".TP", ".B WEIR_STORE", "Folder of the run store, as with \\-\\-store.",
        ".TP", ".B WEIR_MAX_TABLES", "Memory that the tables of a run may take (default: 1GB).",
        ".TP", ".B WEIR_DEBUG", "1 shows tracebacks of errors, as \\-\\-debug does.",
        ".TP", ".B COLUMNS", "Width of tables; without it, that of the terminal, or 80 if there is none.",
        ".SH FILES",
        ".TP", ".I ~/.local/share/weir", "Runs, unless $XDG_DATA_HOME or WEIR_STORE says otherwise.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def summaries() -> str:
    """The first lines of the commands' help by panel, in the order of the overview, as JSON."""
    from weirlab.cli.program.app import commands_of, parts

    lines: dict[str, dict[str, str]] = {}
    for module, names in parts(only_own=True).items():
        commands = commands_of(module)
        for name in names:
            command = commands[name]
            lines.setdefault(command.rich_help_panel, {})[name] = command.help.partition("\n")[0]
    return json.dumps(lines, indent=2) + "\n"


def _commands(group: Any, above: typer.Context, names: Sequence[str]) -> Iterator[tuple[Any, typer.Context]]:
    """The commands called ``names``, and the commands of groups among them."""
    for name in names:
        command = group.get_command(above, name)
        context = typer.Context(command, info_name=name, parent=above)
        if hasattr(command, "commands"):
            yield from _commands(command, context, command.list_commands(context))
        else:
            yield command, context


def _usage(command: Any, context: typer.Context) -> Iterator[str]:
    pieces = [_text(piece) for piece in command.collect_usage_pieces(context)]
    yield from (f".B {_text(context.command_path)}", " ".join(pieces), ".PP")


def _prose(text: str) -> Iterator[str]:
    """Format paragraphs; indented lines stay as they are."""
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        fixed = [line.startswith(" ") for line in lines]
        yield ".PP"
        if any(fixed):
            head = fixed.index(True)
            yield from map(_text, lines[:head])
            yield from (".RS 2", ".nf", *map(_text, (line[2:] for line in lines[head:])), ".fi", ".RE")
        else:
            yield from map(_text, lines)


def _parameters(command: Any, context: typer.Context) -> Iterator[str]:
    """Arguments and options with their help."""
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False) or (context.parent and parameter.name == "help"):
            continue
        yield ".TP"
        if parameter.param_type_name == "argument":
            yield f"\\fI{_text(parameter.metavar or parameter.name.upper())}\\fR"
        else:
            names = ", ".join(
                f"\\fB{_text(name)}\\fR"
                for name in (*sorted(parameter.opts, key=len), *parameter.secondary_opts)
            )
            value = _value(parameter, context)
            yield f"{names} \\fI{_text(value)}\\fR" if value else names
        yield _text(f"{parameter.help or ''}{_default(parameter, context)}") or "\\&"


def _value(parameter: Any, context: typer.Context) -> str:
    """The value shown after an option; empty for a flag."""
    if parameter.is_flag:
        return ""
    return str(parameter.metavar or shape(parameter.display_type(context)) or "")


def _default(parameter: Any, context: typer.Context) -> str:
    if not getattr(parameter, "show_default", False) or parameter.default in (None, False, (), []):
        return ""
    return f" (default: {parameter.default})"


def _text(text: str) -> str:
    """``text`` with everything escaped that man(7) would interpret."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return _CONTROL.sub(r"\\&\1", plain)
