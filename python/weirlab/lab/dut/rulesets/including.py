"""Rules of nft with the files that they include, as one text.

nft itself would open any file that Weir's user may read, and quote its lines in messages. Here, files are
only opened below folders that the user names, symbolic links resolved, and their content is never quoted.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.base.limits import MOST_INPUT_BYTES
from weirlab.base.quoting import quoted

# Skip strings and comments, which may contain anything.
_TOKEN: Final = re.compile(r'"[^"]*"|#[^\n]*|\b(?P<include>include)(?:\s|\\\n)*"(?P<name>[^"\n]*)"[ \t]*;?')
_WILD: Final = re.compile(r"[*?\[]")
_PLACE: Final = re.compile(r"/dev/stdin:(?P<line>\d+)(?P<rest>:.*)")
_NAME: Final = re.compile("['\"\u2018][^'\"\u2019]*['\"\u2019]")
"""Words of the rules in a message."""
MOST_FILES: Final = 1000
MOST_DEPTH: Final = 16
"""Most files that include each other, as in nft."""


@dataclass(frozen=True)
class SourceLine:
    """Where a line of the text was read."""

    file: str
    number: int
    """In its file, counted from 1."""
    own: bool
    """Whether it is in the user's file itself, so that it may be quoted."""


@dataclass(frozen=True)
class WholeText:
    """The rules as one text."""

    text: str
    lines: tuple[SourceLine, ...]
    files: tuple[Path, ...] = ()
    """The included files, in order."""
    left_out: tuple[str, ...] = ()
    """Patterns of files elsewhere that were not included, with their places."""

    def line(self, number: int) -> SourceLine | None:
        """Where line ``number`` of the text, counted from 1, was read."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None


def with_included(path: Path, text: str, folders: Sequence[Path], inputs: Inputs) -> WholeText:
    """The rules of ``text``, read at ``path``, with those that they include from that folder and ``folders``.

    As in nft(8), names are searched in the folders in turn, those that begin with ``./`` only in that of
    ``path``; the matches of a pattern are included in alphabetical order, without hidden files. A pattern for
    files elsewhere includes none, as where its folder is empty.

    Raises
    ------
    InputError
        A file is missing, lies elsewhere, cannot be read or is included too deeply; the message names the
        line that includes it.
    """
    reading = _IncludeReader(path, [path.parent, *folders], inputs)
    reading.take(text, str(path), own=True, depth=0)
    return WholeText(
        "".join(reading.parts), tuple(reading.lines), tuple(reading.files), tuple(reading.left_out)
    )


def located(message: str, whole: WholeText) -> str:
    """A message of nft about ``whole`` with the places in its files, and without lines of included ones."""
    found: list[str] = []
    own = True
    for line in message.splitlines():
        if (place := _PLACE.match(line)) is None:
            # nft quotes the line, and marks a part of it.
            found += [line] if own else []
            continue
        read = whole.line(int(place["line"]))
        own = read is None or read.own
        if read is None:
            found.append(line)
        elif own:
            found.append(f"/dev/stdin:{read.number}{place['rest']}")
        else:
            found.append(f"{read.file}:{read.number}{_NAME.sub('(a name)', place['rest'])}")
    return "\n".join(found)


class _IncludeReader:
    """The text as it is being put together."""

    def __init__(self, path: Path, folders: Sequence[Path], inputs: Inputs) -> None:
        self._path = path
        self._folders = folders
        self._real = [Path(os.path.realpath(folder)) for folder in folders]
        self._inputs = inputs
        self._bytes = 0
        self.parts: list[str] = []
        self.lines: list[SourceLine] = []
        self.files: list[Path] = []
        self.left_out: list[str] = []

    def take(self, text: str, name: str, *, own: bool, depth: int) -> None:
        at, line = 0, 1
        for found in _TOKEN.finditer(text):
            if not found["include"]:
                continue
            before = text[at : found.start()]
            line = self._add(before, name, line, own=own)
            self._include(found["name"], f"{name}, line {line}", own=own, depth=depth + 1)
            at = found.end()
            line += text.count("\n", found.start(), at)
        self._add(text[at:], name, line, own=own, last=True)

    def _add(self, text: str, name: str, line: int, *, own: bool, last: bool = False) -> int:
        """Append lines of a file, the first of which has the number ``line``; returns that of the last."""
        pieces = text.split("\n")
        for i, piece in enumerate(pieces):
            end = i == len(pieces) - 1
            # What follows an include on its line begins a line of its own.
            if piece or not end or not last:
                self.parts.append(f"{piece}\n")
                self.lines.append(SourceLine(name, line + i, own))
        return line + len(pieces) - 1

    def _include(self, name: str, where: str, *, own: bool, depth: int) -> None:
        # Names in included files are content, which is not quoted.
        said = f"{where}: include {quoted(name)}" if own else f"{where}: include"
        if depth > MOST_DEPTH:
            raise InputError(f"{said}: more than {MOST_DEPTH} files include each other")
        for path in self._paths(name, said):
            if len(self.files) == MOST_FILES:
                raise InputError(f"{said}: more than {MOST_FILES} files are included")
            text = self._inputs.read_text(path, "an included ruleset", MOST_INPUT_BYTES)
            self._bytes += len(text)
            if self._bytes > MOST_INPUT_BYTES:
                raise InputError(f"{said}: the included files have more than {MOST_INPUT_BYTES:,} bytes")
            self.files.append(path)
            self.take(text, str(path), own=False, depth=depth)

    def _paths(self, name: str, said: str) -> list[Path]:
        """The files that ``name`` means."""
        local = name.startswith("./")
        bases = [self._folders[0]] if local else [Path("/")] if name.startswith("/") else self._folders
        for base in bases:
            wanted = os.path.normpath(os.path.join(os.path.abspath(base), name))
            if not self._lies_within(wanted):
                if _WILD.search(name):
                    self.left_out.append(f"{said}: not included; name its folder with --include DIR")
                    return []
                raise self._elsewhere(said)
            if _WILD.search(name):
                found = [each for each in sorted(glob.glob(wanted)) if os.path.isfile(each)]
            else:
                found = [wanted] if os.path.exists(wanted) else []
            if found:
                return [self._real_path(each, said) for each in found]
        if _WILD.search(name):
            return []
        listed = ", ".join(str(folder) for folder in self._folders)
        raise InputError(f"{said}: there is no such file in {listed}; name its folder with --include DIR")

    def _lies_within(self, path: str) -> bool:
        """Whether the path as written is in one of the folders."""
        roots = [os.path.abspath(folder) for folder in self._folders] + [str(folder) for folder in self._real]
        return any(os.path.commonpath([root, path]) == root for root in roots)

    def _real_path(self, path: str, said: str) -> Path:
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(folder) for folder in self._real):
            raise self._elsewhere(said)
        return real

    def _elsewhere(self, said: str) -> InputError:
        listed = ", ".join(str(folder) for folder in self._folders)
        return InputError(
            f"{said}: the file is not in {listed}; name its folder with --include DIR, or copy it there"
        )
