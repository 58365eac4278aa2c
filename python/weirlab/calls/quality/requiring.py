"""How streams were heard, as the cases that requirements are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final

from weirlab.jobs.requiring import HEARD, MEDIAN_MOS, each, median
from weirlab.requirements import (
    GAP,
    JITTER,
    LOSS,
    MOS,
    Demand,
    DemandJudgement,
    judge,
)

if TYPE_CHECKING:
    from weirlab.calls.quality.study import QualityOutcome


CAPTURE: Final = (*HEARD, LOSS, JITTER)


def of_capture(demands: Sequence[Demand], outcome: QualityOutcome) -> tuple[DemandJudgement, ...]:
    """Judge every demand by every stream."""
    measured = outcome.table.streams
    heard = {
        LOSS: outcome.loss_ratio,
        JITTER: measured.jitter_ns,
        GAP: measured.longest_gap_ns,
    }
    streams = [f"stream {stream.number}" for stream in outcome.streams]
    voice = [stream.is_voice for stream in outcome.streams]
    unknown = "the capture does not show it; name unknown codecs with --codec"
    return tuple(
        judge(
            demand,
            [median(outcome.mos[voice], "streams")]
            if demand.quantity == MEDIAN_MOS
            else each(outcome.mos[voice], [*compress(streams, voice)], unknown)
            if demand.quantity == MOS
            else each(heard[demand.quantity], streams, unknown),
        )
        for demand in demands
    )
