"""POSIX extended regular expressions and the substitution expressions of RFC 3402 that ENUM is made of.

``syntax`` reads an expression, ``program`` matches it. A pattern matches whole numbers, and numbers of which
only the beginning is known: an unknown rest, one digit or more, is written :data:`TAIL`. ``+420950…`` stands
for all numbers that continue +420950, ``+420950…37`` for those whose next digit is neither 3 nor 7. Such a
text is matched if the answer is the same for all of them; if it is not, :class:`MissingDigits` says which
digits to tell apart first. This makes comparisons of whole plans exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from weirlab.base.quoting import quoted
from weirlab.numbering.ere.program import RegexProgram
from weirlab.numbering.ere.syntax import (
    DIGITS,
    Alternatives,
    Anchor,
    Atom,
    BadExpression,
    Node,
    RegexGroup,
    Repeat,
    parse,
)

TAIL: Final = "…"
"""One or more unknown digits; digits after this sign are those that do not come next."""
LONGEST_TEXT: Final = 64
"""Characters of a text that is matched: numbers have up to 15 digits (E.164), dialled strings some more."""
_MOST_KNOWN: Final = 4096
_ASCII: Final = tuple(map(chr, range(128)))


class MissingDigits(Exception):
    """The answer depends on the first digit of the tail: on whether it is one of ``digits``."""

    def __init__(self, digits: frozenset[str]) -> None:
        self.digits = digits


class Pattern:
    """A compiled expression.

    Which match and which groups, says :mod:`~weirlab.numbering.ere.program`.
    """

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        self._tree, self.groups = parse(text)
        self.text = text
        self._ignore_case = ignore_case
        self._accepted: dict[Atom, frozenset[str]] = {}
        self._plain = _plain(self._tree)
        self.anchored = all(
            _starts(branch) and isinstance(branch[-1], Anchor) and branch[-1].sign == "$"
            for branch in self._tree.branches
        )
        self._starts = all(_starts(branch) for branch in self._tree.branches)
        self._known: dict[str, tuple[str | None, ...] | MissingDigits | None] = {}

    @cached_property
    def optional_groups(self) -> frozenset[int]:
        """Groups that need not take part in a match: optional ones, and those in one of several branches."""
        return frozenset(_optional(self._tree, optional=False))

    @cached_property
    def _program(self) -> RegexProgram:
        return RegexProgram(self._tree, self.groups, self._accepts)

    def match(self, text: str) -> tuple[str | None, ...] | None:
        """The match and its groups (None if unused), or None; a text that is too long does not match.

        Raises
        ------
        MissingDigits
            ``text`` has a tail, and the answer depends on it.
        """
        if len(text) > LONGEST_TEXT:
            return None
        if self._plain is not None and TAIL not in text:
            return self._match_plain(self._plain, text)
        if text not in self._known:
            # A plan is checked again with each change of it, of which most expressions know nothing.
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = self._found(text)
        found = self._known[text]
        if isinstance(found, MissingDigits):
            raise MissingDigits(found.digits)
        return found

    def _found(self, text: str) -> tuple[str | None, ...] | MissingDigits | None:
        if TAIL in text:
            return self._match_open(text)
        return self._program.match(text, range(1) if self._starts else range(len(text) + 1))

    def _match_plain(self, plain: _PlainPattern, known: str, tail: str = "") -> tuple[str | None, ...] | None:
        """The match in ``known``, which a ``tail`` may follow that only the repetition takes."""
        end = len(plain.atoms)
        if len(known) < end or not all(map(self._accepts, plain.atoms, known)):
            return None
        taken = ""
        if plain.repeated is not None:
            while end < len(known) and self._accepts(plain.repeated, known[end]):
                end += 1
            if end == len(known):
                taken = tail
            if plain.once and end == len(plain.atoms) and not taken:
                return None
        if plain.closed and (end < len(known) or taken != tail):
            return None
        text = known[:end] + taken
        return (text, *(text[low:high] for low, high in plain.groups))

    def _match_open(self, text: str) -> tuple[str | None, ...] | MissingDigits | None:
        known, sign, others = text.partition(TAIL)
        if not self._begins(known):
            return None
        if self._plain is not None and (found := self._match_plain(self._plain, known, sign + others)):
            return found
        possible = frozenset(digit for digit in DIGITS if digit not in others and self._begins(known + digit))
        return MissingDigits(possible) if possible else None

    def _begins(self, known: str) -> bool:
        """Could a text that begins with ``known`` match?"""
        return not self._starts or self._program.begins(known)

    def _accepts(self, atom: Atom, character: str) -> bool:
        accepted = self._accepted.get(atom)
        if accepted is None:
            accepted = frozenset(each for each in _ASCII if atom.accepts(each, ignore_case=self._ignore_case))
            self._accepted[atom] = accepted
        return character in accepted or (
            character > "\x7f" and atom.accepts(character, ignore_case=self._ignore_case)
        )


@lru_cache(maxsize=4096)
def compiled(text: str, ignore_case: bool) -> Pattern:
    """A cached pattern, as plans repeat a few expressions many times."""
    return Pattern(text, ignore_case=ignore_case)


@dataclass(frozen=True)
class _PlainPattern:
    """An expression of the commonest kind, which needs no tables: ``^``, characters one by one, then perhaps
    an endless repetition of one that matches every digit, then perhaps ``$``.
    """

    atoms: tuple[Atom, ...]
    repeated: Atom | None
    once: bool
    """Does the repetition need one at least?"""
    closed: bool
    """Does it end with ``$``?"""
    groups: tuple[tuple[int, int | None], ...]
    """Where each group begins and ends in the match; None for the end of the match."""


def _plain(tree: Alternatives) -> _PlainPattern | None:
    """``tree`` as a plain expression; None if it is none."""
    if len(tree.branches) != 1 or not _starts(tree.branches[0]):
        return None
    reader = _PlainReader()
    return reader.result() if reader.read(tree.branches[0][1:]) else None


class _PlainReader:
    def __init__(self) -> None:
        self._atoms: list[Atom] = []
        self._repeat: Repeat | None = None
        self._closed = False
        self._groups: dict[int, tuple[int, int | None]] = {}

    def read(self, nodes: tuple[Node, ...]) -> bool:
        """Take the nodes; False if they are not plain."""
        return all(map(self._take, nodes))

    def result(self) -> _PlainPattern:
        repeat = self._repeat
        return _PlainPattern(
            tuple(self._atoms),
            repeat.inner if repeat is not None and isinstance(repeat.inner, Atom) else None,
            repeat is not None and repeat.low > 0,
            self._closed,
            tuple(span for _, span in sorted(self._groups.items())),
        )

    def _take(self, node: Node) -> bool:
        if self._closed:
            return False
        if isinstance(node, Anchor):
            self._closed = node.sign == "$"
            return self._closed
        if self._repeat is not None:
            return False
        if isinstance(node, RegexGroup):
            begin = len(self._atoms)
            if len(node.inner.branches) != 1 or not self.read(node.inner.branches[0]):
                return False
            self._groups[node.number] = (begin, len(self._atoms) if self._repeat is None else None)
            return True
        if isinstance(node, Atom):
            self._atoms.append(node)
            return True
        if not isinstance(node.inner, Atom):
            return False
        if node.high == node.low:
            self._atoms += [node.inner] * node.low
            return True
        self._atoms += [node.inner] * (node.low - 1)
        self._repeat = node
        return node.high is None and node.inner.accepts_digits


def _optional(tree: Alternatives, *, optional: bool) -> Iterator[int]:
    optional = optional or len(tree.branches) > 1
    for node in (each for branch in tree.branches for each in branch):
        repeat = node if isinstance(node, Repeat) else None
        group = node if repeat is None else repeat.inner
        if isinstance(group, RegexGroup):
            may_lack = optional or (repeat is not None and repeat.low == 0)
            yield from [group.number] if may_lack else []
            yield from _optional(group.inner, optional=may_lack)


def _starts(branch: tuple[Node, ...]) -> bool:
    return isinstance(branch[0], Anchor) and branch[0].sign == "^"


_FORBIDDEN: Final = "0123456789i\\"
"""Characters that cannot be delimiters."""


@dataclass(frozen=True)
class Substitution:
    """A pattern and the replacement of the whole text, of which only groups are kept."""

    pattern: Pattern
    replacement: str

    @classmethod
    def parse(cls, text: str) -> Substitution:
        """Read an expression with its delimiters.

        Raises
        ------
        BadExpression
            It is none.
        """
        return _parsed(text)

    @classmethod
    def of(cls, match: str, replace: str) -> Substitution:
        """Make a substitution from its two parts."""
        if problem := replacement_problem(replace, compiled(match, False).groups):
            raise BadExpression(problem)
        return cls(compiled(match, False), replace)

    @property
    def references(self) -> list[int]:
        """The groups that the replacement refers to, in its order."""
        signs = re.findall(r"\\(.)", self.replacement)
        return [int(sign) for sign in signs if sign != "\\"]

    def unused(self, text: str) -> list[int]:
        """The references to groups that take no part in the match of ``text``; ``text`` may have a tail.

        With a tail, the digits may decide which groups take part: those that need not.
        """
        try:
            parts = self.pattern.match(text)
        except MissingDigits:
            return [reference for reference in self.references if reference in self.pattern.optional_groups]
        return (
            [] if parts is None else [reference for reference in self.references if parts[reference] is None]
        )

    def apply(self, text: str) -> str | None:
        """What ``text`` becomes, or None if it does not match; ``MissingDigits`` as in ``Pattern.match``."""
        parts = self.pattern.match(text)
        if parts is None:
            return None
        return re.sub(r"\\(.)", lambda sign: _inserted(sign[1], parts), self.replacement)


def replacement_problem(replacement: str, groups: int) -> str:
    """What is wrong with a replacement for a pattern with ``groups`` groups; empty if nothing."""
    for match in re.finditer(r"\\(.?)", replacement):
        sign = match[1]
        if sign == "\\":
            continue
        if not sign or sign not in "123456789":
            return f"\\{sign} in the replacement; only \\1 to \\9 stand for groups"
        if int(sign) > groups:
            return f"\\{sign} in the replacement, but the pattern has {groups or 'no'} groups"
    return ""


def _inserted(sign: str, parts: tuple[str | None, ...]) -> str:
    return sign if sign == "\\" else parts[int(sign)] or ""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Substitution:
    if len(text) < 3:
        raise BadExpression("it is too short: delimiter, pattern, delimiter, replacement, delimiter")
    delimiter = text[0]
    if delimiter in _FORBIDDEN:
        raise BadExpression(f"{quoted(delimiter)} cannot be the delimiter; ! is usual")
    fields = _fields(text, delimiter)
    if len(fields) != 3:
        raise BadExpression(f"the delimiter {delimiter} appears {len(fields)} times instead of three")
    match, replacement, flags = fields
    if flags not in ("", "i"):
        raise BadExpression(f"{quoted(flags)} after the last delimiter; only i is allowed")
    pattern = compiled(match, flags == "i")
    if problem := replacement_problem(replacement, pattern.groups):
        raise BadExpression(problem)
    return Substitution(pattern, replacement)


def _fields(text: str, delimiter: str) -> list[str]:
    """The fields between delimiters; an escaped delimiter is a character, without its backslash."""
    fields = [""]
    at = 1
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            fields[-1] += delimiter if text[at + 1] == delimiter else text[at : at + 2]
            at += 2
        elif text[at] == delimiter:
            fields.append("")
            at += 1
        else:
            fields[-1] += text[at]
            at += 1
    return fields


__all__ = ["TAIL", "BadExpression", "MissingDigits", "Pattern", "Substitution"]
