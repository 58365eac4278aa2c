"""What happens to ongoing calls when the active firewall of a redundant pair goes down.

``plan`` says which switches, ``load`` finds what the pair carries, ``campaign`` carries out one
switch after the other (``event`` lets it happen, ``switch`` takes the numbers from its packets,
``validity`` judges it, ``rows`` keeps it), ``compare`` draws the conclusions.
"""

from weirlab.measure.failover.campaign import Campaign, Conditions, measure
from weirlab.measure.failover.compare import Group, compare, conclusions
from weirlab.measure.failover.load import Load, find_load
from weirlab.measure.failover.pair import KINDS, Kind, OpenPair, Pair, PairLab
from weirlab.measure.failover.plan import Planned, estimate_s, plan
from weirlab.measure.failover.rows import CALLS, SERIES, SWITCHES, SwitchRow, rows_of
from weirlab.measure.failover.timing import Timing
from weirlab.measure.failover.validity import SwitchLimits

__all__ = [
    "CALLS",
    "KINDS",
    "SERIES",
    "SWITCHES",
    "Campaign",
    "Conditions",
    "Group",
    "Kind",
    "Load",
    "OpenPair",
    "Pair",
    "PairLab",
    "Planned",
    "SwitchLimits",
    "SwitchRow",
    "Timing",
    "compare",
    "conclusions",
    "estimate_s",
    "find_load",
    "measure",
    "plan",
    "rows_of",
]
