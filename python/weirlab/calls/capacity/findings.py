"""What a run about capacity finds, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weirlab.base.documents import document_of
from weirlab.base.errors import TrialError
from weirlab.calls.capacity.prediction import CapacityPrediction
from weirlab.calls.capacity.trials.losses import CallLoss, DropThreshold
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal
from weirlab.jobs.calibrations import CalibrationOutcome
from weirlab.store import Run


@dataclass(frozen=True)
class CounterAgreement:
    """In how many valid trials the device's own counters could be compared with Weir's, and agreed."""

    compared: int = 0
    agreed: int = 0


@dataclass(frozen=True)
class CapacityConclusions:
    """How many calls are carried, by sweep, search and model; each empty if not requested."""

    sweep: tuple[DropThreshold, ...] = ()
    """Where the sweep showed loss, per position."""
    search: tuple[CallCapacity, ...] = ()
    """What the search found, per position and goal."""
    model: str = ""
    """Where the model came from."""
    predicted: tuple[CapacityPrediction, ...] = ()
    """What the model says, per position and goal."""
    counters: CounterAgreement = CounterAgreement()
    losses: tuple[CallLoss, ...] = ()
    """Packets sent and lost per position and number of calls, and how many while the host disturbed."""

    def measured(self, position: int, goal: CallGoal) -> int | None:
        """Most calls at ``position``, by the search or else (without loss) by the sweep.

        None if it is unknown or only a lower bound.
        """
        for found in self.search:
            if (found.position, found.goal) == (position, goal):
                return None if found.at_least else found.calls
        swept = [one.carried for one in self.sweep if one.position == position and goal.mos is None]
        return swept[0] if swept else None

    @property
    def first_losses(self) -> tuple[CallLoss, ...]:
        """The losses that bound "without loss": at the fewest calls that were too many, per position."""
        bounds = {(one.position, one.too_many) for one in self.search if one.goal.mos is None}
        bounds |= {
            (one.position, one.dropped)
            for one in self.sweep
            if one.position not in {position for position, calls in bounds if calls}
        }
        return tuple(one for one in self.losses if (one.position, one.calls) in bounds and one.lost)

    def to_json(self) -> dict[str, Any]:
        return document_of(self) | {
            "predicted": [
                {**vars(one), "ratio_to_measured": one.ratio(self.measured(one.position, one.goal))}
                for one in self.predicted
            ]
        }


@dataclass(frozen=True)
class CapacityFindings:
    """What a run about capacity found."""

    calibration: CalibrationOutcome | None
    results: CapacityConclusions

    def document(self) -> dict[str, Any]:
        calibration = None if self.calibration is None else self.calibration.document()
        return {"calibration": calibration, **self.results.to_json()}

    def problem(self, run: Run) -> TrialError | None:
        """The error to report if the host spoiled a search."""
        told = [
            f"{one.goal.name} at position {one.position}: {one.problem}"
            for one in self.results.search
            if one.problem
        ]
        if not told:
            return None
        return TrialError(f"not everything was found: {'; '.join(told)} (run {run.run_id})")
