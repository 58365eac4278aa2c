"""An emulated path as scenarios say it, in the words of ``weir link``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field

from weirlab.base.amounts import parse_size
from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.scenario.document import Location
from weirlab.scenario.model import Section
from weirlab.scenario.values import readable

if TYPE_CHECKING:
    from weirlab.emulation.spec import PathSpec

MOST_ENTRIES: Final = 32
"""Socket options, and words about a path."""
_SEEDS: Final = {"up": 2, "down": 3}
"""The same random numbers in both directions would lose the same frames in both."""


def _text(value: object) -> object:
    """A number may be written without quotes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return str(value) if isinstance(value, int) else f"{value:g}"


TextOrNumber = Annotated[
    str,
    BeforeValidator(_text),
    Field(min_length=1, max_length=200, json_schema_extra={"type": ["string", "number"]}),
]
Size = Annotated[TextOrNumber, readable(lambda text: parse_size(text, "the size"))]
Words = Annotated[dict[str, TextOrNumber], Field(max_length=MOST_ENTRIES)]


class PathSection(Section):
    """An emulated path, in the words of ``weir link``: ``delay``, ``rate``, ``queue``, ``loss``, ..."""

    both: Words = {}
    """Options of both directions; those of one direction override them."""
    up: Words = {}
    """Options from the client to the server."""
    down: Words = {}
    """Options from the server to the client."""

    def words(self, direction: str) -> dict[str, str]:
        """What is said of ``up`` or ``down``."""
        said = {"seed": str(_SEEDS[direction]), **self.both}
        return {**said, **(self.up if direction == "up" else self.down)}

    def read(self, direction: str) -> PathSpec:
        """The same, understood; its trace is not read. Raises ``InputError``."""
        from weirlab.emulation.reading import READERS, read_path

        said = self.words(direction)
        for name in said:
            if name not in READERS:
                raise InputError(f"{name!r} is not known; known are {', '.join(READERS)}")
        return read_path(said)

    def beside(self, folder: Path) -> PathSection:
        """With relative paths of traces starting from ``folder``."""
        sides = {name: _beside(getattr(self, name), folder) for name in ("both", "up", "down")}
        return self.model_copy(update=sides)

    def with_traces(self, inputs: Inputs) -> dict[str, PathSpec]:
        """Both directions, with their traces; raises ``InputError`` if one cannot be read, or may not be."""
        from weirlab.emulation.reading import with_trace

        return {direction: with_trace(self.read(direction), inputs) for direction in _SEEDS}

    def files(self) -> Iterator[Location]:
        """See :meth:`Section.files`; a trace is a file."""
        yield from super().files()
        for name in ("both", "up", "down"):
            yield from traces(getattr(self, name), name)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """What cannot be: where it is said, and why not. What holds for both directions is told once."""
        found = []
        for direction in ("up", "down"):
            try:
                self.read(direction)
            except InputError as error:
                said: Mapping[str, Any] = self.up if direction == "up" else self.down
                found.append((direction if said else "both", str(error).replace("--", "")))
        yield from dict.fromkeys(found)


def traces(words: Mapping[str, str], key: str) -> Iterator[Location]:
    """The location of the trace, which is a file, in the ``words`` at ``key``."""
    if "trace" in words:
        yield key, "trace"


def _beside(words: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {name: str(folder / text) if name == "trace" else text for name, text in words.items()}
