"""Rules of nft with the files that they include, and as nft lists them after loading."""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.files import Inputs
from weirlab.base.limits import MOST_INPUT_BYTES
from weirlab.base.quoting import quoted
from weirlab.lab.dut import tool
from weirlab.rules.nft.listing import RuleKey, Texts
from weirlab.rules.nft.written import interfaces, named_chains, rule_texts

# Skip strings and comments, which may contain anything.
_TOKEN: Final = re.compile(r'"[^"]*"|#[^\n]*|\b(?P<include>include)(?:\s|\\\n)*"(?P<name>[^"\n]*)"[ \t]*;?')
_WILD: Final = re.compile(r"[*?\[]")
_PLACE: Final = re.compile(r"/dev/stdin:(?P<line>\d+)(?P<rest>:.*)")
_NAME: Final = re.compile("['\"\u2018][^'\"\u2019]*['\"\u2019]")
"""Words of the rules in a message."""
MOST_FILES: Final = 1000
MOST_DEPTH: Final = 16
"""Most files that include each other, as in nft."""

LOAD: Final = ("nft", "-f", "-")
LOAD_JSON: Final = ("nft", "-j", "-f", "-")
_LISTINGS: Final = (("nft", "-j", "-n", "list", "ruleset"), ("nft", "-a", "list", "ruleset"))
_BYTECODE: Final = ("nft", "--debug=netlink", "list", "ruleset")
_HIDDEN: Final = "l3proto"
"""What nft does not list where it seems implied. But packets that are not tracked have none."""
_RULE: Final = re.compile(r"^(?P<table>\w+ \S+) \S+ (?P<handle>\d+)(?: \d+)? *$")
_COUNTED: Final = re.compile(r"# handle \d|\bpackets \d+ bytes \d")
"""What nft prints, and hardly anybody writes."""
_SEPARATOR: Final = "\f"
_REFUSED: Final = 60
"""Exit code of the script if nft refuses the rules."""
_TIMED_OUT: Final = 124
"""Exit code of timeout(1). Rules may make nft wait for ever (``monitor``)."""


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


@dataclass(frozen=True)
class NftListing:
    """Rules as nft lists them after loading; chains without a name have one."""

    json: str
    text: str
    renamed: bool = False
    """Whether chains have got names."""
    hidden: frozenset[RuleKey] = frozenset()
    """Rules with a comparison that is not listed."""

    @property
    def texts(self) -> Texts:
        """The rules as written, by table and handle."""
        return rule_texts(self.text)


def list_rules(
    text: str, source: str, command: Sequence[str] = LOAD, *, located: Callable[[str], str] = str
) -> NftListing:
    """Load ``text`` by ``command`` and list it; ``source`` is its name in messages, and ``located`` puts
    other places into those of nft.

    Interfaces that the rules need exist while they are loaded. Ordinary users may load rules as well, where
    the kernel lets them have a user namespace.

    Raises
    ------
    InputError
        nft refuses the rules.
    MissingCapability
        nft is not installed, or no namespace can be made.
    """
    names = interfaces(text)
    listed = _listed(text, source, command, names, located)
    # The JSON of nft has no chains without a name.
    named = named_chains(listed.text)
    if named == listed.text:
        return listed
    if listed.hidden:
        raise InputError(
            f"{source}: 'ct {_HIDDEN}' is not possible beside chains without a name; give these names, or "
            f"compare 'meta nfproto'"
        )
    return replace(_listed(named, source, LOAD, names, str), renamed=True)


def _listed(
    text: str, source: str, command: Sequence[str], names: Sequence[str], located: Callable[[str], str]
) -> NftListing:
    programs.located(command)
    listings = (*_LISTINGS, _BYTECODE) if _HIDDEN in text else _LISTINGS
    script = "; ".join(
        [
            # Of a pair, the kernel names the other end.
            'for name; do ip link add "$name" type veth; done 2>/dev/null',
            f"timeout {tool.MOST_S} {shlex.join(command)}",
            f"code=$?; [ $code != {_TIMED_OUT} ] || echo 'did not end within {tool.MOST_S} s' >&2",
            f"[ $code = 0 ] || exit {_REFUSED}",
            *(f"{shlex.join(listing)} || exit; printf '\\f'" for listing in listings),
        ]
    )
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    done: subprocess.CompletedProcess[str] = programs.run(
        ["unshare", *user, "--net", "--", "sh", "-c", script, "sh", *names],
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        env=programs.environment(LC_ALL="C"),
    )
    if done.returncode == _REFUSED:
        refusal = tool.refusal(LOAD[0], located(done.stderr), text, source)
        raise InputError(refusal + better_format(done.stderr, text))
    parts = done.stdout.split(_SEPARATOR)
    if done.returncode != 0 or len(parts) != len(listings) + 1:
        why = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise MissingCapability(
            f"{source}: nft has to load these rules in a network namespace before they can be read, which "
            f"does not work here ({why}); run as root, or give the output of nft -j list ruleset"
        )
    return NftListing(parts[0], parts[1], hidden=_hidden(parts[2]))


def better_format(refusal: str, text: str) -> str:
    """What to give instead of a listing that nft prints and does not load, as a further line of ``refusal``.

    It cannot load matches and targets of iptables, or chains with names of its own language.
    """
    if "xtables" in refusal:
        return "\n    iptables made these rules: give the output of iptables-save -c"
    if _COUNTED.search(text):
        return "\n    if nft printed these rules, give the output of nft -j list ruleset instead"
    return ""


def _hidden(bytecode: str) -> frozenset[RuleKey]:
    """Rules that load the protocol of a connection's addresses."""
    found: set[RuleKey] = set()
    rule: RuleKey | None = None
    for line in bytecode.splitlines():
        if match := _RULE.match(line):
            rule = match["table"], int(match["handle"])
        elif rule is not None and line.startswith("  [ ct load l3protocol"):
            found.add(rule)
    return frozenset(found)
