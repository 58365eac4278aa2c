"""From a test bed to records: trials, profiles, verification, calibration.

``trial`` makes one trial and ``validity`` judges it; ``profile``, ``verify`` and
``calibrate`` plan many, which ``sequence`` carries out and keeps.
"""

from weirlab.measure.progress import OnProgress, TrialProgress
from weirlab.measure.sequence import SequenceOutcome
from weirlab.measure.trial import Hooks, TrialEntry, run_trial

__all__ = ["Hooks", "OnProgress", "SequenceOutcome", "TrialEntry", "TrialProgress", "run_trial"]
