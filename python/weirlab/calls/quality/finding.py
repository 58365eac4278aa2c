"""What a reader has to know about streams of a capture, and how many of a kind are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal[
    "one-way audio",
    "another address",
    "hole",
    "jitter",
    "far-end loss",
    "far-end jitter",
    "round trip",
    "far-end claim",
    "pause",
    "codec change",
    "clock rate",
    "clock skew",
    "standing time stamps",
    "not voice",
    "telephone events",
    "copies",
    "strays",
    "estimated loss",
    "incomplete capture",
    "guessed codec",
]

COMPLAINTS: Final[frozenset[Kind]] = frozenset(
    {"one-way audio", "incomplete capture", "hole", "jitter", "far-end loss", "far-end jitter"}
)
"""What callers hear, or what nobody knows of it."""
TITLES: Final[Mapping[Kind, str]] = {
    "one-way audio": "One-way audio",
    "hole": "Holes in the speech",
    "far-end jitter": "Jitter behind the capture, which MOS does not include",
}
"""Complaints that MOS does not show."""
MOST: Final = 4
"""Streams with a sentence of their own, of those with the same finding."""


@dataclass(frozen=True)
class StreamFinding:
    """Something that a reader has to know about streams."""

    kind: Kind
    streams: tuple[int, ...]
    """Their numbers."""
    text: str


def shortened(found: Iterable[StreamFinding], others: str) -> Iterator[StreamFinding]:
    """The first findings of a kind, and how many more there are."""
    listed = list(found)
    yield from listed[:MOST]
    if rest := listed[MOST:]:
        numbers = tuple(number for finding in rest for number in finding.streams)
        yield StreamFinding(rest[0].kind, numbers, f"{capitalized(others)} ({listed_streams(numbers)}).")


def be(number: int) -> str:
    return "was" if number == 1 else "were"


def capitalized(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def listed_streams(numbers: Sequence[int]) -> str:
    """``stream 3``, ``streams 1, 2``."""
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"stream{'s' * (len(numbers) > 1)} {shown}"
