"""When the ring was full, as seen from outside the recorder, even after its death; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weirlab.link.account import RecordGap


@dataclass
class RingWatch:
    """Frames that found the ring full, between one look and the next."""

    _last_ns: int | None = None
    _last: Mapping[str, int] = field(default_factory=dict)
    _open: dict[str, RecordGap] = field(default_factory=dict)
    _closed: list[RecordGap] = field(default_factory=list)

    def look(self, at_ns: int, not_copied: Mapping[str, int]) -> None:
        """Take in the counters at ``at_ns``; consecutive looks that find losses form one gap."""
        since_ns = at_ns if self._last_ns is None else self._last_ns
        for name, count in not_copied.items():
            more = count - self._last.get(name, 0)
            if more > 0:
                gap = self._open.get(name) or RecordGap(since_ns, at_ns, "ring", 0, name, "the ring was full")
                self._open[name] = replace(gap, to_ns=at_ns, frames=(gap.frames or 0) + more)
            elif name in self._open:
                self._closed.append(self._open.pop(name))
        self._last_ns, self._last = at_ns, dict(not_copied)

    def gaps(self) -> tuple[RecordGap, ...]:
        """The gaps in order of time."""
        return tuple(sorted([*self._closed, *self._open.values()], key=lambda gap: gap.from_ns))
