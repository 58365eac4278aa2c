"""Fragments of IP datagrams put together, as hosts do it (RFC 791, 3.2; RFC 8200, 4.5). Pure.

Hosts and captures may disagree about fragments that overlap: such a datagram is dropped whole (RFC 5722, 3),
as Linux does for IPv4, too.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_OPEN: Final = 64
"""Datagrams of which a fragment is missing; one more, and the oldest of them is given up."""
LIFE_NS: Final = 30_000_000_000
"""After its first fragment, a datagram is given up: what Linux does (``ip_frag_time``)."""
_MOST_BYTES: Final = 65535
_UNIT: Final = 8


class Datagram(NamedTuple):
    """Which datagram a fragment belongs to."""

    source: bytes
    target: bytes
    identification: int
    protocol: int
    """Of IPv4; in IPv6 it does not tell datagrams apart, and is 0."""


class Fragment(NamedTuple):
    """A part of a datagram, or a whole one."""

    datagram: Datagram
    protocol: int
    """What the datagram carries; that of the first fragment counts."""
    offset: int
    """In bytes."""
    more: bool
    """Others follow."""
    content: bytes


@dataclass
class _Open:
    """A datagram of which a fragment is missing."""

    begun_ns: int
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    """By offset; no two overlap."""
    protocol: int = 0
    size: int | None = None
    """Known once its last part is there."""
    there: int = 0
    is_wrong: bool = False
    """Whatever comes of it now is dropped."""

    def take(self, part: Fragment) -> bool:
        """Whether a part fits to the others; one that comes again does."""
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
    """Puts datagrams together; it holds few of them, and none for long."""

    def __init__(self) -> None:
        self._open: dict[Datagram, _Open] = {}

    def take(self, at_ns: int, part: Fragment) -> tuple[int, bytes] | None:
        """Protocol and content of the datagram that is whole with this part; None for none."""
        if part.offset == 0 and not part.more:
            # Whole by itself, whatever others of the same identification there are (RFC 6946, 4).
            return part.protocol, part.content
        known = self._open.get(part.datagram)
        if known is None or at_ns - known.begun_ns > LIFE_NS:
            self._open.pop(part.datagram, None)
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            known = self._open[part.datagram] = _Open(at_ns)
        if known.is_wrong:
            return None
        if not known.take(part):
            known.is_wrong, known.parts = True, []
            return None
        if known.size is None or known.there < known.size:
            return None
        del self._open[part.datagram]
        return known.protocol, b"".join(content for _, content in known.parts)
