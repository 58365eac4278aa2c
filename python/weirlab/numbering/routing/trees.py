"""The longest prefix among many, and the answers of an ENUM tree by the plan's rules or a zone's (RFC 4592).

A look-up goes by a dictionary per length, from the longest length down: as many dictionary accesses as there
are lengths, 15 at most, however many prefixes there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from weirlab.numbering.ere import TAIL, MissingDigits
from weirlab.numbering.plan.model import EnumEntry, PlanTree

V = TypeVar("V")


class Prefixes(Generic[V]):
    """Values by prefix; of several values for one prefix, the first one is used."""

    def __init__(self, items: Iterable[tuple[str, V]] = ()) -> None:
        self._values: dict[str, V] = {}
        for prefix, value in items:
            self._values.setdefault(prefix, value)
        self._lengths = sorted({len(prefix) for prefix in self._values}, reverse=True)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, prefix: str) -> bool:
        return prefix in self._values

    def items(self) -> Iterable[tuple[str, V]]:
        """Every prefix and its value."""
        return self._values.items()

    def get(self, prefix: str) -> V | None:
        """The value of exactly this prefix."""
        return self._values.get(prefix)

    def longest(self, number: str, *, proper: bool = False) -> tuple[str, V] | None:
        """The longest prefix of ``number`` and its value; a ``proper`` one is shorter than the number.

        Raises
        ------
        MissingDigits
            ``number`` has a tail, and longer prefixes continue what is known of it.
        """
        if TAIL in number:
            number, _, others = number.partition(TAIL)
            proper = False
            if following := self._continued.get(number, set()).difference(others):
                raise MissingDigits(frozenset(following))
        most = len(number) - proper
        values = self._values
        for length in self._lengths:
            if length <= most and (value := values.get(number[:length])) is not None:
                return number[:length], value
        return None

    def covering(self, prefix: str) -> tuple[str, V] | None:
        """The longest prefix that is shorter than ``prefix`` and with which it begins."""
        return self.longest(prefix, proper=True)

    def is_hidden(self, prefix: str) -> bool:
        """Do longer prefixes cover every longer number that begins with ``prefix``?"""
        following = self._continued.get(prefix, set())
        return len(following) == 10 and all(
            prefix + digit in self._values or self.is_hidden(prefix + digit) for digit in following
        )

    def free_continuation(self, prefix: str) -> str | None:
        """The fewest digits after ``prefix`` that no longer prefix matches; None if it is hidden."""
        following = self._continued.get(prefix, set())
        for digit in "5678901234":
            if digit not in following:
                return digit
        for digit in sorted(following):
            if prefix + digit not in self._values:
                further = self.free_continuation(prefix + digit)
                if further is not None:
                    return digit + further
        return None

    @cached_property
    def _continued(self) -> dict[str, set[str]]:
        """The next digits of longer prefixes, by the digits before them."""
        return continued(self._values)


def continued(names: Iterable[str]) -> dict[str, set[str]]:
    """For every beginning of one of ``names`` (shorter than it), the characters that follow it."""
    found: dict[str, set[str]] = {}
    for name in names:
        for length in range(len(name) - 1, -1, -1):
            following = found.get(name[:length])
            if following is None:
                found[name[:length]] = {name[length]}
            elif name[length] in following:
                # All shorter beginnings are known from another name with this one.
                break
            else:
                following.add(name[length])
    return found


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
        for digits, index in self.prefixes.items():
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
        for digits, index in (*self.numbers.items(), *self.prefixes.items()):
            for length in range(len(digits), -1, -1):
                if causes.setdefault(digits[:length], index) != index:
                    break
        for digits, cause in causes.items():
            found = self.prefixes.covering(digits)
            if found is not None and digits not in self.prefixes:
                yield EnumHole(digits, found[1], cause)

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
