"""What several configurations have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weirlab.base.errors import InputError
from weirlab.numbering.plan.model import Engine, PlanRoute
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing import PlanNetwork
from weirlab.scenario.document import Location


def place(network: PlanNetwork, *location: int | str) -> str:
    """``file:line`` without the file's folder."""
    return Path(network.book.at(*location)).name


def refuse(network: PlanNetwork, location: Location, what: str) -> InputError:
    """The error about something that an engine cannot do."""
    return InputError(f"{network.book.at(*location)}: {what}")


def address(network: PlanNetwork, name: str) -> str:
    """An engine's address; ``InputError`` if it has none."""
    found = network.plan.engines[name].address
    if found is None:
        raise refuse(network, ("engines", name), f"{name} has no address; add it")
    return found


def routes(
    network: PlanNetwork, name: str, arriving: Protocol | None = None, *, after_trees: bool = False
) -> Iterator[tuple[int, PlanRoute]]:
    """Valid routes of an engine, by prefix: those for all protocols and for ``arriving``."""
    found: dict[str, int] = {}
    for table in ((name, None, after_trees), (name, arriving, after_trees)):
        if (prefixes := network.routes.get(table)) is not None:
            found.update(prefixes.items())
    for prefix in sorted(found):
        yield found[prefix], network.plan.routes[found[prefix]]


def leaving(engine: Engine, target: Engine, route: PlanRoute) -> Protocol | None:
    """The outgoing protocol of a route."""
    common = [speak for speak in target.speaks if speak in engine.speaks and route.by in (None, speak)]
    return common[0] if common else None


def sip_uri(network: PlanNetwork, name: str) -> str:
    """The SIP URI of an engine."""
    host = address(network, name)
    shown = f"[{host}]" if ":" in host else host
    engine = network.plan.engines[name]
    transport = ";transport=tcp" if engine.transport == "tcp" else ""
    return f"sip:{shown}:{engine.port('sip')}{transport}"


def uses_tcp(network: PlanNetwork) -> bool:
    """Is there an endpoint that speaks SIP over TCP?"""
    return any(engine.transport == "tcp" for engine in network.plan.engines.values())


def refers(network: PlanNetwork) -> bool:
    """Is there a record that refers to another tree?"""
    return any(record.refer for entry in network.plan.enum for record in entry.naptr)


def forwards(network: PlanNetwork) -> bool:
    """Is there an endpoint that forwards its calls?"""
    return any(engine.forwards_to for engine in network.plan.engines.values())


def feeders(network: PlanNetwork, name: str) -> list[str]:
    """Engines that may send calls to ``name``, in the order of the plan."""
    found = {route.at for route in network.plan.routes if name in route.to and route.holds(network.day)}
    for other, engine in network.plan.engines.items():
        if name in engine.hand_over.values() or engine.home == name:
            found.add(other)
    return [other for other in network.plan.engines if other in found]


def targets(network: PlanNetwork, name: str) -> list[str]:
    """Engines to which the routes of ``name`` lead, in the order of the plan."""
    found = {
        each
        for (at, _, _), prefixes in network.routes.items()
        if at == name
        for _, index in prefixes.items()
        for each in network.plan.routes[index].to
    }
    return [other for other in network.plan.engines if other in found]


def call_agent(network: PlanNetwork, name: str) -> str | None:
    """The gateway that controls an MGCP endpoint: its home, or the one with routes to it; None for others.

    Raises ``InputError`` if there are several.
    """
    found = call_agents(network, name)
    if len(found) > 1:
        what = f"{name} would have the call agents {', '.join(found)}, but obeys one; keep one route to it"
        raise refuse(network, ("engines", name), what)
    return found[0] if found else None


def call_agents(network: PlanNetwork, name: str) -> list[str]:
    """Gateways that would control an MGCP endpoint, which obeys only one (RFC 3435, 2.1.4)."""
    engine = network.plan.engines[name]
    if engine.kind != "endpoint" or "mgcp" not in engine.speaks:
        return []
    near = dict.fromkeys((*filter(None, (engine.home,)), *feeders(network, name)))
    return [other for other in near if "mgcp" in network.plan.engines[other].speaks]


def gatekeeper(network: PlanNetwork, name: str) -> str | None:
    """The gatekeeper at which an engine registers: one that it sends calls to, or gets them from.

    Raises ``InputError`` if there are several.
    """
    found = network.gatekeepers[name]
    if len(found) > 1:
        what = f"{name} has routes with the gatekeepers {', '.join(found)}, but registers with one; keep one"
        raise refuse(network, ("engines", name), what)
    return found[0] if found else None


def past_gatekeeper(network: PlanNetwork, route: PlanRoute, target: str) -> tuple[str, str] | None:
    """Why a route of a gateway cannot lead to ``target`` by H.323, and what to do; None if it can."""
    plan = network.plan
    peer = plan.engines[target]
    keepers = network.gatekeepers[route.at]
    if peer.kind == "gatekeeper" or not keepers or leaving(plan.engines[route.at], peer, route) != "h323":
        return None
    at, keeper = route.at, keepers[0]
    return (
        f"{at} registers with {keeper}, so Asterisk asks {keeper} about every H.323 call",
        f"let {keeper} route the calls to {target}",
    )
