"""Frame loss rate over the offered load (RFC 2544 section 26.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.errors import InputError
from weirlab.measure.search.throughput import SearchShape, Setting, whole
from weirlab.measure.search.trials import SearchTrialRunner

LABEL: Final = "loss"
COARSEST_STEP: Final = 0.1
"""The RFC allows finer steps, not coarser ones."""
QUIET_TRIALS: Final = 2
"""The test ends when so many trials in a row lost nothing."""


@dataclass(frozen=True)
class LossPoint:
    """One trial."""

    share: float
    """Offered load as a share of the maximum."""
    offered_pps: float
    sent: int
    received: int

    @property
    def loss_ratio(self) -> float:
        """``(sent - received) / sent``, the RFC's frame loss rate as a ratio."""
        return max(self.sent - self.received, 0) / self.sent

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "loss_ratio": self.loss_ratio}


@dataclass(frozen=True)
class LossCurve:
    """Frame loss at falling loads."""

    setting: Setting
    max_load_pps: float
    """100 %: the highest rate of these frames that could be offered."""
    points: tuple[LossPoint, ...]

    def to_json(self) -> dict[str, Any]:
        return {**self.setting.to_json(), "max_load_pps": self.max_load_pps, "points": self.points}


def steps(step: float) -> int:
    """Number of loads from 100 % down; raises ``InputError`` for a step that the RFC does not allow."""
    if not 0 < step <= COARSEST_STEP:
        raise InputError(
            f"steps of {step:.3g} of the maximum load: RFC 2544 asks for steps of 10 % or finer, e.g. 5 %"
        )
    return int(1 / step + 1e-9)


def loss_curve(
    trials: SearchTrialRunner,
    setting: Setting,
    shape: SearchShape,
    max_load_pps: float,
    *,
    step: float = COARSEST_STEP,
    trial_s: float = 0.2,
) -> LossCurve:
    """Offer 100 %, then ``step`` less each time, until two successive trials lose nothing.

    Raises ``FailedTrial`` when a trial stays invalid.
    """
    points: list[LossPoint] = []
    quiet = 0
    for i in range(steps(step)):
        share = round(1 - i * step, 9)
        record = trials.run(shape.spec(setting, whole(share * max_load_pps), trial_s, LABEL))
        result = record.result
        points.append(LossPoint(share, record.offered_pps, result.sent, result.received))
        quiet = quiet + 1 if result.lost <= 0 else 0
        if quiet == QUIET_TRIALS:
            break
    return LossCurve(setting, max_load_pps, tuple(points))
