"""What can be done with Weir, independent of who asks for it.

Each job puts lab, measure, store, model and report together, tells a
:class:`~weirlab.jobs.progress.Progress` how far it is and returns an outcome with a
``document()`` in plain values. Nothing here prints.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from weirlab.jobs.calibrations import CalibrationOutcome, calibrate
    from weirlab.jobs.call_sheets import CallSheet, calls_sheet
    from weirlab.jobs.calls import CallsOutcome, CaptureOutcome, make_calls, write_calls
    from weirlab.jobs.capacity import CapacityOutcome
    from weirlab.jobs.comparing import ComparisonOutcome, compare_runs
    from weirlab.jobs.failover import FailoverOutcome
    from weirlab.jobs.inventory import RunOutcome, show
    from weirlab.jobs.modelling import (
        DevicesOutcome,
        FitOutcome,
        PredictionOutcome,
        fit,
        fit_devices,
        predict,
    )
    from weirlab.jobs.monitor import MonitorOutcome
    from weirlab.jobs.planning import PlanOutcome, PlanRequest, plan
    from weirlab.jobs.profiles import ProfileOutcome, profile, resume_profile
    from weirlab.jobs.progress import Interrupted, Progress, Quiet
    from weirlab.jobs.quality import QualityOutcome, capture_quality
    from weirlab.jobs.reports import ReportOutcome, report
    from weirlab.jobs.scenarios import ScenarioOutcome, resume_scenario, run_scenario
    from weirlab.jobs.searches import Rfc2544Outcome, SearchOutcome, rfc2544, search
    from weirlab.jobs.transients import OverTimeOutcome, TransientsOutcome, compare_steps, predict_steps
    from weirlab.jobs.trials import TrialOutcome, trial
    from weirlab.jobs.verification import VerificationOutcome, verify
    from weirlab.jobs.voice_page import quality_page

__all__ = [
    "CalibrationOutcome",
    "CallSheet",
    "CallsOutcome",
    "CapacityOutcome",
    "CaptureOutcome",
    "ComparisonOutcome",
    "DevicesOutcome",
    "FailoverOutcome",
    "FitOutcome",
    "Interrupted",
    "MonitorOutcome",
    "OverTimeOutcome",
    "PlanOutcome",
    "PlanRequest",
    "PredictionOutcome",
    "ProfileOutcome",
    "Progress",
    "QualityOutcome",
    "Quiet",
    "ReportOutcome",
    "Rfc2544Outcome",
    "RunOutcome",
    "ScenarioOutcome",
    "SearchOutcome",
    "TransientsOutcome",
    "TrialOutcome",
    "VerificationOutcome",
    "calibrate",
    "calls_sheet",
    "capture_quality",
    "compare_runs",
    "compare_steps",
    "fit",
    "fit_devices",
    "make_calls",
    "plan",
    "predict",
    "predict_steps",
    "profile",
    "quality_page",
    "report",
    "resume_profile",
    "resume_scenario",
    "rfc2544",
    "run_scenario",
    "search",
    "show",
    "trial",
    "verify",
    "write_calls",
]

_HOMES: Final = {
    "calibrations": ("CalibrationOutcome", "calibrate"),
    "call_sheets": ("CallSheet", "calls_sheet"),
    "calls": ("CallsOutcome", "CaptureOutcome", "make_calls", "write_calls"),
    "capacity": ("CapacityOutcome",),
    "comparing": ("ComparisonOutcome", "compare_runs"),
    "failover": ("FailoverOutcome",),
    "inventory": ("RunOutcome", "show"),
    "modelling": ("DevicesOutcome", "FitOutcome", "PredictionOutcome", "fit", "fit_devices", "predict"),
    "monitor": ("MonitorOutcome",),
    "planning": ("PlanOutcome", "PlanRequest", "plan"),
    "profiles": ("ProfileOutcome", "profile", "resume_profile"),
    "progress": ("Interrupted", "Progress", "Quiet"),
    "quality": ("QualityOutcome", "capture_quality"),
    "reports": ("ReportOutcome", "report"),
    "scenarios": ("ScenarioOutcome", "resume_scenario", "run_scenario"),
    "searches": ("Rfc2544Outcome", "SearchOutcome", "rfc2544", "search"),
    "transients": ("OverTimeOutcome", "TransientsOutcome", "compare_steps", "predict_steps"),
    "trials": ("TrialOutcome", "trial"),
    "verification": ("VerificationOutcome", "verify"),
    "voice_page": ("quality_page",),
}


def __getattr__(name: str) -> Any:
    """Import a job when it is first asked for: a trial needs neither models nor charts."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
