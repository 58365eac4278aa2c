"""Searching the loads that a device carries (RFC 9971, MLRsearch).

``goal`` says what is searched for and what was found, ``mlr`` is the search itself (the only
module that uses the package MLRsearch), ``trials`` carries out and keeps trials whose
number is not known beforehand, ``throughput`` searches one setting of a device.
"""

from weirlab.measure.search.goal import NDR, PDR, GoalResult, SearchGoal
from weirlab.measure.search.throughput import (
    Point,
    SearchShape,
    Setting,
    expected_s,
    search_setting,
    sender_pps,
)
from weirlab.measure.search.trials import SearchTrialRunner

__all__ = [
    "NDR", "PDR", "GoalResult", "Point", "SearchGoal", "SearchShape", "SearchTrialRunner", "Setting",
    "expected_s", "search_setting", "sender_pps",
]  # fmt: skip
