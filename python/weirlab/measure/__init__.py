"""From a test bed to records: trials, profiles, verification, calibration.

``trial`` makes one trial and ``validity`` judges it; ``profile``, ``verify`` and
``calibrate`` plan many, which ``sequence`` carries out and keeps.
"""

from weirlab.measure.progress import OnProgress, Progress
from weirlab.measure.sequence import Outcome
from weirlab.measure.terms import Terms
from weirlab.measure.trial import Entry, FailedTrial, Hooks, run_trial
from weirlab.measure.validity import Limits, judge

__all__ = [
    "Entry",
    "FailedTrial",
    "Hooks",
    "Limits",
    "OnProgress",
    "Outcome",
    "Progress",
    "Terms",
    "judge",
    "run_trial",
]
