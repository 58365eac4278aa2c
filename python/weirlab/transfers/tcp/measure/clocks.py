"""By how much two hosts' clocks differ, from requests and replies; pure.

A request is sent at ``sent`` and its reply received at ``heard``, both by the local clock. The remote clock
read ``at`` in between. Hence the remote clock is ahead of the local one by ``at - heard`` to ``at - sent``,
whatever the path does and however different its two directions are (RFC 5905 section 8 has the same bounds).
The offset must satisfy the bounds of all exchanges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    """A request and its reply, ns."""

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
    """The remote clock is ahead of the local one by ``ns``, give or take ``bound_ns``."""

    ns: int
    bound_ns: int
    exchanges: int
    drifted: bool = False
    """No single offset fits all exchanges: the clocks drifted apart meanwhile, or one was set."""


def offset(exchanges: Sequence[Exchange]) -> Offset | None:
    """The offset that all exchanges allow; None without any.

    If they contradict each other, the bound is wide enough for all of them.
    """
    if not exchanges:
        return None
    least, most = (
        max(exchange.least_ns for exchange in exchanges),
        min(exchange.most_ns for exchange in exchanges),
    )
    drifted = least > most
    if drifted:
        least, most = (
            min(exchange.least_ns for exchange in exchanges),
            max(exchange.most_ns for exchange in exchanges),
        )
    return Offset((least + most) // 2, (most - least + 1) // 2, len(exchanges), drifted)
