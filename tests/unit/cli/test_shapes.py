"""How the help shows values of options."""

from __future__ import annotations

import pytest

from weirlab.cli.options.values import limits, shape

from ..conftest import Weir


@pytest.mark.parametrize(
    ("typer_says", "shown"),
    [("<bool>", None), ("<int range>", "N"), ("<udp|tcp>", "udp|tcp"), ("RATE", "RATE"), (None, None)],
)
def test_a_type_is_a_word(typer_says: str | None, shown: str | None) -> None:
    assert shape(typer_says) == shown


@pytest.mark.parametrize(
    ("typer_says", "shown"),
    [
        ("0<=x<=3600.0", "0 to 3,600"),
        ("1<=x<=10000", "1 to 10,000"),
        ("x>=1", "from 1"),
        ("0<=x<=9223372036854775807", "from 0"),
        ("-3<=x<=3", "-3 to 3"),
        (None, None),
    ],
)
def test_limits_are_read_as_words(typer_says: str | None, shown: str | None) -> None:
    assert limits(typer_says) == shown


@pytest.mark.parametrize("command", ["", "trial", "calls", "tcp send", "lab clean"])
def test_no_help_shows_types_of_a_programming_language(weir: Weir, command: str) -> None:
    out = weir(*command.split(), "--help").out
    assert "--help" in out
    for word in ("<bool>", "<int", "<float", "<str>", "<path>", "list[", "<=x"):
        assert word not in out
