"""The trials of a profile: the loads of its grid, and what is measured besides the grid."""

from __future__ import annotations

from weirlab.measure.plan.grid import NO_EXTRAS, Extras
from weirlab.measure.plan.loads import SENDER_RESERVE, load_or_max

__all__ = ["NO_EXTRAS", "SENDER_RESERVE", "Extras", "load_or_max"]
