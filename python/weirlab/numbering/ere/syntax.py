"""Reads POSIX extended regular expressions (IEEE 1003.1, 9.4) and rejects Perl syntax.

Engines compile the regexp of a NAPTR record with the C library's regcomp(3). What that leaves undefined,
such as ``\\d`` or ``(?:``, is an error here, with advice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

DIGITS: Final = "0123456789"
_SPECIAL: Final = "^.[$()|*+?{\\"
_CLASSES: Final = {
    "alnum": ("09", "AZ", "az"), "alpha": ("AZ", "az"), "blank": ("  ", "\t\t"), "digit": ("09",),
    "lower": ("az",), "upper": ("AZ",), "punct": ("!/", ":@", "[`", "{~"), "space": ("  ", "\t\r"),
    "xdigit": ("09", "AF", "af"), "print": (" ~",), "graph": ("!~",), "cntrl": ("\x00\x1f", "\x7f\x7f"),
}  # fmt: skip
"""First and last characters of the ranges in a class, in the POSIX locale."""
_MOST_REPEATS: Final = 255
_MOST_CHARACTERS: Final = 255
"""Of an expression with its repetitions written out, as regcomp(3) does."""
_LONGEST: Final = 255
_DEEPEST: Final = 20


class BadExpression(ValueError):
    """The text is not a valid expression; the message says why and what to write."""


@dataclass(frozen=True)
class Atom:
    """One character of ``ranges`` (first and last of each), or of none of them."""

    ranges: tuple[str, ...]
    negated: bool = False

    def accepts(self, character: str, *, ignore_case: bool = False) -> bool:
        """Does it match ``character``?"""
        cases = {character, character.lower(), character.upper()} if ignore_case else (character,)
        return any(pair[0] <= case <= pair[1] for pair in self.ranges for case in cases) != self.negated

    @property
    def accepts_digits(self) -> bool:
        """Does it match every digit?"""
        return all(map(self.accepts, DIGITS))


@dataclass(frozen=True)
class Anchor:
    """``^`` or ``$``."""

    sign: str


@dataclass(frozen=True)
class RegexGroup:
    """``(...)``; ``number`` counts opening parentheses from 1."""

    number: int
    inner: Alternatives


@dataclass(frozen=True)
class Repeat:
    """``*``, ``+``, ``?`` and ``{m,n}``; ``high`` is None for no limit."""

    inner: Atom | RegexGroup
    low: int
    high: int | None


Node = Atom | Anchor | RegexGroup | Repeat


@dataclass(frozen=True)
class Alternatives:
    """``a|b``: sequences of which one matches."""

    branches: tuple[tuple[Node, ...], ...]


def parse(text: str) -> tuple[Alternatives, int]:
    """The expression ``text`` and how many groups it has.

    Raises
    ------
    BadExpression
        It is none.
    """
    if len(text) > _LONGEST:
        raise BadExpression(f"it has {len(text)} characters; a record takes at most {_LONGEST}")
    reader = _Reader(text)
    found = reader.alternatives()
    if reader.at < len(text):
        reader.fail("a ) without a (")
    if (size := _size(found)) > _MOST_CHARACTERS:
        raise BadExpression(
            f"its repetitions amount to {size:,} characters; at most {_MOST_CHARACTERS}, as engines "
            "would run out of memory"
        )
    return found, reader.groups


def is_nullable(node: Node) -> bool:
    """Can ``node`` match nothing?"""
    match node:
        case Atom():
            return False
        case Anchor():
            return True
        case RegexGroup():
            return any(all(map(is_nullable, branch)) for branch in node.inner.branches)
        case Repeat():
            return node.low == 0 or is_nullable(node.inner)


def _size(tree: Alternatives) -> int:
    return sum(_node_size(node) for branch in tree.branches for node in branch)


def _node_size(node: Node) -> int:
    match node:
        case RegexGroup():
            return _size(node.inner)
        case Repeat():
            return _node_size(node.inner) * max(node.low, node.high or 1, 1)
        case _:
            return 1


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0
        self.depth = 0

    def fail(self, what: str) -> NoReturn:
        raise BadExpression(f"character {self.at + 1}: {what}")

    def alternatives(self) -> Alternatives:
        branches = [self._branch()]
        while self._next() == "|":
            self.at += 1
            branches.append(self._branch())
        return Alternatives(tuple(branches))

    def _next(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _branch(self) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while self._next() not in ("", "|", ")"):
            nodes.append(self._repeated(self._atom()))
        if not nodes:
            self.fail("nothing is here; POSIX leaves an empty expression undefined")
        return tuple(nodes)

    def _repeated(self, node: Atom | Anchor | RegexGroup) -> Node:
        sign = self._next()
        if sign not in ("*", "+", "?", "{") or sign == "":
            return node
        if isinstance(node, Anchor):
            self.fail(f"{sign} cannot repeat {node.sign}")
        if isinstance(node, RegexGroup) and _repeats(node):
            self.fail(f"{sign} repeats a repetition inside the group; matching may take very long")
        if isinstance(node, RegexGroup) and sign in "*+" and is_nullable(node):
            self.fail(f"{sign} repeats a group that may be empty; matching may take very long")
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._bounds()
        if sign != "{":
            self.at += 1
        if (after := self._next()) and after in "*+?{":
            self.fail(f"{after} after a repetition: POSIX has neither lazy nor possessive repetitions")
        return Repeat(node, low, high)

    def _bounds(self) -> tuple[int, int | None]:
        match = re.compile(r"\{([0-9]+)(,([0-9]*))?\}").match(self.text, self.at)
        if match is None:
            self.fail("{ begins a repetition such as {3} or {2,5}; the character itself is \\{")
        low = int(match[1])
        high = low if match[2] is None else int(match[3]) if match[3] else None
        if max(low, high or 0) > _MOST_REPEATS or (high is not None and high < low):
            self.fail(f"{match[0]}: the bounds must rise and are at most {_MOST_REPEATS}")
        self.at = match.end()
        return low, high

    def _atom(self) -> Atom | Anchor | RegexGroup:
        sign = self._next()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._bracket()
        if sign == "\\":
            return self._escaped()
        if sign in "*+?{":
            self.fail(f"{sign} has nothing to repeat; the character itself is \\{sign}")
        self.at += 1
        if sign in "^$":
            return Anchor(sign)
        return Atom((), negated=True) if sign == "." else Atom((2 * sign,))

    def _group(self) -> RegexGroup:
        self.at += 1
        if self._next() == "?":
            self.fail("(? is Perl syntax; POSIX has only plain groups")
        self.groups += 1
        number = self.groups
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail(f"groups are nested more than {_DEEPEST} deep")
        inner = self.alternatives()
        if self._next() != ")":
            self.fail("a ( without a )")
        self.at += 1
        self.depth -= 1
        return RegexGroup(number, inner)

    def _escaped(self) -> Atom:
        sign = self.text[self.at + 1 : self.at + 2]
        if not sign:
            self.fail("a backslash at the end")
        if sign not in _SPECIAL and (sign.isalnum() or sign in "<>`'"):
            better = {"d": "[0-9]", "w": "[[:alnum:]_]", "s": "[[:space:]]", "D": "[^0-9]"}.get(sign)
            self.fail(f"\\{sign} is not POSIX; write {better}" if better else f"\\{sign} is not POSIX")
        self.at += 2
        return Atom((2 * sign,))

    def _bracket(self) -> Atom:
        begin = self.at
        self.at += 1
        negated = self._next() == "^"
        self.at += negated
        ranges: list[str] = []
        first = True
        while (sign := self._next()) != "]" or first:
            first = False
            if not sign:
                self.at = begin
                self.fail("a [ without a ]")
            if match := re.compile(r"\[:([a-z]+):\]").match(self.text, self.at):
                if match[1] not in _CLASSES:
                    self.fail(f"{match[0]} is not a character class")
                ranges += _CLASSES[match[1]]
                self.at = match.end()
            elif self.text.startswith(("[.", "[="), self.at):
                self.fail("collating symbols and equivalence classes are not understood here")
            else:
                ranges.append(self._range(sign))
        self.at += 1
        return Atom(tuple(ranges), negated)

    def _range(self, low: str) -> str:
        """First and last character of a range, which may be a single character."""
        self.at += 1
        high = self.text[self.at + 1 : self.at + 2]
        if self._next() != "-" or high in ("", "]"):
            return 2 * low
        if high < low:
            self.fail(f"the range {low}-{high} goes backwards")
        self.at += 2
        return low + high


def _repeats(group: RegexGroup) -> bool:
    """Is there a repetition without limit inside?"""
    return any(
        (isinstance(node, Repeat) and node.high is None) or (isinstance(node, RegexGroup) and _repeats(node))
        for branch in group.inner.branches
        for node in branch
    )
