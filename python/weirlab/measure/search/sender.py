"""Whether the sender, and not the device, is at its limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weirlab.measure.validity import ValidityLimits
from weirlab.records import TrialRecord

SENDER_SPREAD: Final = 0.05
"""Attempts at a load beyond the sender's reach achieve the same within this share."""


def senders_limit(records: Sequence[TrialRecord], limits: ValidityLimits) -> bool:
    """Whether the load itself was too high for the sender in all of these attempts.

    It then sends at about the same rate each time. The rate of a sender that the host keeps
    from running varies, and says nothing about the load.
    """
    if not all(_fell_short(record, limits) for record in records):
        return False
    achieved = [record.result.achieved_pps for record in records]
    return min(achieved) >= (1 - SENDER_SPREAD) * max(achieved) > 0


def _fell_short(record: TrialRecord, limits: ValidityLimits) -> bool:
    if not math.isfinite(record.offered_pps):
        return False
    asked = record.offered_pps * record.result.record_s
    return unsent(record) > limits.pacing_ratio * asked


def unsent(record: TrialRecord) -> int:
    """Frames by which the sender is behind: not sent, or sent late at the end."""
    result = record.result
    asked = record.offered_pps * result.record_s
    return max(0, round(asked - result.sent), round(record.offered_pps * result.slipped_ns / 1e9))
