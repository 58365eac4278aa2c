"""Finds mistakes in a plan before anything runs, each with its place, a reason and a proposal.

A check is a function from a network to findings, listed in :data:`CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from weirlab.numbering.checking import callers, carriers, engines, entries, hosts, numbering, routes
from weirlab.numbering.checking.findings import PlanFinding, Severity, limited
from weirlab.numbering.routing import PlanNetwork

__all__ = ["CHECKS", "PlanFinding", "Severity", "check"]

CHECKS: Final[tuple[Callable[[PlanNetwork], Iterator[PlanFinding]], ...]] = (
    numbering.too_long, numbering.lengths, numbering.owners, numbering.foreign_entries, numbering.unowned,
    numbering.validity, routes.duplicates, routes.shadowed, routes.redundant, routes.trees_never_asked,
    routes.misplaced, routes.past_gatekeepers, entries.duplicates, entries.outside_zone,
    entries.hidden_by_routes, entries.holes, entries.expressions, entries.order, engines.addresses,
    engines.hand_over, engines.homes, engines.registrations, engines.rewrites,
    engines.records, engines.trees, engines.changes, engines.codecs, engines.call_agents,
    callers.short_numbers, callers.own_numbers, callers.past_bars, callers.forwarding, carriers.relays,
    carriers.own_ranges,
    hosts.zones, hosts.name_servers, hosts.service_points, hosts.uris, hosts.engine_names,
    routes.ways, routes.tests,
)  # fmt: skip


def check(network: PlanNetwork) -> list[PlanFinding]:
    """All findings in the order of their places, with a limited number of each kind."""
    found = [finding for each in CHECKS for finding in each(network)]
    return sorted(limited(found), key=PlanFinding.key)
