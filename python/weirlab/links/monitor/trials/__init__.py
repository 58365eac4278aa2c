"""What a monitor records of a link, and what it costs the link.

``plan`` says which trials, ``accounting`` finds where frames were lost and whether the sums close,
``campaign`` carries trials out one after the other and ``rows`` keeps them, ``search`` finds the
greatest rate without loss, ``compare`` takes medians and ``sentences`` says what they mean.
"""

from weirlab.links.monitor.trials.accounting import imbalance, losses
from weirlab.links.monitor.trials.campaign import MonitorTrialRunner, OpenLab, measure
from weirlab.links.monitor.trials.compare import Cost, MonitorGroup, StallEffect, compare, costs, stalls
from weirlab.links.monitor.trials.plan import (
    CUT_BYTES,
    MonitorPlan,
    MonitorTrialShape,
    estimate_s,
    frame_bytes,
    plan,
)
from weirlab.links.monitor.trials.rows import TRIALS, MonitorRow
from weirlab.links.monitor.trials.search import MonitorGoal, MonitorLimit, search
from weirlab.links.monitor.trials.sentences import conclusions

__all__ = [
    "CUT_BYTES", "TRIALS", "Cost", "MonitorGoal", "MonitorGroup", "MonitorLimit", "MonitorPlan",
    "MonitorRow", "MonitorTrialRunner", "MonitorTrialShape", "OpenLab", "StallEffect",
    "compare", "conclusions", "costs", "estimate_s", "frame_bytes", "imbalance", "losses", "measure",
    "plan", "search", "stalls",
]  # fmt: skip
