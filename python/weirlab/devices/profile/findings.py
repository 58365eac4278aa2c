"""The findings of a scenario with a profile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weirlab.base.errors import WeirError
from weirlab.devices.prediction import verification
from weirlab.devices.prediction.modelling import FitOutcome
from weirlab.devices.prediction.verification import VerificationOutcome
from weirlab.jobs.calibrations import CalibrationOutcome
from weirlab.jobs.profiles import ProfileOutcome
from weirlab.measure.verdict import MachineVerdict
from weirlab.store import Run


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
