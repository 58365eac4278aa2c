"""How many calls stand at once: as a number, from Erlangs, or from call attempts in the busy hour. Pure."""

from __future__ import annotations

import re
from typing import Final

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quantities import percent
from weirlab.base.quoting import quoted

BLOCKED: Final = 0.01
"""Share of calls that find all lines busy, at most: what lines for a number of Erlangs are counted by."""

HOUR_S: Final = 3600.0

ACCEPTED: Final = (
    "'500', '3,000', '10k', '20erl' (Erlangs) or '1200bhca@180s' (call attempts in the busy hour, "
    "and how long they last)"
)

_TEXT: Final = re.compile(r"(\d+(?:\.\d+)?)(k?)(?:(erl|erlangs?)|(bhca)@(\d+(?:\.\d+)?)(s|min))?")


def parse_count(text: str | int) -> int:
    """The number of calls in ``text``; of Erlangs, that of the lines that they need (:func:`lines`).

    Raises
    ------
    InputError
        The text is not understood, or there are more than :data:`weirlab.base.limits.MOST_CALLS`.
    """
    if isinstance(text, int):
        return text
    match = _TEXT.fullmatch(text.strip().lower().replace(",", "").replace(" ", ""))
    value = float(match[1]) * (1000 if match[2] else 1) if match else 0.0
    if match is not None and match[4]:
        value *= float(match[5]) * (60 if match[6] == "min" else 1) / HOUR_S
    offered = match is not None and bool(match[3] or match[4])
    if match is None or not (offered or value.is_integer()) or value > limits.MOST_CALLS:
        raise InputError(
            f"number of calls {quoted(text)} not understood; accepted are {ACCEPTED}, up to "
            f"{limits.MOST_CALLS:,}"
        )
    return lines(value) if offered else int(value)


def lines(erlangs: float, blocked: float = BLOCKED) -> int:
    """The fewest lines of which ``erlangs`` find all busy for at most a share ``blocked`` of the calls.

    By Erlang's formula B, in its usual recursion: B(n) = a B(n-1) / (n + a B(n-1)).
    """
    share, found = 1.0, 0
    while share > blocked:
        found += 1
        share = erlangs * share / (found + erlangs * share)
    return found


def note(text: str) -> str:
    """How the calls of Erlangs are counted; empty for a number of calls."""
    if text.strip().lower().replace(",", "").removesuffix("k").isdecimal():
        return ""
    return (
        f"{text}: {parse_count(text):,} calls at once, so that at most {percent(BLOCKED)} of calls find "
        "all lines busy (Erlang B)"
    )
