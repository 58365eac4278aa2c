"""By how much two hosts' clocks differ, from questions and answers; pure.

A question is sent at ``sent`` and its answer heard at ``heard``, both by the clock here. The clock there
said ``at`` in between. Hence what it is ahead of the one here lies from ``at - heard`` to ``at - sent``,
whatever the path does and however unlike its two directions are (RFC 5905 section 8 has the same bounds).
All exchanges together leave what all of them allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    """A question and its answer, ns."""

    sent_ns: int
    at_ns: int
    heard_ns: int

    @property
    def least_ns(self) -> int:
        return self.at_ns - self.heard_ns

    @property
    def most_ns(self) -> int:
        return self.at_ns - self.sent_ns


@dataclass(frozen=True)
class Offset:
    """The clock there is ahead of the one here by ``ns``, give or take ``bound_ns``."""

    ns: int
    bound_ns: int
    exchanges: int
    drifted: bool = False
    """No single offset fits all exchanges: the clocks ran apart meanwhile, or one was set."""


def offset(exchanges: Sequence[Exchange]) -> Offset | None:
    """What all exchanges allow; None without any.

    Where they contradict each other, the bound is so wide that it holds all of them.
    """
    if not exchanges:
        return None
    least, most = max(each.least_ns for each in exchanges), min(each.most_ns for each in exchanges)
    drifted = least > most
    if drifted:
        least, most = min(each.least_ns for each in exchanges), max(each.most_ns for each in exchanges)
    return Offset((least + most) // 2, (most - least + 1) // 2, len(exchanges), drifted)
