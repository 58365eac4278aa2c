"""Where a number goes: prefixes, trees, names and the ways of a call."""

from __future__ import annotations

from weirlab.numbering.routing.network import Network
from weirlab.numbering.routing.way import End, Step, Way

__all__ = ["End", "Network", "Step", "Way"]
