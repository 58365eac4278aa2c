"""BIND 9 as the primary server of a plan's zones; those of public trees are signed by its default policy."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.studies.voice.routing import Network
from weirlab.studies.voice.zones import written, zones


def files(network: Network, root: str) -> dict[str, str]:
    """``named.conf`` and the zones."""
    found = {f"{zone.origin}.zone": written(zone) for zone in zones(network)}
    return {"named.conf": "\n".join(_lines(network, root)) + "\n", **found}


def _lines(network: Network, root: str) -> Iterator[str]:
    plan = network.plan
    assert plan.dns is not None
    addresses = network.names.addresses
    yield f"// Name server of plan {plan.plan}, made by weir voice configs: change the plan instead."
    yield "options {"
    yield f'  directory "{root}"; pid-file "{root}/named.pid"; session-keyfile "{root}/session.key";'
    yield f"  {_listening(addresses.get(plan.dns.primary))}"
    allowed = [addresses[name] for name in plan.dns.secondaries if name in addresses]
    transfer = " ".join(f"{address};" for address in allowed) or "none;"
    yield f"  recursion no; dnssec-validation no; allow-transfer {{ {transfer} }};"
    yield "  empty-zones-enable no;"
    yield "};"
    yield "controls { };"
    for name, tree in plan.trees.items():
        signed = ""
        if tree.visibility == "public":
            signed = " dnssec-policy default; inline-signing yes;"
        yield f'zone "{tree.origin}" {{ type master; file "{tree.origin}.zone";{signed} }};  // tree {name}'
    for origin in plan.domains:
        yield f'zone "{origin}" {{ type master; file "{origin}.zone"; }};'


def _listening(address: str | None) -> str:
    """At the primary's address alone, if the plan has one."""
    if address is not None and ":" in address:
        return f"listen-on {{ none; }}; listen-on-v6 port 53 {{ {address}; }};"
    here = "" if address is None else f"listen-on port 53 {{ {address}; }}; "
    return f"{here}listen-on-v6 {{ none; }};"
