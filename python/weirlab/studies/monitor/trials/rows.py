"""Trials as rows: the table ``monitor`` of a run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from weirlab.records import TrialRecord
from weirlab.studies.monitor.bed import Stages
from weirlab.studies.monitor.trials.accounting import REMAINDERS, imbalance, losses
from weirlab.studies.monitor.trials.plan import Planned

TRIALS: Final = "monitor"

nan: Final = math.nan


@dataclass(frozen=True)
class MonitorRow:
    """One attempt at a trial. Counts are frames; None where a method has no such stage."""

    trial_id: str
    index: int
    attempt: int
    part: str
    """``validation``, ``copy``, ``whole`` (copies whole at any price), ``stall`` or ``search``."""
    method: str
    payload_bytes: int
    frame_bytes: int
    """Without FCS."""
    load: str
    """As in the scenario; ``max`` is as fast as possible."""
    run: int
    valid: bool
    invalid: str
    """Reasons; empty for a valid one."""
    balance: str
    """Sums over the stages that do not close; empty if all counters agree."""
    duration_s: float
    offered_pps: float
    """NaN for as fast as possible."""
    achieved_pps: float
    sent: int
    not_entered: int
    entered: int
    forwarded: int
    not_forwarded: int
    received: int
    lost_before: int
    lost_bridge: int
    lost_behind: int
    """A remainder: nobody counts there."""
    forwarded_pps: float
    """Frames that reached the far end, over the duration."""
    link_loss_ratio: float
    """Share of the frames sent that the receiver did not get."""
    copied: int | None = None
    not_copied: int | None = None
    cut: int | None = None
    """Frames whose copy was cut to its first bytes for the sake of the link."""
    mirrored: int | None = None
    not_mirrored: int | None = None
    recorder_seen: int | None = None
    recorder_lost: int | None = None
    not_written: int | None = None
    logged: int | None = None
    """Frames in the record's files; None where nobody records."""
    lost_ring: int = 0
    lost_mirror: int = 0
    lost_socket: int = 0
    lost_disk: int = 0
    logged_loss_ratio: float = nan
    """Share of the frames sent that are not in the record: the published loss, without its sign."""
    record_loss_ratio: float = nan
    """Share of the frames that came by the monitor and are not in the record."""
    gaps: str = "[]"
    """Where the record says that frames are missing, as JSON."""
    stalled_from_ns: int | None = None
    stalled_to_ns: int | None = None
    """When the recorder stood still, ns since 1970."""
    lost_logger: int = 0
    """Between mirror and logger: a remainder, as nobody counts there."""

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
    planned: Planned, record: TrialRecord, stages: Stages, stalled_ns: tuple[int, int] | None
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
        sent=stages.sent,
        not_entered=stages.not_entered,
        entered=stages.entered,
        forwarded=stages.forwarded,
        not_forwarded=stages.not_forwarded,
        received=stages.received,
        lost_before=lost.before,
        lost_bridge=lost.bridge,
        lost_behind=lost.behind,
        forwarded_pps=stages.received / seconds,
        link_loss_ratio=_ratio(stages.sent - stages.received, stages.sent),
        copied=stages.copied,
        not_copied=stages.not_copied,
        cut=stages.cut,
        mirrored=stages.mirrored,
        not_mirrored=stages.not_mirrored,
        **known,
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else nan
