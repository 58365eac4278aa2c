"""Expressions as automata, which match in a time bounded by instructions × characters.

Nothing is tried twice: a state (instruction, place in the text) that has led nowhere is not entered again.
Expressions come from users, and a backtracking matcher takes for ever on some of them.

The whole match is the leftmost and, of those, the longest (IEEE 1003.1, 9.1). Groups share it as in the GNU C
library, with which engines match (posix/regexec.c, update_regs): the first alternative and the most
repetitions that the whole match allows; an optional repetition that is empty leaves all groups as they were.
POSIX would give each group the most characters; the two differ only where groups could be filled in several
ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from weirlab.numbering.ere.syntax import Alternatives, Anchor, Atom, Node, RegexGroup, Repeat

_NOWHERE: Final = -1

_State = tuple[int, int]
"""An instruction and a place in the text."""
_Places = tuple[int, ...]
"""Where the match and each of its groups begin and end; -1 if a group has not been used."""


class _Kind(Enum):
    CHARACTER = auto()
    SPLIT = auto()
    """Go on at ``next``, or else at ``other``."""
    OPEN = auto()
    CLOSE = auto()
    """A group begins and ends."""
    START = auto()
    FINISH = auto()
    """The text's start and finish."""
    MATCH = auto()


@dataclass
class _Instruction:
    kind: _Kind
    next: int = _NOWHERE
    other: int = _NOWHERE
    """The second way of a split; the number of a group."""
    atom: Atom | None = None
    optional: bool = False
    """Does it close a group in an optional repetition?"""


class RegexProgram:
    """A compiled expression with ``groups`` groups; ``accepts`` says whether an atom matches a character."""

    def __init__(self, tree: Alternatives, groups: int, accepts: Callable[[Atom, str], bool]) -> None:
        self._instructions: list[_Instruction] = []
        self._groups = groups
        self._accepts = accepts
        match = self._add(_Instruction(_Kind.MATCH))
        self._begin = self._alternatives(tree, match)

    def match(self, text: str, starts: range) -> tuple[str | None, ...] | None:
        """The match that begins at the first possible one of ``starts``, and what each group matched.

        None for groups that take no part.
        """
        entered: set[_State] = set()
        for start in starts:
            if ends := [place for kind, place in self._walk(text, start, entered) if kind is _Kind.MATCH]:
                places = self._places(text, start, max(ends))
                return tuple(
                    text[low:high] if low >= 0 else None
                    for low, high in zip(places[::2], places[1::2], strict=True)
                )
        return None

    def begins(self, text: str) -> bool:
        """Can ``text`` be continued so that a match begins at its first character?"""
        return any(kind is _Kind.MATCH or place == len(text) for kind, place in self._walk(text, 0, set()))

    def _walk(self, text: str, start: int, entered: set[_State]) -> list[tuple[_Kind, int]]:
        """Characters and ends of matches that a match from ``start`` can come to, with their places."""
        found: list[tuple[_Kind, int]] = []
        waiting = [(self._begin, start)]
        while waiting:
            state = waiting.pop()
            if state in entered:
                continue
            entered.add(state)
            instruction = self._instructions[state[0]]
            if instruction.kind in (_Kind.MATCH, _Kind.CHARACTER):
                found.append((instruction.kind, state[1]))
            waiting += self._after(instruction, state[1], text)
        return found

    def _places(self, text: str, start: int, end: int) -> _Places:
        """The match from ``start`` to ``end``, which exists, and its groups."""
        unused = (start, end) + 2 * self._groups * (_NOWHERE,)
        entered: set[_State] = set()
        # Each state with the groups so far, and those when the last one was closed that was not empty.
        waiting = [((self._begin, start), unused, unused)]
        while waiting:
            state, places, closed = waiting.pop()
            if state in entered:
                continue
            entered.add(state)
            instruction = self._instructions[state[0]]
            match instruction.kind:
                case _Kind.MATCH if state[1] == end:
                    return places
                case _Kind.OPEN:
                    places = _with(places, instruction.other, state[1], _NOWHERE)
                case _Kind.CLOSE:
                    began = places[2 * instruction.other]
                    if began == state[1] and instruction.optional and closed[2 * instruction.other] >= 0:
                        places = closed
                    else:
                        places = _with(places, instruction.other, began, state[1])
                        closed = places if began < state[1] else closed
            for after in reversed(self._after(instruction, state[1], text)):
                waiting.append((after, places, closed))
        raise AssertionError("no match where there is one")

    def _after(self, instruction: _Instruction, place: int, text: str) -> list[_State]:
        """The states behind ``instruction`` at ``place``, the preferred one first."""
        match instruction.kind:
            case _Kind.CHARACTER:
                assert instruction.atom is not None
                if place == len(text) or not self._accepts(instruction.atom, text[place]):
                    return []
                return [(instruction.next, place + 1)]
            case _Kind.SPLIT:
                return [(instruction.next, place), (instruction.other, place)]
            case _Kind.START if place:
                return []
            case _Kind.FINISH if place < len(text):
                return []
            case _Kind.MATCH:
                return []
        return [(instruction.next, place)]

    def _add(self, instruction: _Instruction) -> int:
        self._instructions.append(instruction)
        return len(self._instructions) - 1

    def _alternatives(self, tree: Alternatives, after: int, *, copied: bool = False) -> int:
        """Compile ``tree``, which goes on at ``after``; returns where it begins.

        ``copied``: within a repetition, the second time or later. The C library forgets in its copies which
        groups are optional.
        """
        *others, begin = [self._sequence(branch, after, copied=copied) for branch in tree.branches]
        for other in reversed(others):
            begin = self._add(_Instruction(_Kind.SPLIT, other, begin))
        return begin

    def _sequence(self, nodes: tuple[Node, ...], after: int, *, copied: bool) -> int:
        for node in reversed(nodes):
            after = self._node(node, after, copied=copied)
        return after

    def _node(self, node: Node, after: int, *, copied: bool, optional: bool = False) -> int:
        match node:
            case Atom():
                return self._add(_Instruction(_Kind.CHARACTER, after, atom=node))
            case Anchor():
                return self._add(_Instruction(_Kind.START if node.sign == "^" else _Kind.FINISH, after))
            case RegexGroup():
                close = self._add(_Instruction(_Kind.CLOSE, after, node.number, optional=optional))
                begin = self._alternatives(node.inner, close, copied=copied)
                return self._add(_Instruction(_Kind.OPEN, begin, node.number))
            case Repeat():
                return self._repeat(node, after, copied=copied)

    def _repeat(self, repeat: Repeat, after: int, *, copied: bool) -> int:
        """Compile ``xx((x?x)?x)?`` for ``x{2,5}``, of which the third is the optional one."""

        def nth(number: int, after: int) -> int:
            optional = number == repeat.low and not copied
            return self._node(repeat.inner, after, copied=copied or number > 0, optional=optional)

        if repeat.high is None:
            begin = self._add(_Instruction(_Kind.SPLIT, other=after))
            self._instructions[begin].next = nth(repeat.low, begin)
        else:
            afters = [after]
            for number in reversed(range(repeat.low, repeat.high)):
                afters.append(nth(number, afters[-1]))
            begin = afters.pop()
            while afters:
                begin = self._add(_Instruction(_Kind.SPLIT, begin, afters.pop()))
        for number in reversed(range(repeat.low)):
            begin = nth(number, begin)
        return begin


def _with(places: _Places, group: int, begin: int, end: int) -> _Places:
    return (*places[: 2 * group], begin, end, *places[2 * group + 2 :])
