"""What a monitor records of a link, and what it costs the link.

``plan`` says which trials, ``accounting`` finds where frames were lost and whether the sums close,
``campaign`` carries trials out one after the other and ``rows`` keeps them, ``search`` finds the
greatest rate without loss, ``compare`` takes medians and ``sentences`` says what they mean.
"""

from weirlab.links.monitor.trials.accounting import REMAINDERS, Losses, imbalance, losses
from weirlab.links.monitor.trials.campaign import (
    Carrier,
    MonitorLab,
    MonitorResults,
    OpenLab,
    Tables,
    measure,
)
from weirlab.links.monitor.trials.compare import Cost, Group, StallEffect, compare, costs, stalls
from weirlab.links.monitor.trials.plan import CUT_BYTES, Planned, Shape, estimate_s, frame_bytes, plan
from weirlab.links.monitor.trials.rows import TRIALS, MonitorRow
from weirlab.links.monitor.trials.search import Found, Goal, search
from weirlab.links.monitor.trials.sentences import conclusions

__all__ = [
    "CUT_BYTES",
    "REMAINDERS",
    "TRIALS",
    "Carrier",
    "Cost",
    "Found",
    "Goal",
    "Group",
    "Losses",
    "MonitorLab",
    "MonitorResults",
    "MonitorRow",
    "OpenLab",
    "Planned",
    "Shape",
    "StallEffect",
    "Tables",
    "compare",
    "conclusions",
    "costs",
    "estimate_s",
    "frame_bytes",
    "imbalance",
    "losses",
    "measure",
    "plan",
    "search",
    "stalls",
]
