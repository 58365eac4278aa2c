"""Matches POSIX extended regular expressions with numbers, also where only a number's beginning is known.

An unknown rest, one digit or more, is written :data:`TAIL`: ``+420950…`` stands for all numbers that
continue +420950, ``+420950…37`` for those whose next digit is neither 3 nor 7. Such a text is matched if
the answer is the same for all of them; if it is not, :class:`MissingDigits` says which digits to tell apart
first. This makes comparisons of whole plans exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from weirlab.numbering.ere.program import RegexProgram
from weirlab.numbering.ere.syntax import DIGITS, Alternatives, Anchor, Atom, Node, RegexGroup, Repeat, parse

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
