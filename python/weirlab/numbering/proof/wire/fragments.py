"""Reassembles IP datagrams from fragments, as hosts do (RFC 791, 3.2; RFC 8200, 4.5). Pure.

Hosts and captures may disagree about fragments that overlap: such a datagram is dropped whole (RFC 5722, 3),
as Linux does for IPv4, too.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_OPEN: Final = 64
"""Most datagrams with a missing fragment; beyond that, the oldest is given up."""
LIFE_NS: Final = 30_000_000_000
"""Time after its first fragment when a datagram is given up, as in Linux (``ip_frag_time``)."""
_MOST_BYTES: Final = 65535
_UNIT: Final = 8


class Datagram(NamedTuple):
    """Which datagram a fragment belongs to."""

    source: bytes
    target: bytes
    identification: int
    protocol: int
    """The protocol of IPv4; in IPv6 it does not distinguish datagrams, and is 0."""


class Fragment(NamedTuple):
    """A fragment of a datagram, or a whole datagram."""

    datagram: Datagram
    protocol: int
    """The protocol that the datagram carries; the first fragment decides."""
    offset: int
    """In bytes."""
    more: bool
    """Do other fragments follow?"""
    content: bytes


@dataclass
class _PartialDatagram:
    """A datagram with a missing fragment."""

    begun_ns: int
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    """By offset; no two overlap."""
    protocol: int = 0
    size: int | None = None
    """Known once the last fragment has arrived."""
    there: int = 0
    is_wrong: bool = False
    """Are all further fragments dropped?"""

    def take(self, part: Fragment) -> bool:
        """Add a fragment; returns whether it fits the others. A repeated fragment fits."""
        begin, end = part.offset, part.offset + len(part.content)
        at = bisect_left(self.parts, (begin, b""))
        if at < len(self.parts) and self.parts[at] == (begin, part.content):
            return True
        if begin == end or end > _MOST_BYTES or (part.more and end % _UNIT):
            return False
        if at > 0 and self._end(at - 1) > begin:
            return False
        if at < len(self.parts) and self.parts[at][0] < end:
            return False
        if part.more and self.size is not None and end > self.size:
            return False
        if not part.more:
            if self.size is not None or at < len(self.parts):
                return False
            self.size = end
        if begin == 0:
            self.protocol = part.protocol
        self.parts.insert(at, (begin, part.content))
        self.there += end - begin
        return True

    def _end(self, at: int) -> int:
        return self.parts[at][0] + len(self.parts[at][1])


class Reassembly:
    """Reassembles datagrams; it holds only a few, and none for long."""

    def __init__(self) -> None:
        self._open: dict[Datagram, _PartialDatagram] = {}

    def take(self, at_ns: int, part: Fragment) -> tuple[int, bytes] | None:
        """Protocol and content of the datagram that this fragment completes; None for none."""
        if part.offset == 0 and not part.more:
            # Whole by itself, regardless of others with the same identification (RFC 6946, 4).
            return part.protocol, part.content
        known = self._open.get(part.datagram)
        if known is None or at_ns - known.begun_ns > LIFE_NS:
            self._open.pop(part.datagram, None)
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            known = self._open[part.datagram] = _PartialDatagram(at_ns)
        if known.is_wrong:
            return None
        if not known.take(part):
            known.is_wrong, known.parts = True, []
            return None
        if known.size is None or known.there < known.size:
            return None
        del self._open[part.datagram]
        return known.protocol, b"".join(content for _, content in known.parts)
