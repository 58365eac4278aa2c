"""How many calls a device carries.

``setting`` says what a trial with so many calls is, ``boxes`` compares what was sent and received
with what the device's interfaces counted, ``rows`` has the columns that each trial leaves in the
tables ``capacity`` and ``inside``, ``keeper`` puts them there. ``losses`` tells lost packets by what the
host did when they departed. ``search`` looks for the
most calls that still do, ``sweep`` tries numbers of calls one by one, and ``limits`` reads off where the
device begins to drop.
"""

from weirlab.calls.capacity.trials.keeper import CallRecorder
from weirlab.calls.capacity.trials.limits import DropThreshold, dropping
from weirlab.calls.capacity.trials.losses import CallLoss, losses
from weirlab.calls.capacity.trials.rows import CAPACITY, INSIDE
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal, Search, search_calls
from weirlab.calls.capacity.trials.setting import CallTraffic
from weirlab.calls.capacity.trials.sweep import SWEEP, CallSweep, around, sweep

__all__ = [
    "CAPACITY",
    "INSIDE",
    "SWEEP",
    "CallCapacity",
    "CallGoal",
    "CallLoss",
    "CallRecorder",
    "CallSweep",
    "CallTraffic",
    "DropThreshold",
    "Search",
    "around",
    "dropping",
    "losses",
    "search_calls",
    "sweep",
]
