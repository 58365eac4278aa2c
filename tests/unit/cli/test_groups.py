"""Options from the fields of dataclasses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import typer
from typer.testing import CliRunner

from weirlab.cli.options.groups import given, grouped, only, without


@dataclass(frozen=True)
class Place:
    """Where."""

    PANEL: ClassVar = "Place"

    lab: Annotated[Literal["auto", "sim"], typer.Option("--lab", help="In which lab.")] = "auto"
    cpu: Annotated[int | None, typer.Option("--cpu", min=0, max=9, help="On which CPU.", metavar="N")] = None
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Into which folder.", rich_help_panel="Output")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """How much."""

    rate: Annotated[str, typer.Option("--rate", help="How fast.")]
    place: Place
    sizes: Annotated[list[str] | None, typer.Option("--sizes", help="Which sizes.")] = None


@dataclass(frozen=True)
class FarPlace(Place):
    """Where else."""

    host: Annotated[str, typer.Argument(help="Which host.")] = "localhost"


seen: list[Any] = []


def run(command: Any, *arguments: str) -> Any:
    """The exit code and what was printed; what the command got is in ``seen``."""
    seen.clear()
    app = typer.Typer(rich_markup_mode="rich")
    app.command()(grouped(command))
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "TERM": "dumb"})


def measure(
    ctx: typer.Context, *, load: Load, again: Annotated[bool, typer.Option("--again")] = False
) -> None:
    """Measure."""
    seen.append((type(ctx).__name__, load, again))


def lonely(place: Annotated[Place, only("folder", "lab")]) -> None:
    """Measure nearly nothing."""
    seen.append(place)


def remote(place: Annotated[FarPlace, without("lab", "folder")]) -> None:
    """Measure elsewhere."""
    seen.append(place)


def test_a_command_gets_typed_objects_however_deep_they_are() -> None:
    assert run(measure, "--rate", "1kpps", "--cpu", "3", "--sizes", "64", "--sizes", "imix").exit_code == 0
    ((context, load, again),) = seen
    assert context.endswith("Context")
    assert load == Load(rate="1kpps", place=Place(cpu=3), sizes=["64", "imix"])
    assert not again


def test_what_is_not_given_has_the_default_of_its_field() -> None:
    run(measure, "--rate", "1kpps", "--again")
    assert seen[0][1:] == (Load(rate="1kpps", place=Place(), sizes=None), True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '--rate'"),
        (["--rate", "1", "--cpu", "10"], "--cpu"),
        (["--rate", "1", "--lab", "netns"], "--lab"),
        (["--rate", "1", "--place", "x"], "No such option"),
    ],
)
def test_typer_checks_the_options_of_a_group_as_any_others(arguments: list[str], complaint: str) -> None:
    result = run(measure, *arguments)
    assert result.exit_code == 2
    assert complaint in result.output
    assert not seen


def test_the_help_has_every_option_in_its_panel_in_order() -> None:
    text = run(measure, "--help").output
    inside = ("Options", "--rate", "--sizes", "--again", "Place", "--lab", "--cpu", "Output", "--folder")
    words = [text.index(word) for word in inside]
    assert words == sorted(words)
    assert "How fast." in text


def test_a_command_may_take_some_options_in_its_own_order() -> None:
    text = run(lonely, "--help").output
    assert text.index("--folder") < text.index("--lab")
    assert "--cpu" not in text
    assert run(lonely, "--lab", "sim").exit_code == 0
    assert seen == [Place(lab="sim")]


def test_a_group_may_add_to_another_and_hold_arguments() -> None:
    assert run(remote, "example", "--cpu", "1").exit_code == 0
    assert seen == [FarPlace(cpu=1, host="example")]
    assert run(remote, "--lab", "sim").exit_code == 2


def test_a_choice_of_what_the_group_has_not_is_a_mistake_of_the_program() -> None:
    def wrong(place: Annotated[Place, without("lap")]) -> None: ...

    # The names in an annotation are looked up in the module.
    wrong.__annotations__["place"] = Annotated[Place, without("lap")]
    with pytest.raises(TypeError, match="lap; it has lab, cpu, folder"):
        inspect.signature(grouped(wrong))


def test_two_options_of_one_name_are_a_mistake_of_the_program() -> None:
    def twice(place: Place, lab: str) -> None: ...

    twice.__annotations__.update(place=Place, lab=Annotated[str, typer.Option("--other")])
    with pytest.raises(ValueError, match="duplicate parameter name: 'lab'"):
        inspect.signature(grouped(twice))


Shared = Annotated[int, typer.Option("--cpu")]


@dataclass(frozen=True)
class One:
    PANEL: ClassVar = "One"

    cpu: Shared = 0


@dataclass(frozen=True)
class Two:
    PANEL: ClassVar = "Two"

    cpu: Shared = 0


def first(options: One) -> None:
    """Have the first."""


def second(options: Two) -> None:
    """Have the second."""


def test_groups_may_share_an_option_each_in_its_own_panel() -> None:
    assert "─ One ─" in run(first, "--help").output
    assert "─ Two ─" in run(second, "--help").output


def test_given_leaves_out_what_was_not_said() -> None:
    assert given(Place(cpu=0)) == {"lab": "auto", "cpu": 0}
    assert given({"a": 0, "b": None}) == {"a": 0}
