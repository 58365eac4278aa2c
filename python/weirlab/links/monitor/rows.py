"""Trials as rows (table ``monitor`` of a run): where frames went, and whether all are accounted for. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from weirlab.links.monitor.plan import MonitorPlan, Stages
from weirlab.records import TrialRecord

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


TRIALS: Final = "monitor"

nan: Final = math.nan

_COUNTED: Final = (
    "sent", "not_entered", "entered", "forwarded", "not_forwarded", "received", "copied", "not_copied", "cut",
    "mirrored", "not_mirrored",
)  # fmt: skip
"""Columns that are counters of the stages."""


@dataclass(frozen=True)
class MonitorRow:
    """One attempt at a trial. Counts are frames; None where a method has no such stage."""

    trial_id: str
    """Unique; the attempt in `trials`."""
    index: int
    """Number of the trial in its run, from 0."""
    attempt: int
    """Number of the attempt at this trial, from 1."""
    part: str
    """``validation``, ``copy``, ``whole`` (copies whole at any price), ``stall`` or ``search``."""
    method: str
    """How it was recorded: `tap-ring`, `tap-mirror`, `tcpdump-bridge`, ...; or what was there without."""
    payload_bytes: int
    """Bytes of payload in a UDP packet."""
    frame_bytes: int
    """Frame size without FCS."""
    load: str
    """As in the scenario; ``max`` is as fast as possible."""
    run: int
    """Repetition, from 1."""
    valid: bool
    """Whether the attempt counts."""
    invalid: str
    """Reasons; empty for a valid one."""
    balance: str
    """Sums over the stages that do not close; empty if all counters agree."""
    duration_s: float
    """Recorded time."""
    offered_pps: float
    """Nominal load; null for as fast as possible."""
    achieved_pps: float
    """Load that departed."""
    sent: int
    """Frames that departed, by the sender's count."""
    not_entered: int
    """Frames that the bridge's interface refused, as the ring in front of it was full."""
    entered: int
    """Frames that came into the bridge."""
    forwarded: int
    """Frames that left the bridge towards the receiver."""
    not_forwarded: int
    """Frames that came in and were not forwarded."""
    received: int
    """Frames at the far end."""
    lost_before: int
    """Frames lost for want of room at the bridge's interface."""
    lost_bridge: int
    """Frames lost in the bridge."""
    lost_behind: int
    """Frames lost behind the bridge: a remainder, as nobody counts there."""
    forwarded_pps: float
    """Frames that reached the far end, over the duration."""
    link_loss_ratio: float
    """Share of the frames sent that the receiver did not get."""
    copied: int | None = None
    """Frames copied into the tap's ring."""
    not_copied: int | None = None
    """Frames that found no room in the tap's ring."""
    cut: int | None = None
    """Frames whose copy was cut to its first bytes for the sake of the link."""
    mirrored: int | None = None
    """Copies that the tap sent to the logger."""
    not_mirrored: int | None = None
    """Copies that found no room in the mirror's ring or on its interface."""
    recorder_seen: int | None = None
    """Frames that came to the recorder."""
    recorder_lost: int | None = None
    """Frames that never came to the recorder, as it was told."""
    not_written: int | None = None
    """Frames that came to the recorder and were not written."""
    logged: int | None = None
    """Frames in the record's files; null where nobody records."""
    lost_ring: int = 0
    """Frames missing in the record for want of room in the tap's ring."""
    lost_mirror: int = 0
    """Frames missing in the record that the mirror did not send."""
    lost_socket: int = 0
    """Frames missing in the record that were lost between kernel and recorder."""
    lost_disk: int = 0
    """Frames missing in the record that were not written."""
    logged_loss_ratio: float = nan
    """Share of the frames sent that are not in the record: the published loss, without its sign."""
    record_loss_ratio: float = nan
    """Share of the frames that came by the monitor and are not in the record."""
    gaps: str = "[]"
    """Where the record says that frames are missing, as JSON."""
    stalled_from_ns: int | None = None
    """When the recorder was stopped, since 1970; null where it was not."""
    stalled_to_ns: int | None = None
    """When it went on, since 1970."""
    lost_logger: int = 0
    """Frames lost between mirror and logger: a remainder, as nobody counts there."""

    @property
    def lossless(self) -> bool:
        """Every frame arrived, and every frame is in the record."""
        return self.received == self.sent and self.logged in (None, self.sent)

    @property
    def remainder(self) -> int:
        """Frames that are missing where nobody counts."""
        return sum(getattr(self, f"lost_{place}") for place in REMAINDERS)

    def gap_list(self) -> list[dict[str, Any]]:
        """``gaps`` as a list."""
        found: list[dict[str, Any]] = json.loads(self.gaps)
        return found


def row_of(
    planned: MonitorPlan, record: TrialRecord, stages: Stages, stalled_ns: tuple[int, int] | None
) -> MonitorRow:
    """What the table ``monitor`` has of one attempt."""
    lost, seconds = losses(stages), record.result.record_s
    recorded = stages.recorded
    known: dict[str, Any] = {}
    if recorded is not None:
        passed = stages.received if stages.at_receiver else stages.entered
        known = {
            "recorder_seen": recorded.seen,
            "recorder_lost": recorded.lost,
            "not_written": recorded.not_written,
            "logged": recorded.logged,
            "lost_ring": lost.ring,
            "lost_mirror": lost.mirror,
            "lost_logger": lost.logger,
            "lost_socket": lost.socket,
            "lost_disk": lost.disk,
            "logged_loss_ratio": _ratio(stages.sent - recorded.logged, stages.sent),
            "record_loss_ratio": _ratio(passed - recorded.logged, passed),
            "gaps": json.dumps([asdict(gap) for gap in recorded.gaps]),
        }
    if stalled_ns is not None:
        known |= {"stalled_from_ns": stalled_ns[0], "stalled_to_ns": stalled_ns[1]}
    return MonitorRow(
        trial_id=record.trial_id,
        index=record.index,
        attempt=record.attempt,
        part=planned.part,
        method=planned.method,
        payload_bytes=planned.payload_bytes,
        frame_bytes=planned.frame_bytes,
        load=planned.load,
        run=planned.run,
        valid=record.valid,
        invalid="; ".join(record.invalid),
        balance="; ".join(imbalance(stages)),
        duration_s=seconds,
        offered_pps=record.offered_pps if math.isfinite(record.offered_pps) else nan,
        achieved_pps=record.result.achieved_pps,
        lost_before=lost.before,
        lost_bridge=lost.bridge,
        lost_behind=lost.behind,
        forwarded_pps=stages.received / seconds,
        link_loss_ratio=_ratio(stages.sent - stages.received, stages.sent),
        **{name: getattr(stages, name) for name in _COUNTED},
        **known,
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else nan
