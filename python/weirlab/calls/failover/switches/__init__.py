"""What happens to ongoing calls when the active firewall of a redundant pair goes down.

``plan`` says which switches, ``load`` finds what the pair carries, ``campaign`` carries out one
switch after the other (``event`` lets it happen, ``switch`` takes the numbers from its packets,
``validity`` judges it, ``rows`` keeps it), ``compare`` draws the conclusions.
"""

from weirlab.calls.failover.switches.campaign import SwitchConditions, measure
from weirlab.calls.failover.switches.compare import SwitchGroup, compare, conclusions
from weirlab.calls.failover.switches.load import CallDemand, CommonLoad, find_load
from weirlab.calls.failover.switches.pair import KINDS, Kind, OpenPair, PairLab, PairSpec
from weirlab.calls.failover.switches.plan import FailoverPlan, estimate_s, plan
from weirlab.calls.failover.switches.rows import CALLS, SERIES, SWITCHES, SwitchRow
from weirlab.calls.failover.switches.timing import Timing
from weirlab.calls.failover.switches.validity import SwitchLimits

__all__ = [
    "CALLS",
    "KINDS",
    "SERIES",
    "SWITCHES",
    "CallDemand",
    "CommonLoad",
    "FailoverPlan",
    "Kind",
    "OpenPair",
    "PairLab",
    "PairSpec",
    "SwitchConditions",
    "SwitchGroup",
    "SwitchLimits",
    "SwitchRow",
    "Timing",
    "compare",
    "conclusions",
    "estimate_s",
    "find_load",
    "measure",
    "plan",
]
