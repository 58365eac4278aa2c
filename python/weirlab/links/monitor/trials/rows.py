"""Trials as rows: the table ``monitor`` of a run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from weirlab.links.monitor.bed.base import Stages
from weirlab.links.monitor.trials.accounting import REMAINDERS, imbalance, losses
from weirlab.links.monitor.trials.plan import MonitorPlan
from weirlab.records import TrialRecord

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
