"""The findings of a scenario with a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from weirlab.base.errors import WeirError
from weirlab.base.quantities import rules
from weirlab.devices.prediction import verification
from weirlab.devices.prediction.modelling import FitOutcome
from weirlab.devices.prediction.verification import VerificationOutcome
from weirlab.jobs.calibrations import CalibrationOutcome
from weirlab.jobs.profiles import ProfileOutcome
from weirlab.measure.thresholds import delays, thresholds, usable
from weirlab.measure.verdict import MachineVerdict
from weirlab.store import Run
from weirlab.studies.contract import Measure


def measures(run: Run) -> list[Measure]:
    """The threshold of each number of rules and frame size, and the median of the p99 delays below it."""
    profiled = usable(run.trials().filter(pl.col("valid") & (pl.col("role") == "profile")))
    found = [
        Measure(f"threshold, {_setting(row)}", row["threshold_pps"], "pps", "more")
        for row in thresholds(profiled).iter_rows(named=True)
    ]
    return found + [
        Measure(f"p99 delay below the threshold, {_setting(row)}", row["delay_p99_ns"], "ns", "less")
        for row in delays(profiled).iter_rows(named=True)
        if row["delay_p99_ns"] is not None
    ]


def _setting(row: Mapping[str, Any]) -> str:
    size = row["sizes_text"]
    frames = f"{size} B" if size.isdigit() else size
    return ", ".join((rules(row["position"]), frames, *(["stateful"] if row["stateful"] else [])))


@dataclass(frozen=True)
class ProfileFindings:
    """All findings of a scenario with a profile; None for what it did not request."""

    calibration: CalibrationOutcome | None
    profile: ProfileOutcome
    fit: FitOutcome
    verification: VerificationOutcome | None = None

    @property
    def verdict(self) -> MachineVerdict | None:
        """The verdict on the machine, by all trials; None for a simulated device."""
        return self.profile.verdict if self.verification is None else self.verification.verdict

    def verified(self) -> ProfileFindings:
        """These findings with the models scored on the held-out trials."""
        return replace(self, verification=verification.score(self.profile.run, self.fit.models))

    def problem(self, run: Run) -> WeirError | None:
        """The error to report if the machine was not usable, or the models could not be judged."""
        return self.profile.problem() or (self.verification.problem() if self.verification else None)

    def document(self) -> dict[str, Any]:
        """For ``--json``, one entry per part."""
        parts = {
            "calibration": self.calibration,
            "profile": self.profile,
            "fit": self.fit,
            "verification": self.verification,
        }
        documents = {name: None if part is None else part.document() for name, part in parts.items()}
        return {"kind": "scenario", **documents}
