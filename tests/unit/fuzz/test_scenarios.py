"""Scenario files that somebody damaged, or that were never any."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import SHIPPED, Weir, sound

_DOCUMENTS: Final = [yaml.safe_load(path.read_text()) for path in SHIPPED]
_LINES: Final = [path.read_text().splitlines() for path in SHIPPED]

scalars = st.sampled_from(
    (
        None, True, -1, 0, 1, 10**30, 1e308, float("nan"), float("inf"), -0.0, "", "x", "max", "1e400kpps",
        "\x1b[31m", "\u202e", "x" * 5000, "nan", "64", "g711", [], {}, [[]], [None], {"x": 1}, [1, 1],
        "9" * 5000,
    )
)  # fmt: skip
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
PIECES: Final = (
    "&a", "*a", "[", "]", "{", "}", ": ", "- ", "!!python/object:os.system", "!!binary", "? ", "|", ">",
    "---", "%YAML 9.9", "...", "\t", "\x00", "\x85", "\ufeff", "#", "'", '"', "\\", "<<: *a", "\n", "  ",
    "*b", "@", "`", "&a [*a]",
)  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in ``node``."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def with_value(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    """``node`` with another value, or key, at ``path``."""
    if not path:
        return value
    key, *rest = path
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[key] = with_value(copy[key], tuple(rest), value)
    return copy


@st.composite
def changed_values(draw: st.DrawFn) -> str:
    """A shipped scenario with some values and keys that it should not have."""
    document = draw(st.sampled_from(_DOCUMENTS))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(document)))
        if draw(st.booleans()) or not path:
            document = with_value(document, path, draw(trees))
        else:
            parent = path[:-1]
            around: Any = document
            for key in parent:
                around = around[key]
            if isinstance(around, dict):
                document = with_value(document, parent, {**around, draw(st.text(max_size=8)): draw(trees)})
    return yaml.safe_dump(document, allow_unicode=draw(st.booleans()))


@st.composite
def changed_text(draw: st.DrawFn) -> str:
    """A shipped scenario with lines moved, left out, repeated and broken."""
    lines = list(draw(st.sampled_from(_LINES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        line, piece = lines[at], draw(st.sampled_from(PIECES))
        cut = draw(st.integers(0, len(line)))
        changes = (
            [],
            [line, line],
            [line[:cut] + piece + line[cut:]],
            [line[:cut]],
            [f"  {line}"],
            [piece * 30],
        )
        lines[at : at + 1] = draw(st.sampled_from(changes))
        lines = lines or [""]
    return "\n".join(lines)


anything = st.one_of(
    changed_values(),
    changed_text(),
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.sampled_from(
        ("[" * 50_000, "x: " * 20_000, "&a [*a]", "a: &a [1]\nb: [*a, *a]", "- " * 40_000, "{" * 9000)
    ),
)


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(text=anything)
def test_whatever_a_scenario_says_the_answer_is_sound(weir: Weir, place: Path, text: str) -> None:
    file = place / "fuzzed.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    # The other two kinds have labs of their own, which are not built here either.
    lab = () if re.search("^(failover|monitor)", text, re.MULTILINE) else ("--lab", "netns")
    sound(weir("run", file, *lab))


@settings(max_examples=20)
@given(content=st.binary(max_size=40))
def test_whatever_bytes_a_scenario_has_the_answer_is_sound(weir: Weir, place: Path, content: bytes) -> None:
    file = place / "fuzzed.yaml"
    file.write_bytes(content)
    sound(weir("run", file))
