"""What the engines that carry the plan out cannot do: configurations for them would be refused."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.checking.findings import PlanFinding, error, named
from weirlab.numbering.configs import parts, sipp
from weirlab.numbering.ere import BadExpression, Substitution
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.routing import PlanNetwork, profiles

_CODE = "engine cannot"


def rewrites(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every engine can apply its rules."""
    for name, engine in network.plan.engines.items():
        for i, rule in enumerate(engine.rewrite):
            try:
                Substitution.of(rule.match, rule.replace)
            except BadExpression:
                continue
            yield from _limited(
                network, name, ("engines", name, "rewrite", i), profiles.rewrite_limit(engine, rule)
            )


def records(network: PlanNetwork) -> Iterator[PlanFinding]:
    """The engines that ask a tree can follow its records."""
    engines = network.plan.engines
    for i, entry in network.each_entry():
        for j, record in enumerate(entry.naptr):
            for name in sorted(network.askers[entry.tree]):
                if limit := profiles.record_limit(engines[name], entry, record):
                    yield from _limited(network, name, ("enum", i, "naptr", j), limit)
                    break


def trees(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Engines that name trees can ask them."""
    for name, engine in network.plan.engines.items():
        yield from _limited(network, name, ("engines", name, "trees"), profiles.tree_limit(engine))


def changes(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Engines can change numbers as routes say."""
    for i, route in network.each_route():
        engine = network.plan.engines[route.at]
        yield from _limited(network, route.at, ("routes", i, "strip"), profiles.strip_limit(engine, route))


def codecs(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Endpoints speak codecs that calls for a proof can use."""
    for name, engine in network.plan.engines.items():
        if engine.kind != "endpoint" or not {"sip", "h323"} & {*engine.speaks}:
            continue
        for rank, codec in enumerate(engine.codecs):
            if codec not in sipp.PAYLOADS:
                spoken = f"endpoints speak {', '.join(sipp.PAYLOADS)}, and not {codec}; leave it out"
                yield from _limited(network, name, ("engines", name, "codecs", rank), spoken)


def call_agents(network: PlanNetwork) -> Iterator[PlanFinding]:
    """An MGCP endpoint obeys one call agent (RFC 3435, 2.1.4)."""
    for name in network.plan.engines:
        if len(found := parts.call_agents(network, name)) > 1:
            yield error(
                "two call agents",
                network.book.at("engines", name),
                f"{name} would be controlled by {named(found)}, but obeys one call agent",
                "keep its routes and its home with one gateway",
            )


def _limited(
    network: PlanNetwork, name: str, location: tuple[str | int, ...], limit: str
) -> Iterator[PlanFinding]:
    if limit:
        reason, _, proposal = limit.partition("; ")
        yield error(
            _CODE, network.book.at(*location), f"{_a(network.plan.engines[name], name)}: {reason}", proposal
        )


def _a(engine: Engine, name: str) -> str:
    return f"{engine.kind} {name}"
