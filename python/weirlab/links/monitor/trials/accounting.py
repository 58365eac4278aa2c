"""Where the frames of a trial went, and whether they are all accounted for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from weirlab.links.monitor.bed.base import Stages

PLACES: Final = ("before", "bridge", "behind", "ring", "mirror", "logger", "socket", "disk")
"""Where a frame can get lost, in the order of its way."""

REMAINDERS: Final = ("behind", "logger")
"""Places where nobody counts what is lost: what one counter has and the next one has not."""


@dataclass(frozen=True)
class StageLosses:
    """Frames lost at each place of :data:`PLACES`; ``link`` places first, then those of the record.

    ``before``: the bridge's interface had no room; ``bridge``: it was not forwarded; ``behind``: on the
    way from there to the receiver, a remainder. ``ring``: no room between bridge and recorder;
    ``mirror``: not sent by the mirror; ``logger``: on the way from there to the logger, a remainder;
    ``socket``: between kernel and recorder; ``disk``: not written.
    """

    before: int
    bridge: int
    behind: int
    ring: int = 0
    mirror: int = 0
    logger: int = 0
    socket: int = 0
    disk: int = 0

    @property
    def link(self) -> int:
        """Frames that the receiver did not get."""
        return self.before + self.bridge + self.behind

    @property
    def record(self) -> int:
        """Frames that came by the monitor and are not in the record."""
        return self.ring + self.mirror + self.logger + self.socket + self.disk


def losses(stages: Stages) -> StageLosses:
    """Where the frames of a trial were lost."""
    link = StageLosses(stages.not_entered, stages.not_forwarded, stages.forwarded - stages.received)
    record = stages.recorded
    if record is None:
        return link
    logger = 0
    if stages.mirrored is not None and record.seen is not None:
        # Sent by the bridge, and neither given to the recorder nor known to be lost there.
        logger = max(stages.mirrored - record.seen - (record.lost or 0), 0)
    # The recorder of a ring knows by the gaps what the tap counted as not copied: the same frames.
    of_ring = stages.not_copied is not None
    return StageLosses(
        link.before,
        link.bridge,
        link.behind,
        ring=stages.not_copied or 0,
        mirror=stages.not_mirrored or 0,
        logger=logger,
        socket=0 if of_ring else record.lost or 0,
        disk=record.not_written or 0,
    )


def imbalance(stages: Stages) -> tuple[str, ...]:
    """The sums over counters that do not close, a sentence each; none if all counters agree.

    What is a remainder (:data:`REMAINDERS`) closes any sum that it is in; it is told as such.
    """
    return tuple(_open_sums(stages))


def _open_sums(s: Stages) -> Iterator[str]:
    if s.sent != s.not_entered + s.entered:
        yield (
            f"{s.sent:,} frames were sent, and at the bridge {s.entered:,} came in and {s.not_entered:,} "
            f"were refused: {s.sent - s.entered - s.not_entered:+,}"
        )
    if s.entered != s.forwarded + s.not_forwarded:
        yield (
            f"{s.entered:,} frames came in, {s.forwarded:,} were forwarded and {s.not_forwarded:,} not: "
            f"{s.entered - s.forwarded - s.not_forwarded:+,}"
        )
    if s.received > s.forwarded:
        yield f"{s.received:,} frames arrived and only {s.forwarded:,} were forwarded"
    if s.copied is not None and s.not_copied is not None and s.entered != s.copied + s.not_copied:
        yield (
            f"{s.entered:,} frames came in, {s.copied:,} were copied and {s.not_copied:,} not: "
            f"{s.entered - s.copied - s.not_copied:+,}"
        )
    if s.mirrored is not None and s.not_mirrored is not None and s.entered != s.mirrored + s.not_mirrored:
        yield (
            f"{s.entered:,} frames came in, {s.mirrored:,} were sent to the logger and {s.not_mirrored:,} "
            f"not: {s.entered - s.mirrored - s.not_mirrored:+,}"
        )
    if s.recorded is not None:
        yield from _open_record(s)


def _open_record(s: Stages) -> Iterator[str]:
    r = s.recorded
    assert r is not None
    passed = s.received if s.at_receiver else s.entered
    lost = losses(s).record
    if passed != r.logged + lost:
        yield (
            f"{passed:,} frames came by the monitor, {r.logged:,} are in the record and {lost:,} are known "
            f"to be missing: {passed - r.logged - lost:+,}"
        )
    if r.seen is not None and r.seen != r.logged + (r.not_written or 0):
        yield (
            f"the recorder saw {r.seen:,} frames, its files hold {r.logged:,} and {r.not_written or 0:,} "
            f"were not written: {r.seen - r.logged - (r.not_written or 0):+,}"
        )
    if r.failure:
        yield f"the recorder failed: {r.failure}"
