"""From a test bed to records: trials, profiles, verification, calibration.

``trial`` does one trial and ``validity`` judges it; ``profile``, ``verify`` and
``calibrate`` plan many, which ``sequence`` carries out and keeps.
"""

from weirlab.measure.progress import OnProgress, Progress
from weirlab.measure.sequence import Outcome
from weirlab.measure.trial import FailedTrial, run_trial
from weirlab.measure.validity import Limits, judge

__all__ = ["FailedTrial", "Limits", "OnProgress", "Outcome", "Progress", "judge", "run_trial"]
