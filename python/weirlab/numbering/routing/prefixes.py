"""Finds the longest prefix among many, by a dictionary per length, from the longest length down.

A look-up costs as many dictionary accesses as there are lengths, 15 at most, however many prefixes there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Generic, TypeVar

from weirlab.numbering.ere import TAIL, MissingDigits

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
