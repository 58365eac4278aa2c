"""The answers of an ENUM tree, by the rules of the plan or by those of a zone (RFC 4592)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from weirlab.numbering.ere import TAIL, MissingDigits
from weirlab.numbering.plan.model import EnumEntry, PlanTree
from weirlab.numbering.routing.prefixes import Prefixes, continued


@dataclass(frozen=True)
class EnumHole:
    """Numbers for which a prefix should answer, but the zone does not (RFC 4592, 2.2.2 and 3.3.1).

    A name below the wildcard exists, ``cause``; so the wildcard no longer stands for ``digits``, nor for
    what continues them.
    """

    digits: str
    prefix: int
    cause: int


@dataclass(frozen=True)
class EnumName:
    """A name of the zone: its digits, or the wildcard below them, and the entry that it answers with."""

    digits: str
    wildcard: bool
    entry: int
    fills: bool
    """It closes a hole and is not an entry itself."""


class EnumTree:
    """Entries of one tree that are valid on one day, by their indices in the plan.

    A prefix answers for longer numbers that begin with it, a number only for itself.
    """

    def __init__(self, tree: PlanTree, entries: Iterable[tuple[int, EnumEntry]]) -> None:
        self.tree = tree
        listed = [*entries]
        self.numbers: dict[str, int] = {}
        for index, entry in listed:
            if entry.number is not None:
                self.numbers.setdefault(entry.digits, index)
        self.prefixes = Prefixes((e.digits, i) for i, e in listed if e.number is None)

    def lookup(self, digits: str) -> int | None:
        """The index of the entry that answers for ``digits``, or None.

        Raises
        ------
        MissingDigits
            ``digits`` ends with the tail, and the answer depends on it.
        """
        if TAIL in digits:
            known, _, others = digits.partition(TAIL)
            if following := self._nodes.get(known, set()).difference(others):
                raise MissingDigits(frozenset(following))
            # The shortest continuation, by a digit that leads to no other name.
            free = next(digit for digit in "0123456789" if digit not in others)
            return self.lookup(known + free)
        if (exact := self.numbers.get(digits)) is not None:
            return exact
        if self.tree.fill_holes:
            found = self.prefixes.covering(digits)
            return None if found is None else found[1]
        return self._as_it_stands(digits)

    def counts(self, index: int, entry: EnumEntry) -> bool:
        """Does this entry answer for its number or prefix? Another entry may have the same one."""
        return (self.numbers if entry.number is not None else self.prefixes).get(entry.digits) == index

    def names(self) -> Iterator[EnumName]:
        """The names of the zone that give the answers of :meth:`lookup`, in no order.

        If holes are filled, every name that exists below a prefix gets the prefix's records, and
        its own wildcard, because it would otherwise hide the prefix's wildcard.
        """
        for digits, index in self.numbers.items():
            yield EnumName(digits, False, index, False)
        for digits, index in self._wildcards():
            yield EnumName(digits, True, index, False)
        if not self.tree.fill_holes:
            return
        for digits in dict.fromkeys((*self._nodes, *self.numbers)):
            if (found := self.prefixes.covering(digits)) is None:
                continue
            if digits not in self.numbers:
                yield EnumName(digits, False, found[1], True)
            if digits not in self.prefixes:
                yield EnumName(digits, True, found[1], True)

    def holes(self) -> Iterator[EnumHole]:
        """Names for which a zone without filled holes has no answer although a prefix covers them."""
        causes: dict[str, int] = {}
        for digits, index in (*self.numbers.items(), *self._wildcards()):
            for length in range(len(digits), -1, -1):
                if causes.setdefault(digits[:length], index) != index:
                    break
        for digits, cause in causes.items():
            found = self.prefixes.covering(digits)
            if found is not None and digits not in self.prefixes:
                yield EnumHole(digits, found[1], cause)

    def _wildcards(self) -> Iterator[tuple[str, int]]:
        for digits in self.prefixes:
            index = self.prefixes.get(digits)
            assert index is not None
            yield digits, index

    def _as_it_stands(self, digits: str) -> int | None:
        """The answer of a zone that has only the plan's names: the closest encloser's wildcard."""
        if digits in self._nodes:
            return None
        for length in range(len(digits) - 1, -1, -1):
            encloser = digits[:length]
            if encloser in self._nodes or encloser in self.numbers:
                return self.prefixes.get(encloser)
        return None

    @cached_property
    def _nodes(self) -> dict[str, set[str]]:
        """Names that exist because longer ones do, and the digits that follow there.

        The wildcard below a prefix makes the prefix itself such a name.
        """
        found = continued((*self.numbers, *self.prefixes))
        for digits in self.prefixes:
            found.setdefault(digits, set())
        return found
