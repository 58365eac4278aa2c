"""The content of a map: engines, name servers, and the links between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from weirlab.numbering.proof.ways import ProofCall
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.zones import servers

MAP: Final = "voice_map"
"""Name under which a run keeps its map."""
DNS: Final = "dns"
"""Kind of name servers, and protocol of the links to them."""


@dataclass(frozen=True)
class Node:
    """An engine or a name server."""

    name: str
    kind: str
    """As in the plan, or ``dns``."""
    organisation: str
    """Empty for none."""
    address: str
    label: str
    """Its name in the map, which is the host for a name server."""


@dataclass(frozen=True)
class Link:
    """A link: one engine calls another, or queries a name server."""

    source: str
    target: str
    protocol: str


@dataclass(frozen=True)
class Chart:
    """A network."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    titles: Mapping[str, str]
    """Titles of organisations, in the order of the plan."""
    caller: str
    device: str = ""
    """The device between a caller and everybody else; empty for none."""
    behind: tuple[str, ...] = ()
    """The callers behind the device."""

    def document(self) -> dict[str, Any]:
        """The chart as a run stores it."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Chart:
        """The chart that a run has stored."""
        return cls(
            nodes=tuple(Node(**each) for each in document["nodes"]),
            links=tuple(Link(**each) for each in document["links"]),
            titles=dict(document["titles"]),
            caller=str(document["caller"]),
            device=str(document.get("device", "")),
            behind=tuple(document.get("behind", ())),
        )


def charted(network: PlanNetwork, planned: Iterable[ProofCall], device: str = "") -> Chart:
    """The network of a plan, with its links and those that ``planned`` calls are expected to take.

    ``device`` is the device next to their callers; empty for none.
    """
    plan, calls = network.plan, [*planned]
    engines = [
        Node(name, engine.kind, engine.organisation or "", engine.address or "", name)
        for name, engine in plan.engines.items()
    ]
    asked = [Node(server.name, DNS, "", server.address or "", server.host) for server in servers(network)]
    found = dict.fromkeys((*_named(network), *_called(calls), *_asking(network, asked)))
    titles = {name: each.title or name for name, each in plan.organisations.items()}
    behind = tuple(dict.fromkeys(call.caller for call in calls)) if device else ()
    return Chart((*engines, *asked), tuple(found), titles, plan.caller, device, behind)


def _named(network: PlanNetwork) -> Iterator[Link]:
    engines = network.plan.engines
    pairs: list[tuple[str, str, str | None]] = [
        (name, engine.home, None) for name, engine in engines.items() if engine.home is not None
    ]
    for route in network.plan.routes:
        if route.holds(network.day):
            pairs += [(route.at, target, route.by) for target in route.to]
    for name, engine in engines.items():
        pairs += [(name, gateway, None) for gateway in engine.hand_over.values()]
    for source, target, by in pairs:
        common = (speak for speak in engines[target].speaks if speak in engines[source].speaks)
        if (protocol := by or next(common, None)) is not None:
            yield Link(source, target, protocol)


def _called(calls: Iterable[ProofCall]) -> Iterator[Link]:
    for call in calls:
        for step in call.way.steps:
            if step.what == "leg":
                yield Link(step.engine, str(step.facts["to"]), str(step.facts["protocol"]))


def _asking(network: PlanNetwork, asked: list[Node]) -> Iterator[Link]:
    for name, engine in network.plan.engines.items():
        if engine.trees:
            yield from (Link(name, server.name, DNS) for server in asked)
