"""H.323: tables of gatekeepers as JSON and for GNU Gatekeeper (direct mode), and settings of telephones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from weirlab.numbering.configs import admission, parts, sipp
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.routing import PlanNetwork, profiles
from weirlab.numbering.routing.calls import emergency

RAS_PORT: Final = 1719
"""Port for requests to gatekeepers (H.225.0, Appendix IV)."""


def gatekeeper_files(network: PlanNetwork, name: str, root: str) -> dict[str, str]:
    """``gatekeeper.json`` and ``gnugk.ini``."""
    engine = network.plan.engines[name]
    for i, rule in enumerate(engine.rewrite):
        if limit := profiles.rewrite_limit(engine, rule):
            raise parts.refuse(network, ("engines", name, "rewrite", i), limit)
    return {
        "gatekeeper.json": json.dumps(_table(network, name), indent=2) + "\n",
        "gnugk.ini": "\n".join(_gnugk(network, name)) + "\n",
    }


def _table(network: PlanNetwork, name: str) -> dict[str, object]:
    """Prefixes without +, each with its targets in the order of preference."""
    plan = network.plan
    engine = plan.engines[name]
    return {
        "gatekeeper": name,
        "plan": plan.plan,
        "address": parts.address(network, name),
        "ras_port": RAS_PORT,
        "trees": [{"tree": tree, "suffix": plan.trees[tree].suffix} for tree in engine.trees],
        "hand_over": {protocol: _target(network, other) for protocol, other in engine.hand_over.items()},
        "neighbours": {
            parts.address(network, other): other
            for other in parts.feeders(network, name)
            if plan.engines[other].kind == "gatekeeper"
        },
        "prefixes": [
            {
                "prefix": route.prefix[1:],
                "strip": route.strip,
                "prepend": route.prepend.removeprefix("+"),
                "targets": [_target(network, target) for target in route.to],
                "place": parts.place(network, "routes", index),
            }
            for index, route in parts.routes(network, name, "h323")
        ],
        **({"callers": callers} if (callers := _callers(network, name)) else {}),
        **({"closed": True} if admission.is_closed(network, name) else {}),
    }


def _callers(network: PlanNetwork, name: str) -> dict[str, object]:
    """Gateways and telephones with admission rules, by address."""
    found: dict[str, object] = {}
    for other, caller in network.plan.engines.items():
        if caller.kind == "gatekeeper" or "h323" not in caller.speaks or caller.address is None:
            continue
        admitted = network.admits(network.plan.engines[name], caller.organisation)
        may_call = admission.permissions(network, name, caller)
        most_calls = admission.most_calls(network, name, caller)
        # One that calls here is known to neighbours by its name.
        is_here = caller.home == name or (caller.kind == "gateway" and name in network.gatekeepers[other])
        if not admitted or may_call or most_calls is not None or is_here:
            found[caller.address] = {
                "engine": other,
                "organisation": caller.organisation or "",
                "admitted": admitted,
                "may_call": may_call,
                "most_calls": most_calls,
                **({} if most_calls is None else {"emergency": emergency(network, name, "h323")}),
                "place": parts.place(network, "organisations", caller.organisation or ""),
            }
    return found


def _target(network: PlanNetwork, name: str) -> dict[str, object]:
    neighbour = {"neighbour": True} if network.plan.engines[name].kind == "gatekeeper" else {}
    return {**_place(network, name), **neighbour}


def _place(network: PlanNetwork, name: str) -> dict[str, object]:
    """Where a gatekeeper takes requests, or another engine calls."""
    engine = network.plan.engines[name]
    port = RAS_PORT if engine.kind == "gatekeeper" else engine.port("h323")
    return {"engine": name, "address": parts.address(network, name), "port": port}


def gaps(network: PlanNetwork, name: str) -> list[str]:
    """What the plan has the gatekeeper ``name`` do and ``gnugk.ini`` does not say."""
    engine = network.plan.engines[name]
    found = []
    organisations = {each.organisation for each in network.plan.engines.values() if each.home == name}
    rules = [network.plan.organisations[each] for each in organisations if each is not None]
    if admission.is_closed(network, name) or any(
        each.barred or each.may_call is not None or each.most_calls is not None for each in rules
    ):
        found.append(
            "rules of admission: Weir's own gatekeeper enforces them, and with this file all calls pass"
        )
    if engine.hand_over:
        found.append("records for other protocols: GNU Gatekeeper knows no gateways for them")
    if any(route.prefix == "+" and route.prepend for _, route in parts.routes(network, name, "h323")):
        found.append("digits in front of all numbers: GNU Gatekeeper replaces prefixes")
    return found


def _gnugk(network: PlanNetwork, name: str) -> Iterator[str]:
    plan = network.plan
    engine = plan.engines[name]
    where = parts.place(network, "engines", name)
    yield f"; Gatekeeper {name} of plan {plan.plan} ({where}), made by weir voice"
    yield "; configs: change the plan instead."
    yield f"[Gatekeeper::Main]\nName={name}\nHome={parts.address(network, name)}"
    yield "[RoutedMode]\nGKRouted=0"
    yield from (f"; Not here: {gap}." for gap in gaps(network, name))
    if engine.trees:
        yield f"ENUMservers={','.join(plan.trees[tree].suffix for tree in engine.trees)}"
    near = [*parts.feeders(network, name), *parts.targets(network, name)]
    neighbours = [
        other for other in dict.fromkeys(near) if plan.engines[other].kind == "gatekeeper" and other != name
    ]
    policy = ["internal", *(["enum"] if engine.trees else []), *(["neighbor"] if neighbours else [])]
    yield f"[RoutingPolicy]\ndefault={','.join(policy)}"
    prefixes: dict[str, list[str]] = {}
    rewrites: dict[str, list[str]] = {}
    priorities: dict[str, int] = {}
    to_neighbours: list[str] = []
    for index, route in parts.routes(network, name, "h323"):
        if route.to[0] in neighbours:
            to_neighbours.append(route.prefix[1:])
        for rank, target in enumerate(route.to, 1):
            # "*" makes a gateway the default, in the order of the gateways' own priorities: the lowest first.
            listed = (route.prefix[1:] or "*") + (f":={rank}" if len(route.to) > 1 else "")
            prefixes.setdefault(target, []).append(listed)
            if len(route.to) > 1 and len(route.prefix) == 1:
                priorities[target] = rank
            if (route.strip or route.prepend) and len(route.prefix) > 1:
                digits = route.prefix[1:]
                if limit := profiles.strip_limit(engine, route):
                    raise parts.refuse(network, ("routes", index), limit)
                new = route.prepend.removeprefix("+") + digits[route.strip :]
                rewrites.setdefault(target, []).append(f"out={digits}={new}")
    yield from _neighbours(network, neighbours, prefixes)
    yield "[RasSrv::PermanentEndpoints]"
    for target, listed_prefixes in prefixes.items():
        if target in neighbours:
            continue
        yield f"; {parts.place(network, 'engines', target)}"
        port = plan.engines[target].port("h323")
        # Neighbours are asked last: a shorter prefix here would keep their numbers from them.
        own = [each.partition(":")[0].replace("*", "") for each in listed_prefixes]
        past = [f"!{each}" for each in to_neighbours if each not in own and each.startswith(tuple(own))]
        yield f"{parts.address(network, target)}:{port}={target};{','.join([*listed_prefixes, *past])}"
    yield from (f"[EP::{target}]\nGatewayPriority={rank}" for target, rank in priorities.items())
    if rewrites:
        yield "[RasSrv::GWRewriteE164]"
        for target, rules in rewrites.items():
            yield f"{target}={';'.join(rules)}"


def _neighbours(network: PlanNetwork, names: list[str], prefixes: dict[str, list[str]]) -> Iterator[str]:
    """The neighbours: gatekeepers that are asked for the numbers that routes send them, and may ask."""
    if names:
        yield "[RasSrv::Neighbors]"
        yield from (f"{name}=GnuGK" for name in names)
    for name in names:
        yield f"; {parts.place(network, 'engines', name)}"
        yield f"[Neighbor::{name}]\nGatekeeperIdentifier={name}"
        yield f"Host={parts.address(network, name)}:{RAS_PORT}"
        if name in prefixes:
            yield f"SendPrefixes={','.join(prefixes[name])}"
        yield "AcceptPrefixes=*"


ORDERS = "orders"
"""The Unix socket at which a telephone takes orders, in its folder."""


def is_one(engine: Engine) -> bool:
    """Is an engine an H.323 telephone? One that also speaks SIP counts as a SIP telephone."""
    return engine.kind == "endpoint" and "h323" in engine.speaks and "sip" not in engine.speaks


def telephone_files(network: PlanNetwork, name: str, root: str) -> dict[str, str]:
    """``telephone.json``; the telephone's folder is ``root``."""
    engine = network.plan.engines[name]
    keeper = parts.gatekeeper(network, name)
    gateway = engine.home if engine.home is not None and engine.home != keeper else None
    document = {
        "telephone": name,
        "plan": network.plan.plan,
        "address": parts.address(network, name),
        "port": engine.port("h323"),
        "gatekeeper": _place(network, keeper) if keeper is not None else None,
        "home": _place(network, gateway) if gateway is not None else None,
        "codecs": [_codec(network, name, codec) for codec in engine.codecs or ("alaw",)],
        "orders": f"{root}/{ORDERS}",
    }
    return {"telephone.json": json.dumps(document, indent=2) + "\n"}


def _codec(network: PlanNetwork, name: str, codec: str) -> dict[str, object]:
    if codec not in sipp.PAYLOADS:
        what = f"telephones speak {', '.join(sipp.PAYLOADS)}, and not {codec}"
        raise parts.refuse(network, ("engines", name, "codecs"), what)
    return {"codec": codec, "payload": sipp.PAYLOADS[codec][0], "bytes": sipp.BYTES[codec]}
