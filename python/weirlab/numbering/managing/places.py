"""Places in a plan that is not a file: by lines of a written document, or by numbers alone. Pure."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from weirlab.base.quoting import json_printable
from weirlab.scenario.document import Document, Location, Mark

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_OTHERWISE: Final = ("true", "false", "null")
"""Words that YAML reads as something else."""
_NEVER: Final = re.compile("[\ufffe\uffff]")
"""Characters that YAML allows only escaped."""


class PieceLocations(Mapping[Location, str]):
    """A place such as ``plan.yaml:7`` for every requested location; no text has these lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._locations: list[Location] = [(), ()]
        self._lines: dict[Location, int] = {}
        self._lock = threading.Lock()

    def __getitem__(self, location: Location) -> str:
        with self._lock:
            line = self._lines.setdefault(location, len(self._locations))
            if line == len(self._locations):
                self._locations.append(location)
        return f"{self.name}:{line}"

    def __iter__(self) -> Iterator[Location]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def at(self, place: str) -> Location:
        """The location of a place, which may lack its name."""
        line = place.rpartition(":")[2]
        known = line.isdecimal() and int(line) < len(self._locations)
        return self._locations[int(line)] if known else ()


def written(value: Mapping[str, Any], name: str, head: Sequence[str] = ()) -> tuple[str, Document]:
    """``value`` as text, below ``head`` as comments, and the document that one gets by reading the text.

    Every key has its own line, so that a line identifies a place.
    """
    writer = _Writer([f"# {line}" for line in head])
    writer.values[()] = Mark(len(head) + 1, 1)
    writer.mapping(value, (), 0)
    return "\n".join(writer.lines) + "\n", Document(name, value, writer.values, writer.keys)


class _Writer:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.values: dict[Location, Mark] = {}
        self.keys: dict[Location, Mark] = {}

    def mapping(self, value: Mapping[str, Any], path: Location, column: int, lead: str = "") -> None:
        """Write ``value`` at ``column``; ``lead``, which is as wide, stands before its first key."""
        for key, inner in value.items():
            here = (*path, key)
            start = lead or " " * column
            lead = ""
            self.keys[here] = Mark(len(self.lines) + 1, column + 1)
            if not inner or not isinstance(inner, Mapping | list | tuple):
                self._within(f"{start}{key}: ", inner, here)
            elif isinstance(inner, Mapping):
                self.lines.append(f"{start}{key}:")
                self.values[here] = Mark(len(self.lines) + 1, column + 3)
                self.mapping(inner, here, column + 2)
            elif not isinstance(inner[0], Mapping):
                self._within(f"{start}{key}: ", inner, here)
            else:
                self.lines.append(f"{start}{key}:")
                self.values[here] = Mark(len(self.lines) + 1, column + 3)
                for rank, each in enumerate(inner):
                    self.values[(*here, rank)] = Mark(len(self.lines) + 1, column + 5)
                    self.mapping(each, (*here, rank), column + 4, f"{' ' * (column + 2)}- ")

    def _within(self, text: str, value: Any, path: Location) -> None:
        """Add a line with ``value`` after ``text``: a scalar, a list of scalars, or empty brackets."""
        line = len(self.lines) + 1
        self.values[path] = Mark(line, len(text) + 1)
        if isinstance(value, Mapping):
            text += "{}"
        elif isinstance(value, list | tuple):
            text += "["
            for rank, each in enumerate(value):
                text += ", " if rank else ""
                self.values[(*path, rank)] = Mark(line, len(text) + 1)
                text += _scalar(each)
            text += "]"
        else:
            text += _scalar(value)
        self.lines.append(text)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _WORD.fullmatch(text) and text.lower() not in _OTHERWISE:
        return text
    # A JSON string is a YAML string.
    quoted = json_printable(json.dumps(text, ensure_ascii=False))
    return _NEVER.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
