"""The kinds of routes of which calls are examples, by the plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from itertools import pairwise
from typing import Final

from weirlab.numbering.plan.model import EnumEntry, Naptr, PlanRoute
from weirlab.numbering.plan.values import MOST_SHORT_DIGITS, spelling
from weirlab.numbering.proof.ways import ProofCall
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import uri_of
from weirlab.numbering.routing.profiles import serves
from weirlab.numbering.routing.trees import EnumTree
from weirlab.numbering.routing.wording import PROTOCOLS, RouteStep

_GROUP: Final = re.compile(r"\\[1-9]")

_ENDS: Final = {
    "not admitted": "organisation not admitted (403)",
    "barred": "barred number (403)",
    "no route": "number that leads nowhere (404)",
    "no number": "no international number (484)",
    "no digits": "no digits left (484)",
    "no codec": "no common codec (488)",
    "loop": "loop (482)",
    "busy": "busy line (486)",
    "no dialog": "request for an unknown call (481)",
    "too many calls": "call limit (503)",
}

_RULES: Final = ("not admitted", "barred", "too many calls")
"""Ends by admission rules, which each kind of engine enforces in its own way."""


def kinds(network: PlanNetwork, planned: ProofCall, others: Sequence[ProofCall] = ()) -> tuple[str, ...]:
    """The kinds of which a call is an example; ``others`` are all calls of the proof."""
    return tuple(dict.fromkeys(_all(network, planned, others)))


def _all(network: PlanNetwork, planned: ProofCall, others: Sequence[ProofCall]) -> Iterator[str]:
    if planned.down is not None:
        yield from _failing(network, planned)
        return
    for step, following in pairwise((*planned.way.steps, None)):
        if step is not None and planned.way.end.kind != "no dialog":
            yield from _of_step(network, step)
            if step.what == "no entry" and following is not None and following.what in ("no entry", "tree"):
                yield "tree without an entry: the next one is asked"
    end = planned.way.end
    if end.kind in _ENDS:
        by = network.plan.engines[end.engine].kind
        number = planned.test.number
        if number != spelling(number):
            yield "number in another spelling"
        yield _ENDS[end.kind] + (f" by a {by}" if end.kind in _RULES and by != "proxy" else "")
    elif end.kind == "answered":
        yield from _of_ends(network, planned)
        back = [other for other in others if other.down is None and other.way.end.kind == "answered"]
        if any((each.caller, each.way.end.engine) == (end.engine, planned.caller) for each in back):
            yield "both directions"
    kinds_of = [network.plan.engines[name].kind for name in planned.way.engines]
    if kinds_of.count("proxy") > 1:
        yield "two proxies"
    if end.kind == "answered":
        yield from _of_gateways(network, planned)
        if kinds_of.count("gatekeeper") > 1:
            yield "two gatekeepers (LRQ)"
        elif "gatekeeper" in kinds_of:
            yield "gatekeeper in direct mode"


def _of_gateways(network: PlanNetwork, planned: ProofCall) -> Iterator[str]:
    """What gateways do to the call: translate it, or pass it on."""
    legs = [step for step in planned.way.steps if step.what == "leg"]
    for before, after in pairwise(legs):
        if network.plan.engines[after.engine].kind == "gateway":
            come, goes = (PROTOCOLS[step.facts["protocol"]] for step in (before, after))
            yield f"{come} to {goes} through a gateway"


def _failing(network: PlanNetwork, planned: ProofCall) -> Iterator[str]:
    """The kinds of a call with a failure; the call without one shows all others."""
    assert planned.down is not None
    if planned.down not in network.plan.engines:
        yield "primary name server off: the secondary answers"
        return
    if planned.fault == "486":
        yield "busy: no fall-back (486)"
        return
    steps = planned.way.steps
    routed = [step.place for step in steps if step.what == "leg" and step.place[0] == "routes"]
    if any(step.what == "record" and not step.facts["first"] for step in steps):
        target = "next NAPTR record"
    elif any(place[3] != 0 for place in routed):
        target = "next target of a route"
    elif any(network.plan.routes[int(place[1])].after_trees for place in routed):
        target = "route after the trees"
    else:
        target = "next SRV target"
    yield f"fall-back to the {target}: " + ("503" if planned.fault == "503" else "no answer")


def _of_step(network: PlanNetwork, step: RouteStep) -> Iterator[str]:
    match step.what:
        case "rewritten":
            yield _dialled(network, str(step.facts["before"]))
        case "prefix":
            yield from _of_route(network, network.plan.routes[int(step.place[1])], step)
        case "tree":
            yield from _of_tree(network, step)
        case "unusable record":
            yield "record that cannot be used is passed over"
        case "referred":
            yield "non-terminal NAPTR"
        case "record":
            entry = network.plan.enum[int(step.place[1])]
            yield from _of_record(network, entry, entry.naptr[int(step.place[3])], step)
        case "resolved":
            yield from _of_name(network, step)
        case "forwarded":
            yield "forwarding (302)"
        case "handed over":
            yield f"record for {PROTOCOLS[step.facts['protocol']]}, handed over to a gateway"


def _dialled(network: PlanNetwork, number: str) -> str:
    if number in network.plan.emergency:
        return "emergency number"
    if len(number.removeprefix("+")) <= MOST_SHORT_DIGITS:
        return "short number"
    if number.startswith("00"):
        return "international number dialled with 00"
    return "national number"


def _of_route(network: PlanNetwork, route: PlanRoute, step: RouteStep) -> Iterator[str]:
    yield "route after the trees" if route.after_trees else "route by prefix"
    digits = step.number.removeprefix("+")
    also = [
        each
        for each in network.plan.routes
        if (each.at, each.after_trees) == (route.at, route.after_trees) and digits.startswith(each.prefix[1:])
    ]
    # Of routes that lead to the same targets, nobody can tell which was taken.
    also = [
        each for each in also if (each.to, each.strip, each.prepend) != (route.to, route.strip, route.prepend)
    ]
    if any(len(each.prefix) < len(route.prefix) and each.holds(network.day) for each in also):
        yield "longest prefix"
    if any(len(each.prefix) >= len(route.prefix) and not each.holds(network.day) for each in also):
        yield "validity dates"
    if route.strip:
        yield "digits stripped"
    if route.prepend:
        yield "digits put in front"


def _of_tree(network: PlanNetwork, step: RouteStep) -> Iterator[str]:
    plan, name = network.plan, str(step.facts["tree"])
    digits = step.number.removeprefix("+")
    yield f"{plan.trees[name].visibility} ENUM tree"
    trees = plan.engines[step.engine].trees
    index = network.trees[name].lookup(digits)
    assert index is not None
    entry = plan.enum[index]
    later = (network.trees[other].lookup(digits) for other in trees[trees.index(name) + 1 :])
    others = (plan.enum[other] for other in later if other is not None)
    if any(_uris(network, step, other) - _uris(network, step, entry) for other in others):
        yield "order of trees"
    if entry.number is not None:
        yield "single number in ENUM"
        return
    yield "wildcard in ENUM"
    held = ((i, each) for i, each in enumerate(plan.enum) if each.tree == name and each.holds(network.day))
    by_hand = EnumTree(plan.trees[name].model_copy(update={"fill_holes": False}), held)
    if by_hand.lookup(digits) is None:
        yield "hole below a wildcard, closed (RFC 4592)"


def _uris(network: PlanNetwork, step: RouteStep, entry: EnumEntry) -> set[str]:
    """The URIs of an entry that the engine of a step can use."""
    engine = network.plan.engines[step.engine]
    found = (uri_of(engine, entry, each, step.number) for each in entry.naptr if each.refer is None)
    return {text for text, _, why in found if text is not None and not why}


def _of_record(network: PlanNetwork, entry: EnumEntry, record: Naptr, step: RouteStep) -> Iterator[str]:
    # A record that the engine cannot use, or that leads to the same place, loses in any order.
    alone = (entry.model_copy(update={"naptr": (each,)}) for each in entry.naptr if each is not record)
    others = [each.naptr[0] for each in alone if _uris(network, step, each) - {step.facts["uri"]}]
    if any(other.order > record.order for other in others):
        yield "NAPTR order"
    if any(other.order == record.order and other.preference > record.preference for other in others):
        yield "NAPTR preference"
    # The replacement is between the second delimiter and the third.
    replacement = record.expression.split(record.expression[0])[2]
    yield f"regexp {'with' if _GROUP.search(replacement) else 'without'} back-reference"


def _of_name(network: PlanNetwork, step: RouteStep) -> Iterator[str]:
    by = step.facts["by"]
    if by == "SRV":
        _, host, _, index = step.place
        services = [service for service in network.plan.domains[str(host)].services if serves(service, "sip")]
        taken = network.plan.domains[str(host)].services[int(index)]
        yield "SRV record"
        addresses = network.names.addresses
        services = [
            each for each in services if addresses.get(each.target) not in (None, step.facts["address"])
        ]
        if any(service.priority > taken.priority for service in services):
            yield "SRV priority"
        if any(service.priority == taken.priority and service.weight < taken.weight for service in services):
            yield "SRV weight"
    elif by == "A":
        yield "host name without SRV record"
    else:
        yield "address in a URI"


def _of_ends(network: PlanNetwork, planned: ProofCall) -> Iterator[str]:
    engines = network.plan.engines
    caller, callee = engines[planned.caller], engines[planned.way.end.engine]
    codec = next(iter(planned.codecs[-1:]), None)
    common = [each for each in caller.codecs if each in callee.codecs]
    if codec and len(common) > 1 and common != [each for each in callee.codecs if each in common]:
        yield "codec preference"
    if "tcp" in (caller.transport, callee.transport):
        yield "SIP over TCP"
    if "h323" in caller.speaks[:1]:
        yield "H.323 telephone calls"
    if "h323" in callee.speaks[:1]:
        yield "H.323 telephone answers"
        between = {engines[name].kind for name in planned.way.engines[1:-1]}
        if "h323" in caller.speaks[:1] and between == {"gatekeeper"}:
            yield "H.323 telephone to H.323 telephone, directly"
    if callee.early_media:
        yield "early media (183)"
    if callee.address is not None and ip_address(callee.address).version == 6:
        yield "IPv6"
