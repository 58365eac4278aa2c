"""Where a number goes: prefixes, trees, names and the ways of a call."""

from __future__ import annotations

from weirlab.numbering.routing.network import PlanNetwork
from weirlab.numbering.routing.wording import CallRoute, RouteStep

__all__ = ["CallRoute", "PlanNetwork", "RouteStep"]
