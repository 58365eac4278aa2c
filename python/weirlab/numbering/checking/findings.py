"""The findings of checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from weirlab.base.quantities import words

Severity = Literal["error", "warning"]

MOST_NAMED: Final = 8
"""Names in a sentence."""

MOST_OF_A_KIND: Final = 20
"""Findings that are reported per code; the last one says how many more there are."""


@dataclass(frozen=True)
class PlanFinding:
    """A mistake, or something that looks like one."""

    severity: Severity
    code: str
    """The kind of mistake in a word or two."""
    place: str
    """``file:line``."""
    reason: str
    proposal: str

    def key(self) -> tuple[str, int, str]:
        """A sort key: the order of the files and their lines."""
        file, _, line = self.place.rpartition(":")
        return file, int(line), self.code


def error(code: str, place: str, reason: str, proposal: str) -> PlanFinding:
    """A finding about something that keeps calls from going where the plan says."""
    return PlanFinding("error", code, place, reason, proposal)


def warning(code: str, place: str, reason: str, proposal: str) -> PlanFinding:
    """A finding about something that works, but probably not as intended."""
    return PlanFinding("warning", code, place, reason, proposal)


def limited(found: Iterable[PlanFinding]) -> Iterator[PlanFinding]:
    """``found`` without repetitions, and at most :data:`MOST_OF_A_KIND` of a code."""
    listed = [*dict.fromkeys(found)]
    total = Counter(finding.code for finding in listed)
    told: Counter[str] = Counter()
    for finding in listed:
        told[finding.code] += 1
        left = total[finding.code] - MOST_OF_A_KIND
        if told[finding.code] == MOST_OF_A_KIND and left > 0:
            yield replace(finding, reason=f"{finding.reason} (and {left:,} more like this)")
        elif told[finding.code] <= MOST_OF_A_KIND:
            yield finding


def line(place: str) -> str:
    """The line of a place for a sentence: ``line 12``."""
    return f"line {place.rpartition(':')[2]}"


def named(names: Iterable[str]) -> str:
    """Names for a sentence: ``a, b and c``, or the first ones and how many more there are."""
    return words([*names], most=MOST_NAMED)
