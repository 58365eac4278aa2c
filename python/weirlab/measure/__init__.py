"""From a test bed to records: trials, profiles, verification, calibration.

``trial`` makes one trial and ``validity`` judges it; ``profile``, ``verify`` and
``calibrate`` plan many, which ``sequence`` carries out and keeps.
"""

from weirlab.measure.progress import OnProgress, TrialProgress
from weirlab.measure.sequence import SequenceOutcome
from weirlab.measure.terms import TrialTerms
from weirlab.measure.trial import FailedTrial, Hooks, TrialEntry, run_trial
from weirlab.measure.validity import ValidityLimits, judge

__all__ = [
    "FailedTrial", "Hooks", "OnProgress", "SequenceOutcome", "TrialEntry", "TrialProgress", "TrialTerms",
    "ValidityLimits", "judge", "run_trial",
]  # fmt: skip
