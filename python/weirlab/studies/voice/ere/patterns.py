"""Matches POSIX extended regular expressions with numbers, also where only a number's beginning is known.

An unknown rest, one digit or more, is written :data:`TAIL`: ``+420950…`` stands for all numbers that
continue +420950, ``+420950…37`` for those whose next digit is neither 3 nor 7. Such a text is matched if
the answer is the same for all of them; if it is not, :class:`NeedsDigits` says which digits to tell apart
first. This makes comparisons of whole plans exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from weirlab.studies.voice.ere.syntax import DIGITS, Alternatives, Anchor, Atom, Group, Node, Repeat, parse

TAIL: Final = "…"
"""One or more unknown digits; digits after this sign are those that do not come next."""


class NeedsDigits(Exception):
    """The answer depends on the first digit of the tail: on whether it is one of ``digits``."""

    def __init__(self, digits: frozenset[str]) -> None:
        self.digits = digits


class Pattern:
    """A compiled expression.

    The match is the leftmost and, of those, the longest, as POSIX demands; how groups share it follows
    Python's rules, which differ only where a group could be filled in several ways.
    """

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        tree, self.groups = parse(text)
        self.text = text
        self._flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._plain = _alternatives(tree, _plain)
        self._whole: dict[int, re.Pattern[str]] = {}
        self._simple = _is_simple(tree)
        self.anchored = _is_anchored(tree)
        self._open = re.compile(_alternatives(tree, _open), self._flags) if self._simple else None
        self._begin = re.compile(_beginning(tree), self._flags)
        self._starts = all(_starts(branch) for branch in tree.branches)

    def match(self, text: str) -> tuple[str, ...] | None:
        """The match and its groups (empty where unused), or None.

        Raises
        ------
        NeedsDigits
            ``text`` has a tail, and the answer depends on it.
        """
        if TAIL in text:
            return self._match_open(text)
        if not self._begins(text):
            return None
        starts = (0,) if self._starts else range(len(text) + 1)
        for start in starts:
            for rest in range(len(text) - start + 1):
                if found := self._ending(rest).match(text, start):
                    return _parts(found)
        return None

    def _ending(self, rest: int) -> re.Pattern[str]:
        """The compiled expression for a match that ``rest`` characters follow."""
        if rest not in self._whole:
            self._whole[rest] = re.compile(rf"(?:{self._plain})(?=.{{{rest}}}\Z)", self._flags)
        return self._whole[rest]

    def _match_open(self, text: str) -> tuple[str, ...] | None:
        known, _, others = text.partition(TAIL)
        if not self._begins(known):
            return None
        if self._open is not None and (found := self._open.match(text)):
            return _parts(found)
        possible = frozenset(digit for digit in DIGITS if digit not in others and self._begins(known + digit))
        if not possible:
            return None
        raise NeedsDigits(possible)

    def _begins(self, known: str) -> bool:
        """Could a text that begins with ``known`` match?"""
        return not self._starts or self._begin.fullmatch(known) is not None


@lru_cache(maxsize=4096)
def compiled(text: str, ignore_case: bool) -> Pattern:
    """A cached pattern, as plans repeat a few expressions many times."""
    return Pattern(text, ignore_case=ignore_case)


def _parts(found: re.Match[str]) -> tuple[str, ...]:
    return (found[0], *(group or "" for group in found.groups()))


def _alternatives(tree: Alternatives, write: Callable[[Node], str]) -> str:
    return "|".join("".join(write(node) for node in branch) for branch in tree.branches)


def _plain(node: Node) -> str:
    """``node`` for :mod:`re`."""
    match node:
        case Atom():
            return node.python
        case Anchor():
            return r"\A" if node.sign == "^" else r"\Z"
        case Group():
            return f"({_alternatives(node.inner, _plain)})"
        case Repeat():
            high = "" if node.high is None else str(node.high)
            return f"{_plain(node.inner)}{{{node.low},{high}}}"


def _open(node: Node) -> str:
    """The same for a text that ends with the tail, which only an endless repetition takes, and whole."""
    match node:
        case Atom():
            return f"(?!{TAIL}){node.python}"
        case Anchor():
            return r"\A" if node.sign == "^" else r"\Z"
        case Group():
            return f"({_alternatives(node.inner, _open)})"
        case Repeat(high=None):
            inner = f"(?:{_open(node.inner)})"
            tail = f"{TAIL}[0-9]*"
            filled = f"{inner}{{{node.low},}}(?:{tail})?"
            return f"(?:{filled}|{tail})" if node.low == 1 else f"(?:{filled})"
        case Repeat():
            return f"(?:{_open(node.inner)}){{{node.low},{node.high}}}"


def _beginning(tree: Alternatives) -> str:
    """An expression for all beginnings of matching texts; it may match more, never less."""
    return "|".join(_sequence(branch) for branch in tree.branches)


def _sequence(nodes: tuple[Node, ...]) -> str:
    if not nodes:
        return ".*"  # Whatever follows the match.
    first, *rest = nodes
    if isinstance(first, Anchor):
        return _sequence(tuple(rest)) if first.sign == "^" else ""
    return f"(?:{_partial(first)}|{_silent(first)}(?:{_sequence(tuple(rest))}))"


def _partial(node: Node) -> str:
    match node:
        case Atom():
            return f"(?:{node.python})?"
        case Group():
            return f"(?:{_beginning(node.inner)})"
        case Repeat():
            return f"(?:{_silent(node.inner)})*(?:{_partial(node.inner)})"
        case Anchor():
            return ""


def _silent(node: Node) -> str:
    """As :func:`_plain`, without numbered groups."""
    match node:
        case Group():
            return f"(?:{_alternatives(node.inner, _silent)})"
        case Repeat():
            high = "" if node.high is None else str(node.high)
            return f"{_silent(node.inner)}{{{node.low},{high}}}"
        case _:
            return _plain(node)


def _is_simple(tree: Alternatives) -> bool:
    """``^``, characters one by one, then perhaps an endless repetition of digits, then perhaps ``$``."""
    if len(tree.branches) != 1 or not _starts(tree.branches[0]):
        return False
    flat = [*_flat(tree.branches[0][1:])]
    if flat and isinstance(flat[-1], Anchor) and flat[-1].sign == "$":
        flat.pop()
    if flat and isinstance(last := flat[-1], Repeat) and last.high is None:
        if last.low > 1 or not isinstance(last.inner, Atom) or not last.inner.accepts_digits:
            return False
        flat.pop()
    return all(
        isinstance(node, Atom)
        or (isinstance(node, Repeat) and node.low == node.high and isinstance(node.inner, Atom))
        for node in flat
    )


def _flat(nodes: tuple[Node, ...]) -> list[Node]:
    """``nodes`` with those inside groups; a group of alternatives stays one."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Group) and len(node.inner.branches) == 1:
            found += _flat(node.inner.branches[0])
        else:
            found.append(node)
    return found


def _starts(branch: tuple[Node, ...]) -> bool:
    return isinstance(branch[0], Anchor) and branch[0].sign == "^"


def _is_anchored(tree: Alternatives) -> bool:
    """Does every alternative begin with ``^`` and end with ``$``?"""
    return all(
        _starts(branch) and isinstance(branch[-1], Anchor) and branch[-1].sign == "$"
        for branch in tree.branches
    )
