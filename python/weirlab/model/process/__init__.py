"""A fitted device as a process of packets: what simulations and emulated links run.

``docs/model-format.md`` is the specification; ``ReferenceDevice`` follows it line by line, and the C++ core
of the modules for simulators and the engine are compared with it.
"""

from weirlab.model.process.device import Fate, Passage, ReferenceDevice
from weirlab.model.process.grid import BehaviourGrid
from weirlab.model.process.steady import LEVELS, SteadyStates

__all__ = ["LEVELS", "BehaviourGrid", "Fate", "Passage", "ReferenceDevice", "SteadyStates"]
