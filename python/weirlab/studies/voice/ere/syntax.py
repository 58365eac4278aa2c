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
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "digit": "0-9", "lower": "a-z", "upper": "A-Z",
    "punct": r"!-/:-@\[-`{-~", "space": r"\s", "xdigit": "0-9A-Fa-f", "print": " -~", "graph": "!-~",
    "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_MOST_REPEATS: Final = 255
_LONGEST: Final = 255


class BadExpression(ValueError):
    """The text is not a valid expression; the message says why and what to write."""


@dataclass(frozen=True)
class Atom:
    """One character; ``python`` is its expression for :mod:`re`."""

    python: str

    def accepts(self, character: str) -> bool:
        """Does it match ``character``?"""
        return re.fullmatch(self.python, character, re.DOTALL) is not None

    @property
    def accepts_digits(self) -> bool:
        """Does it match every digit?"""
        return all(map(self.accepts, DIGITS))


@dataclass(frozen=True)
class Anchor:
    """``^`` or ``$``."""

    sign: str


@dataclass(frozen=True)
class Group:
    """``(...)``."""

    inner: Alternatives


@dataclass(frozen=True)
class Repeat:
    """``*``, ``+``, ``?`` and ``{m,n}``; ``high`` is None for no limit."""

    inner: Atom | Group
    low: int
    high: int | None


Node = Atom | Anchor | Group | Repeat


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
    return found, reader.groups


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0

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

    def _repeated(self, node: Atom | Anchor | Group) -> Node:
        sign = self._next()
        if sign not in ("*", "+", "?", "{") or sign == "":
            return node
        if isinstance(node, Anchor):
            self.fail(f"{sign} cannot repeat {node.sign}")
        if isinstance(node, Group) and _repeats(node):
            self.fail(f"{sign} repeats a repetition inside the group; matching may take very long")
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

    def _atom(self) -> Atom | Anchor | Group:
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
        return Atom("." if sign == "." else re.escape(sign))

    def _group(self) -> Group:
        self.at += 1
        if self._next() == "?":
            self.fail("(? is Perl syntax; POSIX has only plain groups")
        self.groups += 1
        inner = self.alternatives()
        if self._next() != ")":
            self.fail("a ( without a )")
        self.at += 1
        return Group(inner)

    def _escaped(self) -> Atom:
        sign = self.text[self.at + 1 : self.at + 2]
        if not sign:
            self.fail("a backslash at the end")
        if sign not in _SPECIAL and (sign.isalnum() or sign in "<>`'"):
            better = {"d": "[0-9]", "w": "[[:alnum:]_]", "s": "[[:space:]]", "D": "[^0-9]"}.get(sign)
            self.fail(f"\\{sign} is not POSIX; write {better}" if better else f"\\{sign} is not POSIX")
        self.at += 2
        return Atom(re.escape(sign))

    def _bracket(self) -> Atom:
        begin = self.at
        self.at += 1
        negated = self._next() == "^"
        self.at += negated
        inside = ""
        first = True
        while (sign := self._next()) != "]" or first:
            first = False
            if not sign:
                self.at = begin
                self.fail("a [ without a ]")
            if match := re.compile(r"\[:([a-z]+):\]").match(self.text, self.at):
                if match[1] not in _CLASSES:
                    self.fail(f"{match[0]} is not a character class")
                inside += _CLASSES[match[1]]
                self.at = match.end()
            elif self.text.startswith(("[.", "[="), self.at):
                self.fail("collating symbols and equivalence classes are not understood here")
            else:
                inside += self._range(sign)
        self.at += 1
        return Atom(f"[{'^' if negated else ''}{inside}]")

    def _range(self, low: str) -> str:
        self.at += 1
        high = self.text[self.at + 1 : self.at + 2]
        if self._next() != "-" or high in ("", "]"):
            return re.escape(low)
        if high < low:
            self.fail(f"the range {low}-{high} goes backwards")
        self.at += 2
        return f"{re.escape(low)}-{re.escape(high)}"


def _repeats(group: Group) -> bool:
    """Is there a repetition without limit inside?"""
    return any(
        (isinstance(node, Repeat) and node.high is None) or (isinstance(node, Group) and _repeats(node))
        for branch in group.inner.branches
        for node in branch
    )
