"""Engines: addresses, gateways for foreign protocols, homes, rewriting.

Also what the engines that carry the plan out cannot do.
"""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.checking.findings import PlanFinding, error, named
from weirlab.numbering.configs import h323, parts, sipp
from weirlab.numbering.ere import BadExpression, Substitution
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing import PlanNetwork, profiles
from weirlab.numbering.routing.wording import PROTOCOLS


def addresses(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every engine has an address, and no two engines share a socket."""
    plan, at = network.plan, network.book.at
    sockets: dict[tuple[str, int, bool], tuple[str, Protocol]] = {}
    for name, engine in plan.engines.items():
        if engine.address is None:
            yield error(
                "no address",
                at("engines", name),
                f"{name} has no address: no engine can send a call there",
                "add its address",
            )
            continue
        for protocol in engine.speaks:
            socket = (engine.address, engine.port(protocol), protocol == "h323")
            other = sockets.setdefault(socket, (name, protocol))
            if other[0] != name:
                yield error(
                    "same address",
                    at("engines", name, "address"),
                    f"{name} and {other[0]} both listen at {engine.address}, port {socket[1]}",
                    "give one of them another address, or another port under ports",
                )


def hand_over(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A gateway that takes calls for a foreign protocol speaks it, and a protocol of the engine."""
    plan, at = network.plan, network.book.at
    for name, engine in plan.engines.items():
        for protocol, other in engine.hand_over.items():
            place = at("engines", name, "hand_over", protocol)
            gateway = plan.engines[other]
            spoken = named(PROTOCOLS[speak] for speak in gateway.speaks)
            if protocol in engine.speaks:
                yield error(
                    "hand over",
                    place,
                    f"{name} speaks {PROTOCOLS[protocol]} itself, so nothing is handed over",
                    "remove it",
                )
            elif gateway.kind != "gateway" or protocol not in gateway.speaks:
                yield error(
                    "hand over",
                    place,
                    f"{other} cannot take calls for {PROTOCOLS[protocol]}: it is {_a(gateway.kind)} that "
                    f"speaks {spoken}",
                    f"name a gateway that speaks {PROTOCOLS[protocol]}",
                )
            elif not set(gateway.speaks).intersection(engine.speaks):
                yield error(
                    "hand over",
                    place,
                    f"{other} speaks {spoken}, but {name} can only use {PROTOCOLS[engine.speaks[0]]}",
                    f"name a gateway that also speaks {PROTOCOLS[engine.speaks[0]]}",
                )


def homes(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every caller has a home that routes."""
    plan, at = network.plan, network.book.at
    callers = {plan.caller: at("caller")}
    for i, test in enumerate(plan.tests):
        if test.caller is not None:
            callers.setdefault(test.caller, at("tests", i, "caller"))
    for name, place in callers.items():
        if plan.engines[name].home is None:
            yield error(
                "no home",
                place,
                f"{name} makes calls, but has no home",
                "set home: of the endpoint to the engine that routes its calls",
            )
    for name, engine in plan.engines.items():
        if engine.home is None:
            continue
        home = plan.engines[engine.home]
        if home.kind == "endpoint":
            yield error(
                "no home",
                at("engines", name, "home"),
                f"{engine.home}, the home of {name}, is an endpoint, and endpoints do not route",
                "name a proxy, gateway or gatekeeper",
            )
        elif not set(home.speaks).intersection(engine.speaks):
            yield error(
                "no protocol",
                at("engines", name, "home"),
                f"{name} speaks {named(PROTOCOLS[p] for p in engine.speaks)}, but its home {engine.home} "
                f"speaks {named(PROTOCOLS[p] for p in home.speaks)}",
                "name a home that speaks its protocol",
            )


def registrations(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A gateway or telephone that speaks H.323 registers with a single gatekeeper."""
    for name, engine in network.plan.engines.items():
        keepers = network.gatekeepers[name]
        registers = h323.is_one(engine) or (engine.kind == "gateway" and "h323" in engine.speaks)
        if registers and len(keepers) > 1:
            yield error(
                "two gatekeepers",
                network.book.at("engines", name),
                f"{name} has routes with the gatekeepers {named(keepers)}, but can register with only one",
                "keep the routes with one of them; gatekeepers can have routes to each other",
            )


def rewrites(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every rewrite rule is valid, gives a number that can be routed, and can be applied by its engine."""
    for name, engine in network.plan.engines.items():
        for i, rule in enumerate(engine.rewrite):
            place = network.book.at("engines", name, "rewrite", i)
            try:
                substitution = Substitution.of(rule.match, rule.replace)
            except BadExpression as wrong:
                yield error(
                    "bad regexp",
                    place,
                    f"{rule.match} to {rule.replace} is not a valid rule: {wrong}",
                    r"write POSIX extended regular expressions, such as ^00(.*)$ and +\1",
                )
                continue
            yield from _limited(
                network, name, ("engines", name, "rewrite", i), profiles.rewrite_limit(engine, rule)
            )
            if substitution.apply("+420123456789") not in (None, "+420123456789"):
                continue
            if not rule.replace.startswith(("+", "\\")):
                yield error(
                    "bad rewrite",
                    place,
                    f"the result {rule.replace} does not begin like an international number",
                    r"begin it with + and a country code, such as +420\1",
                )


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "endpoint" else f"a {kind}"


_CODE = "engine cannot"


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
    """Engines can change numbers, and wait for the answers of trees, as routes say."""
    for i, route in network.each_route():
        engine = network.plan.engines[route.at]
        yield from _limited(network, route.at, ("routes", i, "strip"), profiles.strip_limit(engine, route))
        after = profiles.after_limit(engine, route)
        yield from _limited(network, route.at, ("routes", i, "after_trees"), after)


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
        kind = network.plan.engines[name].kind
        yield error(_CODE, network.book.at(*location), f"{kind} {name}: {reason}", proposal)
