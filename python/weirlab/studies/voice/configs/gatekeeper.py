"""Gatekeepers: a table as JSON, and the same for GNU Gatekeeper, in direct mode."""

from __future__ import annotations

import json
from collections.abc import Iterator

from weirlab.studies.voice.configs import parts
from weirlab.studies.voice.routing import Network


def files(network: Network, name: str, root: str) -> dict[str, str]:
    """``gatekeeper.json`` and ``gnugk.ini``."""
    return {
        "gatekeeper.json": json.dumps(_table(network, name), indent=2) + "\n",
        "gnugk.ini": "\n".join(_gnugk(network, name)) + "\n",
    }


def _table(network: Network, name: str) -> dict[str, object]:
    """Prefixes without +, each with its targets in the order of preference."""
    plan = network.plan
    engine = plan.engines[name]
    return {
        "gatekeeper": name,
        "plan": plan.plan,
        "address": parts.address(network, name),
        "ras_port": 1719,
        "trees": [plan.trees[tree].suffix for tree in engine.trees],
        "hand_over": {
            protocol: {
                "engine": other,
                "address": parts.address(network, other),
                "port": plan.engines[other].port("h323"),
            }
            for protocol, other in engine.hand_over.items()
        },
        "prefixes": [
            {
                "prefix": route.prefix[1:],
                "strip": route.strip,
                "prepend": route.prepend.removeprefix("+"),
                "targets": [
                    {
                        "engine": target,
                        "address": parts.address(network, target),
                        "port": plan.engines[target].port("h323"),
                    }
                    for target in route.to
                ],
                "place": parts.place(network, "routes", index),
            }
            for index, route in parts.routes(network, name, "h323")
        ],
    }


def _gnugk(network: Network, name: str) -> Iterator[str]:
    plan = network.plan
    engine = plan.engines[name]
    where = parts.place(network, "engines", name)
    yield f"; Gatekeeper {name} of plan {plan.plan} ({where}), made by weir voice"
    yield "; configs: change the plan instead."
    yield f"[Gatekeeper::Main]\nName={name}\nHome={parts.address(network, name)}"
    yield "[RoutedMode]\nGKRouted=0"
    if engine.hand_over:
        yield "; GNU Gatekeeper knows no gateways for other protocols: records for them are not followed."
    if engine.trees:
        yield f"ENUMservers={','.join(plan.trees[tree].suffix for tree in engine.trees)}"
    yield f"[RoutingPolicy]\ndefault=internal{',enum' if engine.trees else ''}"
    yield "[RasSrv::PermanentEndpoints]"
    prefixes: dict[str, list[str]] = {}
    rewrites: dict[str, list[str]] = {}
    for index, route in parts.routes(network, name, "h323"):
        for rank, target in enumerate(route.to, 1):
            # The lowest priority comes first; 1 is the default.
            listed = route.prefix[1:] + (f":={rank}" if len(route.to) > 1 else "")
            prefixes.setdefault(target, []).append(listed)
            if route.strip or route.prepend:
                digits = route.prefix[1:]
                if route.strip > len(digits):
                    what = "GNU Gatekeeper rewrites prefixes: it cannot strip more digits than the prefix has"
                    raise parts.refuse(network, ("routes", index), what)
                new = route.prepend.removeprefix("+") + digits[route.strip :]
                rewrites.setdefault(target, []).append(f"out={digits}={new}")
    for target, listed_prefixes in prefixes.items():
        yield f"; {parts.place(network, 'engines', target)}"
        port = plan.engines[target].port("h323")
        yield f"{parts.address(network, target)}:{port}={target};{','.join(listed_prefixes)}"
    if rewrites:
        yield "[RasSrv::GWRewriteE164]"
        for target, rules in rewrites.items():
            yield f"{target}={';'.join(rules)}"
