from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from weirlab.cli.options.values import quicken
from weirlab.cli.program.app import commands_of, parts

seen: list[Any] = []
app = typer.Typer()


@app.command()
def command(
    files: list[Path],
    name: Annotated[str, typer.Option()] = "x",
    number: Annotated[int, typer.Option(min=1, max=9)] = 3,
    choice: Annotated[Literal["one", "two"], typer.Option()] = "one",
    flag: Annotated[bool, typer.Option("--flag/--no-flag")] = False,
    there: Annotated[Path | None, typer.Option(exists=True)] = None,
    many: Annotated[list[str] | None, typer.Option()] = None,
    ratio: Annotated[float, typer.Option()] = 0.5,
) -> None:
    seen.append((files, name, number, choice, flag, there, many, ratio))


def outcome(arguments: list[str], quick: bool) -> tuple[int, str, list[Any]]:
    seen.clear()
    made = get_command(app)
    if quick:
        quicken(made.params)
    try:
        code = made.main(arguments, standalone_mode=False)
    except Exception as error:
        return 2, str(error), []
    return code or 0, "", list(seen)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--name", "7", "--number", "7", "--choice", "two", "--flag", "--ratio", "2"],
        ["--number", "10"],
        ["--number", "-1"],
        ["--number", "seven"],
        ["--number", "²"],
        ["--choice", "three"],
        ["--no-flag", "--many", "a", "--many", "b"],
        ["--there", "missing"],
        ["--there", "."],
        ["--ratio", "much"],
    ],
)
def test_values_and_complaints_are_those_of_typer(options: list[str]) -> None:
    arguments = ["one.pcap", "/", *options]
    assert outcome(arguments, quick=True) == outcome(arguments, quick=False)


def test_a_typer_that_works_differently_is_left_alone() -> None:
    class Parameter:
        pass

    parameter = Parameter()
    quicken([parameter])
    assert vars(parameter) == {}


NOT_BOUNDED = {
    ("trial", "frame"),  # sizes say what a frame can be
    ("predict", "frame"),
    ("plan", "frame"),
    ("tap", "snap"),  # more than a frame has is all of it
    ("log", "snap"),
    ("tap", "keep"),
    ("log", "keep"),
    ("trace", "connection"),
    ("trace", "limit"),
    ("link", "cpu"),  # the machine says which there are
}


def test_every_number_that_an_option_takes_has_limits() -> None:
    unbounded = {
        (name, parameter.name)
        for part in parts(only_own=True)
        for name, command in commands_of(part).items()
        for parameter in command.params
        if getattr(descriptor := parameter.type_descriptor, "annotation", None) in (int, float)
        and None in (descriptor.parameter_info.min, descriptor.parameter_info.max)
    }
    assert unbounded == NOT_BOUNDED
